#pragma once
#include <functional>
#include <string>

#include <camber/runs/study_options.h>
#include <camber/runs/study_run.h>

namespace camber::runs {

/// How a study is carried out, and who listens.
struct StudyRequest {
  StudyOptions options{};
  std::filesystem::path out{};
  std::filesystem::path start{};  ///< a published study whose records and bases are taken over; empty: none
  RunChoice choice{};
  bool estimate_only = false;  ///< says how long it would take; folder and world stay as they are
  int simulation_threads = 1;
  std::function<void(const std::string& line)> say{};
  /// Seconds of work that are done and that there are in all.
  std::function<void(double done, double total)> progress{};
};

struct StudyResult {
  std::int64_t runs = 0, done_before = 0;
  std::vector<std::string> failed{};  ///< names of the runs that failed
  double estimated_hours = 0;         ///< of what was left at the start
  bool stopped_at_gates = false;
};

/// Carries out a study or what is left of it: makes the world when it is absent, says how long it will take, trains the
/// base models, says how the gates stand, trains and evaluates every arm, one process a run. A run that has a record is
/// not repeated; half of a run goes on from its checkpoint; a run that fails leaves a sentence in failed/ and is tried
/// again when the study is started again. Throws std::invalid_argument when an arm's scale cannot reach its bounds and
/// when the folder, or the published study that it starts from, holds records of another configuration.
StudyResult run_study(const StudyRequest& request);

/// What is not a run of a detector, but has a name among the runs: the data set, and the gates that the bases pass.
inline constexpr const char* kWorld = "world";
inline constexpr const char* kGates = "gates";

/// Writes plan and configuration into the folder, trains nothing, and lists the runs: the world, the bases, the gates
/// where they stop a study, the arms. Refuses what run_study refuses.
std::vector<ListedRun> list_study(const StudyRequest& request);

/// Does one of them, once (do_once). Throws std::runtime_error when one that it needs is not done, or when the gates
/// fail.
void run_named(const StudyRequest& request, const std::string& name, const RunListener& listener = {});

}  // namespace camber::runs
