#pragma once
#include <optional>
#include <string>
#include <vector>

#include "camber/study/plan.h"
#include "camber/study/record.h"
#include "camber/study/statistics.h"

namespace camber::study {

/// A difference of mAP (0 to 1) in points, with its sign, never "-0.0"; "-" when it is not known.
std::string signed_points(double difference, int digits = 1);

/// The study's outcome for one run, as it is or under a control: the mean of mAP over the conditions of the primary
/// outcome; nothing when one of them was not measured.
std::optional<double> outcome_of(const StudyPlan& plan, const RunRecord& record, const std::string& control = "");

enum class GateState { kHolds, kFails, kUnknown };

/// Something that must hold before the study means anything, its value and its target.
struct Gate {
  std::string name{}, measured{}, target{};
  GateState state = GateState::kUnknown;

  std::string text() const;  ///< "holds  fusion above ...: 12.1 points (target: at least 5)"
};
/// Of the base models: fusion, single sensors, faults, plateau, cameras.
std::vector<Gate> base_gates(const StudyPlan& plan, const std::vector<RunRecord>& records);
/// All of them: with the oracle's.
std::vector<Gate> all_gates(const StudyPlan& plan, const std::vector<RunRecord>& records);

inline constexpr const char* kOutcome = "outcome";

/// An arm less another, paired by seed.
struct Comparison {
  std::string arm{}, against{};
  std::string measure = kOutcome;  ///< or a condition
  PairedDifference difference{};
  std::optional<Conclusion> conclusion{};  ///< main arms alone
  double not_inferior_within = 0;          ///< above 0: the question is whether the arm is not worse by this much
};

/// Over the seeds that both arms have; nothing when there is none.
std::optional<Comparison> compare(const StudyPlan& plan, const std::vector<RunRecord>& records, const std::string& arm,
                                  const std::string& against, const std::string& measure);

/// Every comparison of the study. The primary one stands alone; the secondary ones (each main arm against what it is
/// compared with, in the outcome and in clean frames; the primary pair in every condition) share one Holm correction;
/// the other arms get intervals and no verdict. Where the plan lists its comparisons, those are the secondary ones. No
/// verdict is spoken before all seeds of the plan are in. A comparison without a pair of seeds is left out.
struct StudyAnalysis {
  std::vector<Gate> gates{};
  std::optional<Comparison> primary{};
  std::vector<Comparison> secondary{}, exploratory{};
};
StudyAnalysis analyze(const StudyPlan& plan, const std::vector<RunRecord>& records);

/// mAP (or the outcome) of an arm by seed, ascending; NaN where a run or its condition is missing.
std::vector<double> values_of(const StudyPlan& plan, const std::vector<RunRecord>& records, const std::string& arm,
                              const std::string& measure);

/// What it did to every run of an arm that something else stood instead of its trust or its cues, under one
/// condition; empty when no run measured it.
struct ControlEffect {
  std::vector<double> changed{}, own{};  ///< mAP with it and without, run by run
  std::vector<double> errors{};          ///< of each difference, over draws of scenes
  PairedDifference difference{};         ///< changed less own
};
ControlEffect control_effect(const std::vector<RunRecord>& records, const std::string& arm,
                             const std::string& condition, const std::string& control);

/// The deviation over the draws of scenes of first less second: how sure one run's difference is.
double scene_error(const Measurement& first, const Measurement& second);
double scene_error(const Measurement& measured);

}  // namespace camber::study
