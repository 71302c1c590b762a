#include <cmath>
#include <limits>
#include <ostream>
#include <stdexcept>

#include <camber/nn/bounded_scale.h>

#include <torch/autograd.h>

namespace camber::nn {
namespace {

// Where a sigmoid scale lands when new bounds cut its value off, as a share of the range. Closer to the bound its
// gradient would be as good as dead.
constexpr double kSigmoidMargin = 1e-3;

// The map from raw to value. Bounds of raw are rounded to raw's type first, so that a projected raw compares as equal.
struct Map {
  Constraint constraint;
  bool log;
  double min;
  double max;
  double raw_min;
  double raw_max;

  // The clamping kinds have a place outside the bounds; log_clamp has no lower bound.
  bool clamps() const { return constraint != Constraint::kSigmoid && constraint != Constraint::kNone; }
  double lowest_raw() const {
    return constraint == Constraint::kLogClamp ? -std::numeric_limits<double>::infinity() : raw_min;
  }
};

double round_to(double value, torch::ScalarType type) {
  return torch::scalar_tensor(value, type).item<double>();
}

Map make_map(const BoundedScaleOptions& options, double min, double max, torch::ScalarType type) {
  const bool log = options.in_log_space();
  return {.constraint = options.constraint,
          .log = log,
          .min = min,
          .max = max,
          .raw_min = round_to(log ? std::log(min) : min, type),
          .raw_max = round_to(log ? std::log(max) : max, type)};
}

torch::Tensor sigmoid_value(const torch::Tensor& share, const Map& map) {
  if (map.log) {
    const double low = std::log(map.min);
    return torch::exp(low + (std::log(map.max) - low) * share).clamp(map.min, map.max);
  }
  return (map.min + (map.max - map.min) * share).clamp(map.min, map.max);
}

torch::Tensor map_value(const torch::Tensor& x, const Map& map) {
  if (map.constraint == Constraint::kSigmoid) {
    return sigmoid_value(torch::sigmoid(x), map);
  }
  if (map.constraint == Constraint::kNone) {
    return map.log ? torch::exp(x) : x.clone();
  }
  torch::Tensor inside = torch::clamp(x, map.lowest_raw(), map.raw_max);
  if (!map.log) {
    return inside;
  }
  // exp(ln max) rounds to either side of max; on the bound the value is the bound.
  const torch::Tensor value = torch::where(x >= map.raw_max, map.max, torch::exp(inside));
  return map.constraint == Constraint::kLogClamp ? value : torch::where(x <= map.raw_min, map.min, value);
}

torch::Tensor map_slope(const torch::Tensor& x, const Map& map) {
  switch (map.constraint) {
    case Constraint::kSigmoid: {
      const torch::Tensor share = torch::sigmoid(x);
      const torch::Tensor slope = share * (1 - share);
      return map.log ? sigmoid_value(share, map) * (std::log(map.max) - std::log(map.min)) * slope
                     : (map.max - map.min) * slope;
    }
    case Constraint::kClamp:
    case Constraint::kLogClamp: {
      const torch::Tensor alive = torch::logical_and(x >= map.lowest_raw(), x <= map.raw_max).to(x.scalar_type());
      return map.log ? alive * torch::exp(torch::clamp(x, map.lowest_raw(), map.raw_max)) : alive;
    }
    case Constraint::kStraightThrough:
    case Constraint::kProjected:
      return map.log ? torch::exp(torch::clamp(x, map.raw_min, map.raw_max)) : torch::ones_like(x);
    case Constraint::kNone:
      return map.log ? torch::exp(x) : torch::ones_like(x);
  }
  throw std::logic_error("[bounded_scale] unknown constraint");
}

// A function of its own, because value and gradient are chosen separately and both must hold to the bit.
class BoundedMap : public torch::autograd::Function<BoundedMap> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& raw, const Map& map) {
    context->save_for_backward({raw});
    context->saved_data["constraint"] = static_cast<std::int64_t>(map.constraint);
    context->saved_data["log"] = map.log;
    context->saved_data["bounds"] = std::vector<double>{map.min, map.max, map.raw_min, map.raw_max};
    return map_value(raw.to(torch::kDouble), map).to(raw.scalar_type());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const torch::Tensor raw = context->get_saved_variables()[0];
    const std::vector<double> bounds = context->saved_data["bounds"].toDoubleVector();
    const Map map{.constraint = static_cast<Constraint>(context->saved_data["constraint"].toInt()),
                  .log = context->saved_data["log"].toBool(),
                  .min = bounds[0],
                  .max = bounds[1],
                  .raw_min = bounds[2],
                  .raw_max = bounds[3]};
    const torch::Tensor gradient = gradients[0].to(torch::kDouble) * map_slope(raw.to(torch::kDouble), map);
    return {gradient.to(raw.scalar_type()), torch::Tensor()};
  }
};

// The raw value that maps to `value`, in double.
torch::Tensor raw_of(const torch::Tensor& value, const Map& map) {
  if (map.constraint != Constraint::kSigmoid) {
    return map.log ? torch::log(value) : value;
  }
  const double low = map.log ? std::log(map.min) : map.min;
  const double high = map.log ? std::log(map.max) : map.max;
  const torch::Tensor share = ((map.log ? torch::log(value) : value) - low) / (high - low);
  const torch::Tensor above = torch::where(share >= 1, 1 - kSigmoidMargin, share);
  return torch::logit(torch::where(share <= 0, kSigmoidMargin, above));
}

torch::Tensor bounds_tensor(double min, double max, const torch::TensorOptions& options = torch::kDouble) {
  return torch::tensor({min, max}, torch::kDouble).to(options);
}

}  // namespace

BoundedScaleImpl::BoundedScaleImpl(BoundedScaleOptions options_) : options(std::move(options_)) {
  options.validate();
  reset();
}

void BoundedScaleImpl::reset() {
  const auto [min, max] = options.bounds_at(0, 0);
  bounds_ = register_buffer("bounds", bounds_tensor(min, max));
  const auto type = torch::get_default_dtype_as_scalartype();
  const torch::Tensor first = torch::full(options.shape, options.init, torch::kDouble);
  const torch::Tensor raw = raw_of(first, make_map(options, min, max, type)).to(type);
  raw_ = options.learnable ? register_parameter("raw", raw) : register_buffer("raw", raw);
  reset_counters();
  warned_ = false;
}

void BoundedScaleImpl::pretty_print(std::ostream& stream) const {
  const auto name_of = [](auto value) {
    for (const auto& [known, name] : config::enum_names<decltype(value)>) {
      if (known == value) {
        return name;
      }
    }
    return std::string_view("?");
  };
  stream << "camber::nn::BoundedScale(" << name_of(options.constraint) << ", "
         << name_of(options.in_log_space() ? Space::kLog : Space::kLinear) << ", init=" << options.init << ", bounds=["
         << min() << ", " << max() << "], shape=" << raw_.sizes() << (options.learnable ? ")" : ", fixed)");
}

double BoundedScaleImpl::min() const {
  return bounds_[0].item<double>();
}

double BoundedScaleImpl::max() const {
  return bounds_[1].item<double>();
}

torch::Tensor BoundedScaleImpl::value() {
  const Map map = make_map(options, min(), max(), raw_.scalar_type());
  if (options.constraint == Constraint::kProjected && !warned_) {
    const torch::Tensor raw = raw_.detach();
    if (torch::logical_or(raw<map.raw_min, raw> map.raw_max).any().item<bool>()) {
      TORCH_WARN("[bounded_scale] raw must lie inside [", map.raw_min, ", ", map.raw_max,
                 "] in forward for projected, got ", raw.min().item<double>(), " to ", raw.max().item<double>(),
                 ": call ScaleProjector::step(optimizer) in place of optimizer.step()");
      warned_ = true;
    }
  }
  return BoundedMap::apply(raw_, map);
}

torch::Tensor BoundedScaleImpl::penalty() {
  const torch::Tensor scale = value();
  const torch::Tensor center =
      options.l2_center.empty()
          ? torch::full_like(scale, options.init)
          : torch::tensor(options.l2_center, torch::kDouble).to(scale.options()).expand({options.num_elements()});
  return options.l2_weight * torch::sum(torch::square(scale.reshape({-1}) - center.reshape({-1})));
}

void BoundedScaleImpl::set_bounds(double min, double max) {
  options.validate_bounds(min, max);
  torch::NoGradGuard no_grad;
  const auto type = raw_.scalar_type();
  const Map before = make_map(options, this->min(), this->max(), type);
  bounds_.copy_(bounds_tensor(min, max));
  const Map after = make_map(options, this->min(), this->max(), type);
  if (options.constraint == Constraint::kSigmoid) {
    raw_.copy_(raw_of(map_value(raw_.to(torch::kDouble), before), after));
  } else if (options.constraint == Constraint::kProjected) {
    raw_.clamp_(after.raw_min, after.raw_max);
  }
}

bool BoundedScaleImpl::apply_schedule(std::int64_t epoch, std::int64_t step) {
  if (options.bounds_schedule.empty()) {
    return false;
  }
  const auto [min, max] = options.bounds_at(epoch, step);
  // Compared in the buffer's own type: a model cast to half must not derive raw anew at every step.
  if (torch::equal(bounds_, bounds_tensor(min, max, bounds_.options()))) {
    return false;
  }
  set_bounds(min, max);
  return true;
}

ScaleProjection BoundedScaleImpl::project() {
  torch::NoGradGuard no_grad;
  const Map map = make_map(options, min(), max(), raw_.scalar_type());
  ScaleProjection outside{.above = torch::zeros_like(raw_, torch::kBool),
                          .below = torch::zeros_like(raw_, torch::kBool)};
  if (map.clamps()) {
    outside = {.above = raw_ > map.raw_max, .below = raw_ < map.lowest_raw()};
  }
  ++num_steps_;
  steps_at_bound_ += torch::logical_or(outside.above, outside.below).to(steps_at_bound_.options());
  if (options.constraint != Constraint::kProjected) {
    return {.above = torch::zeros_like(outside.above), .below = torch::zeros_like(outside.below)};
  }
  raw_.clamp_(map.raw_min, map.raw_max);
  return outside;
}

torch::Tensor BoundedScaleImpl::share_at_bound() const {
  return steps_at_bound_.to(torch::kDouble) / static_cast<double>(std::max<std::int64_t>(num_steps_, 1));
}

void BoundedScaleImpl::reset_counters() {
  steps_at_bound_ = torch::zeros(options.shape, torch::kLong);
  num_steps_ = 0;
}

}  // namespace camber::nn
