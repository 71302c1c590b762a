#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <string>

#include <camber/train/schedule.h>

namespace camber::train {
namespace {

double cosine(double from, double to, double share) {
  return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * std::clamp(share, 0.0, 1.0)));
}

// Rises (or falls) from `first` to `peak` over `up` of `steps`, then goes to `last`.
double up_and_down(double first, double peak, double last, double step, double steps, double up) {
  const double turn = up * steps;
  return step < turn ? cosine(first, peak, step / turn)
                     : cosine(peak, last, steps > turn ? (step - turn) / (steps - turn) : 1);
}

}  // namespace

void ScheduleOptions::validate() const {
  if (kind == ScheduleKind::kMilestones && milestones.empty())
    throw std::invalid_argument("[schedule] milestones must name at least one share of the steps, got none");
  for (std::size_t i = 1; i < milestones.size(); ++i) {
    if (!(milestones[i] > milestones[i - 1])) {
      throw std::invalid_argument("[schedule] milestones must rise, got " + std::to_string(milestones[i]) + " after " +
                                  std::to_string(milestones[i - 1]));
    }
  }
}

Schedule::Schedule(ScheduleOptions options, std::int64_t steps)
    : options_(std::move(options)),
      steps_(steps),
      warmup_steps_(std::round(options_.warmup_share * static_cast<double>(steps))) {
  options_.validate();
  if (steps < 1) throw std::invalid_argument("[schedule] steps must be at least 1, got " + std::to_string(steps));
}

double Schedule::rate_factor(std::int64_t step) const {
  const auto now = static_cast<double>(step);
  if (now < warmup_steps_)
    return options_.warmup_factor + (after_warmup(0) - options_.warmup_factor) * (now + 1) / warmup_steps_;
  return after_warmup(now - warmup_steps_);
}

double Schedule::after_warmup(double step) const {
  const double steps = std::max(1.0, static_cast<double>(steps_) - warmup_steps_);
  switch (options_.kind) {
    case ScheduleKind::kConstant:
      return 1;
    case ScheduleKind::kCosine:
      return cosine(1, options_.end_factor, step / steps);
    case ScheduleKind::kCyclic:
      return up_and_down(1, options_.peak_factor, options_.end_factor, step, steps, options_.up_share);
    case ScheduleKind::kOneCycle:
      return up_and_down(options_.start_factor, 1, options_.end_factor, step, steps, options_.up_share);
    case ScheduleKind::kMilestones: {
      const auto passed = std::count_if(options_.milestones.begin(), options_.milestones.end(), [&](double milestone) {
        return step + warmup_steps_ >= milestone * static_cast<double>(steps_);
      });
      return std::pow(options_.milestone_factor, static_cast<double>(passed));
    }
  }
  throw std::logic_error("[schedule] unknown kind");
}

double Schedule::momentum_factor(std::int64_t step) const {
  const double now = static_cast<double>(step) - warmup_steps_;
  const bool cycles = options_.kind == ScheduleKind::kCyclic || options_.kind == ScheduleKind::kOneCycle;
  if (!cycles || now < 0) return 1;
  const double steps = std::max(1.0, static_cast<double>(steps_) - warmup_steps_);
  return up_and_down(1, options_.momentum_factor, 1, now, steps, options_.up_share);
}

}  // namespace camber::train
