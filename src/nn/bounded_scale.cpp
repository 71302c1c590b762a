#include <ostream>
#include <stdexcept>

#include <camber/nn/bounded_scale.h>

#include <torch/autograd.h>

#include "nn/move_keeping.h"

namespace camber::nn {
namespace {

// A function of its own, because value and gradient are chosen separately and both must hold to the bit.
class BoundedMap : public torch::autograd::Function<BoundedMap> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& raw,
                               const ScaleMapping& map) {
    context->save_for_backward({raw});
    context->saved_data["constraint"] = static_cast<std::int64_t>(map.constraint);
    context->saved_data["log"] = map.log;
    context->saved_data["bounds"] = std::vector<double>{map.min, map.max, map.raw_min, map.raw_max};
    return map.value(raw.to(torch::kDouble)).to(raw.scalar_type());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const torch::Tensor raw = context->get_saved_variables()[0];
    const std::vector<double> bounds = context->saved_data["bounds"].toDoubleVector();
    const ScaleMapping map{.constraint = static_cast<Constraint>(context->saved_data["constraint"].toInt()),
                           .log = context->saved_data["log"].toBool(),
                           .min = bounds[0],
                           .max = bounds[1],
                           .raw_min = bounds[2],
                           .raw_max = bounds[3]};
    const torch::Tensor gradient = gradients[0].to(torch::kDouble) * map.slope(raw.to(torch::kDouble));
    return {gradient.to(raw.scalar_type()), torch::Tensor()};
  }
};

torch::Tensor bounds_tensor(double min, double max) {
  return torch::tensor({min, max}, torch::kDouble);
}

template <class Enum>
std::string_view name_of(Enum value) {
  for (const auto& [known, name] : config::enum_names<Enum>)
    if (known == value) return name;
  return "?";
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
  mapping_ = register_buffer("mapping", torch::tensor({static_cast<std::int64_t>(options.constraint),
                                                       static_cast<std::int64_t>(options.in_log_space())},
                                                      torch::kLong));
  const torch::Tensor raw =
      ScaleMapping::make(options.constraint, options.in_log_space(), min, max, type).raw_of(first).to(type);
  raw_ = options.learnable ? register_parameter("raw", raw) : register_buffer("raw", raw);
  reset_counters();
  warned_ = false;
}

void BoundedScaleImpl::pretty_print(std::ostream& stream) const {
  stream << "camber::nn::BoundedScale(" << name_of(constraint()) << ", " << name_of(space())
         << ", init=" << options.init << ", bounds=[" << min() << ", " << max() << "], shape=" << raw_.sizes()
         << (options.learnable ? ")" : ", fixed)");
}

double BoundedScaleImpl::min() const {
  return bounds_[0].item<double>();
}

double BoundedScaleImpl::max() const {
  return bounds_[1].item<double>();
}

Constraint BoundedScaleImpl::constraint() const {
  const auto number = mapping_[0].item<std::int64_t>();
  constexpr auto kCount = static_cast<std::int64_t>(config::enum_names<Constraint>.size());
  if (number < 0 || number >= kCount) {
    throw std::runtime_error("[bounded_scale] mapping must begin with the number of a constraint, 0 to " +
                             std::to_string(kCount - 1) + ", got " + std::to_string(number));
  }
  return static_cast<Constraint>(number);
}

Space BoundedScaleImpl::space() const {
  return mapping_[1].item<std::int64_t>() == 0 ? Space::kLinear : Space::kLog;
}

ScaleMapping BoundedScaleImpl::mapping() const {
  return ScaleMapping::make(constraint(), space() == Space::kLog, min(), max(), raw_.scalar_type());
}

void BoundedScaleImpl::to(torch::Device device, torch::Dtype dtype, bool non_blocking) {
  move_keeping(
      {&bounds_, &mapping_}, [&] { Module::to(device, dtype, non_blocking); });
}

void BoundedScaleImpl::to(torch::Dtype dtype, bool non_blocking) {
  move_keeping(
      {&bounds_, &mapping_}, [&] { Module::to(dtype, non_blocking); });
}

void BoundedScaleImpl::to(torch::Device device, bool non_blocking) {
  move_keeping(
      {&bounds_, &mapping_}, [&] { Module::to(device, non_blocking); });
}

torch::Tensor BoundedScaleImpl::value() {
  const ScaleMapping map = mapping();
  // A device would have to be waited for.
  if (map.constraint == Constraint::kProjected && !warned_ && raw_.is_cpu()) {
    const torch::Tensor raw = raw_.detach();
    if (torch::logical_or(raw<map.raw_min, raw> map.raw_max).any().item<bool>()) {
      TORCH_WARN("[bounded_scale] raw must lie inside [", map.raw_min, ", ", map.raw_max,
                 "] in forward for projected, got ", raw.min().item<double>(), " to ", raw.max().item<double>(),
                 ": call ScaleProjector::step(optimizer) instead of optimizer.step()");
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
  BoundedScaleOptions in_force = options;
  in_force.constraint = constraint();
  in_force.space = space();
  in_force.validate_bounds(min, max);
  torch::NoGradGuard no_grad;
  const ScaleMapping before = mapping();
  bounds_.copy_(bounds_tensor(min, max));
  raw_.copy_(mapping().carried_over(raw_.to(torch::kDouble), before));
}

void BoundedScaleImpl::take_value(const BoundedScaleImpl& other) {
  torch::NoGradGuard no_grad;
  const ScaleMapping mine = mapping(), theirs = other.mapping();
  // Read alike, the raw value itself is taken, to the bit and with what it wound up.
  raw_.copy_(mine == theirs ? other.raw_ : mine.raw_of(theirs.value(other.raw_.to(torch::kDouble))));
}

bool BoundedScaleImpl::apply_schedule(std::int64_t epoch, std::int64_t step) {
  if (options.bounds_schedule.empty()) return false;
  const auto [min, max] = options.bounds_at(epoch, step);
  if (min == this->min() && max == this->max()) return false;
  set_bounds(min, max);
  return true;
}

ScaleProjection BoundedScaleImpl::project() {
  torch::NoGradGuard no_grad;
  const ScaleMapping map = mapping();
  ScaleProjection outside{.above = torch::zeros_like(raw_, torch::kBool),
                          .below = torch::zeros_like(raw_, torch::kBool)};
  if (map.clamps()) outside = {.above = raw_ > map.raw_max, .below = raw_ < map.lowest_raw()};
  ++num_steps_;
  steps_at_bound_ = steps_at_bound_.to(raw_.device());
  steps_at_bound_ += torch::logical_or(outside.above, outside.below).to(torch::kLong);
  if (map.constraint != Constraint::kProjected)
    return {.above = torch::zeros_like(outside.above), .below = torch::zeros_like(outside.below)};
  raw_.clamp_(map.raw_min, map.raw_max);
  return outside;
}

torch::Tensor BoundedScaleImpl::share_at_bound() const {
  return steps_at_bound_.to(torch::kDouble) / static_cast<double>(std::max<std::int64_t>(num_steps_, 1));
}

void BoundedScaleImpl::restore_counters(std::int64_t num_steps, const torch::Tensor& steps_at_bound) {
  TORCH_CHECK_VALUE(steps_at_bound.sizes() == steps_at_bound_.sizes(), "[bounded_scale] steps_at_bound must have the ",
                    "scale's shape ", steps_at_bound_.sizes(), ", got ", steps_at_bound.sizes());
  num_steps_ = num_steps;
  steps_at_bound_ = steps_at_bound.to(torch::kLong).clone();
}

void BoundedScaleImpl::reset_counters() {
  steps_at_bound_ = torch::zeros(options.shape, torch::kLong);
  num_steps_ = 0;
}

}  // namespace camber::nn
