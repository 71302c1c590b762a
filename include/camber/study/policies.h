#pragma once
#include <optional>
#include <string>
#include <vector>

#include "camber/study/results.h"
#include "camber/study/statistics.h"
#include "camber/study/tables.h"

/// What a study of alarms says to somebody who knows how good his cues are.
namespace camber::study {

/// How often a sensor fails and how often its cues err, as shares of frames.
struct CueRates {
  double prevalence = 0.2;    ///< frames under a fault
  double false_alarms = 0.1;  ///< clean frames with an alarm
  double misses = 0.1;        ///< faulty frames without one

  /// Refuses what is no share.
  void validate() const;
};

/// The mAP of a run in a stream of these rates, mixed linearly from its cells, all faults of plan.swapped_cues equally
/// often:
///
///   (1 - p) [(1 - a) clean + a mean_f clean with the cues of f] + p mean_f [(1 - m) f + m f with the cues of clean]
///
/// A run whose arm does nothing with cues has the same mAP whatever they say. Nothing where a cell was not measured.
std::optional<double> expected_map(const StudyPlan& plan, const RunRecord& record, const CueRates& rates);

/// An arm at some rates, and what it has above another, paired by seed.
struct PolicyScore {
  std::string arm{};
  MeanAndDeviation mean_ap{};
  PairedDifference above_next{}, above_reference{};  ///< no pairs: nothing to compare with
};

/// The main arms at these rates, best first, the oracle's left out: it is no policy. Empty without records.
std::vector<PolicyScore> rank_policies(const StudyResults& results, const CueRates& rates);

/// The same in sentences. std::runtime_error where no record has the cells.
///
///   std::cout << advice(read_study("study/alarms"), {.prevalence = 0.2, .false_alarms = 0.1, .misses = 0.1});
std::string advice(const StudyResults& results, const CueRates& rates);
std::string advice_in_json(const StudyResults& results, const CueRates& rates);

/// Which policy wins by prevalence and rate of false alarms, a tenth of the alarms missed, and by how much.
StudyTable decision_chart(const StudyResults& results);
/// Every main arm's cells: right, missed and false cues, and the wrong culprit.
StudyTable alarms_table(const StudyResults& results);
/// How well agreement tells each condition from clean frames.
StudyTable agreement_table(const StudyResults& results);

}  // namespace camber::study
