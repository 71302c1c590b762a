#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <camber/config/field.h>

namespace camber::train {

enum class ScheduleKind { kConstant, kCosine, kCyclic, kOneCycle, kMilestones };

}  // namespace camber::train

template <>
inline constexpr auto camber::config::enum_names<camber::train::ScheduleKind> =
    std::array{std::pair{camber::train::ScheduleKind::kConstant, std::string_view("constant")},
               std::pair{camber::train::ScheduleKind::kCosine, std::string_view("cosine")},
               std::pair{camber::train::ScheduleKind::kCyclic, std::string_view("cyclic")},
               std::pair{camber::train::ScheduleKind::kOneCycle, std::string_view("one_cycle")},
               std::pair{camber::train::ScheduleKind::kMilestones, std::string_view("milestones")}};

namespace camber::train {

/// How the learning rate goes over a run of T steps, as a factor of the optimiser's own. With f the share of a phase
/// that is over and cos(a, b, f) = b + (a - b) / 2 * (1 + cos(pi f)):
///
///   constant    1
///   cosine      cos(1, end_factor, f) over all steps after the warm-up
///   cyclic      cos(1, peak_factor, f) over up_share of the steps, then cos(peak_factor, end_factor, f); the momentum
///               (SGD) or beta1 (Adam) goes the other way, to momentum_factor of its own and back
///   one_cycle   the learning rate is the peak: cos(start_factor, 1, f), then cos(1, end_factor, f); momentum as above
///   milestones  milestone_factor to the power of the milestones passed
///
/// A warm-up goes before: a straight line from warmup_factor to the schedule's first value over warmup_share of the
/// steps; the schedule itself fills the rest.
struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::kCosine;
  double warmup_share = 0.1;
  double warmup_factor = 0;
  double start_factor = 0.04;
  double peak_factor = 6;
  double end_factor = 0;
  double up_share = 0.4;
  double momentum_factor = 0.8947368421052632;
  std::vector<double> milestones{};
  double milestone_factor = 0.5;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("kind", kind, "how the learning rate goes over the run");
    visitor("warmup_share", warmup_share, "share of the steps with a rising learning rate", config::Range{0, 1});
    visitor("warmup_factor", warmup_factor, "factor of the learning rate where the warm-up starts",
            config::Range{0, 1});
    visitor("start_factor", start_factor, "one_cycle: factor at the first step", config::Range{.min = 0});
    visitor("peak_factor", peak_factor, "cyclic: factor at the peak", config::Range{.min = 0});
    visitor("end_factor", end_factor, "cosine, cyclic, one_cycle: factor after the last step", config::Range{.min = 0});
    visitor("up_share", up_share, "cyclic, one_cycle: share of the steps before the peak", config::Range{0, 1});
    visitor("momentum_factor", momentum_factor, "cyclic, one_cycle: factor of the momentum at the peak",
            config::Range{0, 1});
    visitor("milestones", milestones, "milestones: shares of the steps, rising", config::Range{0, 1});
    visitor("milestone_factor", milestone_factor, "milestones: factor at each of them", config::Range{.min = 0});
  }
  /// Throws std::invalid_argument for milestones that do not rise or that a milestone schedule lacks.
  void validate() const;

  friend bool operator==(const ScheduleOptions&, const ScheduleOptions&) = default;
};

/// The schedule over a known number of steps.
///
///   const Schedule schedule({.kind = ScheduleKind::kCosine}, 1400);
///   schedule.rate_factor(700)
class Schedule {
 public:
  Schedule(ScheduleOptions options, std::int64_t steps);

  /// The factor of the learning rate at a step, counted from 0.
  double rate_factor(std::int64_t step) const;
  /// The factor of the momentum.
  double momentum_factor(std::int64_t step) const;
  std::int64_t steps() const { return steps_; }

 private:
  double after_warmup(double step) const;

  ScheduleOptions options_;
  std::int64_t steps_;
  double warmup_steps_;
};

/// A schedule of its own for one optimiser group, named as in OptimizerGroups::groups().
struct GroupScheduleOptions {
  std::string group{};
  ScheduleOptions schedule{};

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("group", group, "a group's pattern, 'scales' or 'everything else'");
    visitor("schedule", schedule, "the schedule of that group");
  }
  friend bool operator==(const GroupScheduleOptions&, const GroupScheduleOptions&) = default;
};

}  // namespace camber::train
