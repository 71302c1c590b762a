#include <algorithm>
#include <cmath>
#include <sstream>
#include <stdexcept>

#include <camber/train/reachable_range.h>

namespace camber::train {
namespace {

// A sigmoid never touches its bounds; this share of the range counts as there.
constexpr double kSigmoidNear = 0.01;
constexpr double kSigmoidEnd = 1e-12;

struct Distances {
  double steady = 0;
  double extreme = 0;
};

Distances sgd_distances(const OptimizerOptions& options, const LearningRateSchedule& schedule, std::int64_t steps,
                        double lr_mult) {
  const double clip = options.clip_norm > 0 ? options.clip_norm : INFINITY;
  double distance = 0;
  double buffer = 0;  // of a constant gradient of 1
  for (std::int64_t step = 0; step < steps; ++step) {
    const double lr = schedule(step) * lr_mult;
    buffer = options.momentum * buffer + 1;
    const double update = options.nesterov ? 1 + options.momentum * buffer : buffer;
    distance += lr > 0 ? lr * clip * update : 0;
  }
  return {distance, distance};
}

Distances adam_distances(const OptimizerOptions& options, const LearningRateSchedule& schedule, std::int64_t steps,
                         double lr_mult) {
  const double ratio = options.beta1 * options.beta1 / options.beta2;
  double weights = 0;  // sum_{k<t} ratio^k
  double power1 = 1;
  double power2 = 1;
  Distances sum;
  for (std::int64_t step = 0; step < steps; ++step) {
    const double lr = schedule(step) * lr_mult;
    weights = 1 + ratio * weights;
    power1 *= options.beta1;
    power2 *= options.beta2;
    const double largest = (1 - options.beta1) / (1 - power1) * std::sqrt((1 - power2) / (1 - options.beta2) * weights);
    sum.steady += lr * (options.beta1 <= options.beta2 ? 1 : largest);
    sum.extreme += lr * largest;
  }
  return sum;
}

// The constraint's map and its inverse. sigmoid: raw = logit of the share of the range.
class ValueMap {
 public:
  ValueMap(const nn::BoundedScaleOptions& scale, double min, double max)
      : log_(scale.in_log_space()),
        sigmoid_(scale.constraint == nn::Constraint::kSigmoid),
        low_(log_ ? std::log(min) : min),
        high_(log_ ? std::log(max) : max) {}

  double raw(double value) const {
    const double position = log_ ? std::log(value) : value;
    // A sigmoid that is wound up may round to its bound, where its raw value would be infinite.
    const double share = std::clamp((position - low_) / (high_ - low_), kSigmoidEnd, 1 - kSigmoidEnd);
    return sigmoid_ ? std::log(share / (1 - share)) : position;
  }

  double value(double raw) const {
    const double position = sigmoid_ ? low_ + (high_ - low_) / (1 + std::exp(-raw)) : raw;
    return log_ ? std::exp(position) : position;
  }

  // What lies this near to a bound counts as there.
  double near_min(double min) const { return sigmoid_ ? value(std::log(kSigmoidNear / (1 - kSigmoidNear))) : min; }
  double near_max(double max) const { return sigmoid_ ? value(std::log((1 - kSigmoidNear) / kSigmoidNear)) : max; }

 private:
  bool log_;
  bool sigmoid_;
  double low_;
  double high_;
};

// The lowest and the highest of the elements' starts.
struct Ends {
  double low, high;
};

Reach reach(double distance, const ValueMap& map, const nn::BoundedScaleOptions& scale, Ends start, double min,
            double max) {
  Reach result{distance, map.value(map.raw(start.low) - distance), map.value(map.raw(start.high) + distance)};
  if (scale.constraint == nn::Constraint::kNone) return result;
  result.high = std::min(result.high, max);
  if (scale.constraint != nn::Constraint::kLogClamp) result.low = std::max(result.low, min);
  return result;
}

// A schedule may push a scale: down to a stage's max, up to a stage's min. Movement goes on from there.
Reach widen_for_schedule(Reach reach, const ValueMap& map, const nn::BoundedScaleOptions& scale, Ends start, double min,
                         double max) {
  double lowest = start.low;
  double highest = start.high;
  for (const nn::BoundsStage& stage : scale.bounds_schedule) {
    lowest = std::min(lowest, stage.max);
    highest = std::max(highest, stage.min);
  }
  if (scale.constraint == nn::Constraint::kSigmoid)
    return {reach.raw_distance, min, max};  // raw is derived anew at every stage: only the bounds are sure
  if (scale.constraint != nn::Constraint::kNone) {
    reach.low = std::min(reach.low, std::max(min, map.value(map.raw(lowest) - reach.raw_distance)));
    reach.high = std::max(reach.high, std::min(max, map.value(map.raw(highest) + reach.raw_distance)));
  }
  return reach;
}

}  // namespace

ReachableRange reachable_range(const OptimizerOptions& optimizer, const LearningRateSchedule& schedule,
                               std::int64_t steps, const nn::BoundedScaleOptions& scale, double lr_mult,
                               std::vector<double> start) {
  optimizer.validate();
  scale.validate();
  if (steps < 0 || !std::isfinite(lr_mult) || lr_mult < 0) {
    std::ostringstream sentence;
    sentence << "[reachable_range] steps and lr_mult must be at least 0, got " << steps << " and " << lr_mult;
    throw std::invalid_argument(sentence.str());
  }
  Distances distances;
  if (scale.learnable) {
    distances = optimizer.kind == OptimizerKind::kSgd ? sgd_distances(optimizer, schedule, steps, lr_mult)
                                                      : adam_distances(optimizer, schedule, steps, lr_mult);
  }
  auto [min, max] = scale.bounds_at(0, 0);
  for (const nn::BoundsStage& stage : scale.bounds_schedule) {
    min = std::min(min, stage.min);
    max = std::max(max, stage.max);
  }
  if (start.empty()) start.push_back(scale.init);
  const auto [lowest, highest] = std::minmax_element(start.begin(), start.end());
  const Ends ends{*lowest, *highest};
  const ValueMap map(scale, min, max);
  ReachableRange range{.steady = reach(distances.steady, map, scale, ends, min, max),
                       .extreme = reach(distances.extreme, map, scale, ends, min, max),
                       .min = min,
                       .max = max,
                       .needed_raw_distance = std::max(map.raw(map.near_max(max)) - map.raw(ends.low),
                                                       map.raw(ends.high) - map.raw(map.near_min(min))),
                       .steps = steps,
                       .learnable = scale.learnable,
                       .start = std::move(start)};
  if (!scale.bounds_schedule.empty()) {
    range.steady = widen_for_schedule(range.steady, map, scale, ends, min, max);
    range.extreme = widen_for_schedule(range.extreme, map, scale, ends, min, max);
  }
  return range;
}

std::string reach_sentence(const ReachableRange& range, std::string_view scale_name) {
  if (!range.learnable || range.covers_bounds()) return {};
  std::ostringstream sentence;
  sentence << "scale '" << scale_name << "': the bounds " << range.min << " to " << range.max
           << " lie outside what can be reached: " << range.steps << " steps lead at most to " << range.steady.low
           << " or " << range.steady.high << " (" << range.extreme.low << " or " << range.extreme.high
           << " if the gradient kept growing)";
  if (range.steady.raw_distance > 0) {
    sentence << "; a learning rate " << range.needed_raw_distance / range.steady.raw_distance
             << " times as large would reach both";
  }
  return sentence.str();
}

}  // namespace camber::train
