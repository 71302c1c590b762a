#include <cmath>
#include <limits>
#include <stdexcept>

#include <camber/nn/scale_mapping.h>

namespace camber::nn {
namespace {

// Where a sigmoid scale lands when new bounds cut its value off, as a share of the range. Closer to the bound its
// gradient would be as good as dead.
constexpr double kSigmoidMargin = 1e-3;

double round_to(double value, torch::ScalarType type) {
  return torch::scalar_tensor(value, type).item<double>();
}

torch::Tensor sigmoid_value(const torch::Tensor& share, const ScaleMapping& map) {
  if (map.log) {
    const double low = std::log(map.min);
    return torch::exp(low + (std::log(map.max) - low) * share).clamp(map.min, map.max);
  }
  return (map.min + (map.max - map.min) * share).clamp(map.min, map.max);
}

}  // namespace

ScaleMapping ScaleMapping::make(Constraint constraint, bool log, double min, double max, torch::ScalarType raw_type) {
  return {.constraint = constraint,
          .log = log,
          .min = min,
          .max = max,
          .raw_min = round_to(log ? std::log(min) : min, raw_type),
          .raw_max = round_to(log ? std::log(max) : max, raw_type)};
}

double ScaleMapping::lowest_raw() const {
  return constraint == Constraint::kLogClamp ? -std::numeric_limits<double>::infinity() : raw_min;
}

torch::Tensor ScaleMapping::value(const torch::Tensor& raw) const {
  if (constraint == Constraint::kSigmoid) return sigmoid_value(torch::sigmoid(raw), *this);
  if (constraint == Constraint::kNone) return log ? torch::exp(raw) : raw.clone();
  torch::Tensor inside = torch::clamp(raw, lowest_raw(), raw_max);
  if (!log) return inside;
  // exp(ln max) rounds to either side of max; on the bound the value is the bound.
  const torch::Tensor capped = torch::where(raw >= raw_max, max, torch::exp(inside));
  return constraint == Constraint::kLogClamp ? capped : torch::where(raw <= raw_min, min, capped);
}

torch::Tensor ScaleMapping::slope(const torch::Tensor& raw) const {
  switch (constraint) {
    case Constraint::kSigmoid: {
      const torch::Tensor share = torch::sigmoid(raw);
      const torch::Tensor steepness = share * (1 - share);
      return log ? sigmoid_value(share, *this) * (std::log(max) - std::log(min)) * steepness : (max - min) * steepness;
    }
    case Constraint::kClamp:
    case Constraint::kLogClamp: {
      const torch::Tensor alive = torch::logical_and(raw >= lowest_raw(), raw <= raw_max).to(raw.scalar_type());
      return log ? alive * torch::exp(torch::clamp(raw, lowest_raw(), raw_max)) : alive;
    }
    case Constraint::kStraightThrough:
    case Constraint::kProjected:
      return log ? torch::exp(torch::clamp(raw, raw_min, raw_max)) : torch::ones_like(raw);
    case Constraint::kNone:
      return log ? torch::exp(raw) : torch::ones_like(raw);
  }
  throw std::logic_error("[bounded_scale] unknown constraint");
}

torch::Tensor ScaleMapping::raw_of(const torch::Tensor& value) const {
  torch::Tensor inner = log ? torch::log(value) : value;
  if (constraint == Constraint::kNone) return inner;
  if (constraint != Constraint::kSigmoid) return torch::clamp(inner, lowest_raw(), raw_max);
  const double low = log ? std::log(min) : min;
  const double high = log ? std::log(max) : max;
  const torch::Tensor share = (inner - low) / (high - low);
  const torch::Tensor above = torch::where(share >= 1, 1 - kSigmoidMargin, share);
  return torch::logit(torch::where(share <= 0, kSigmoidMargin, above));
}

torch::Tensor ScaleMapping::carried_over(const torch::Tensor& raw, const ScaleMapping& before) const {
  switch (constraint) {
    case Constraint::kSigmoid:
      return raw_of(before.value(raw));
    case Constraint::kProjected:
      return torch::clamp(raw, raw_min, raw_max);
    default:
      return raw;
  }
}

}  // namespace camber::nn
