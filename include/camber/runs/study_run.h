#pragma once
#include <functional>
#include <string>

#include <camber/detection/detector.h>
#include <camber/runs/study_options.h>
#include <camber/study/record.h>

namespace camber::runs {

/// Who listens to one run.
struct RunListener {
  std::function<void(double share)> trained{}, evaluated{};
  std::function<void(const std::string&)> say{};
};

/// Trains one run, or what is left of it, evaluates its last checkpoint and writes its record, at last and in one
/// piece. A base keeps its weights, everything else is removed. A base whose record exists but whose weights are gone
/// is made again and must come out with the same bits; where the record is of other numerics it cannot, and a new
/// record takes its place.
void execute_run(const StudyOptions& options, const StudyFolder& folder, const StudyRun& run,
                 const RunListener& listener = {});

/// Whether the run need not be made: it has a record, a base its weights too. What branched from a base that had to be
/// made again with other numerics is no branch of the new one.
bool is_done(const StudyOptions& options, const StudyFolder& folder, const StudyRun& run);

/// A sum over the names and bytes of a detector's weights, as records state it.
std::string sum_of_weights(const detection::DetectorImpl& detector);

/// What runs cost on this machine.
struct StudyCosts {
  double base_step = 0, branch_step = 0;              ///< seconds
  double base_evaluation = 0, branch_evaluation = 0;  ///< seconds
  std::string source{};                               ///< "a probe of 12 steps", "7 records"
  bool probed = false;                                ///< no record was there

  double training(const StudyOptions& options, const StudyRun& run) const;
  double evaluation(const StudyRun& run) const;
};

/// A few steps and frames of the plain detector and of the arm of the primary outcome, in the study's folder.
StudyCosts probe_costs(const StudyOptions& options, const StudyFolder& folder);
/// From the records where there are any of a kind, else from the probe's file.
StudyCosts known_costs(const StudyFolder& folder);

}  // namespace camber::runs
