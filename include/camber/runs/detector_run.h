#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include <camber/runs/detector_evaluation.h>
#include <camber/runs/detector_options.h>
#include <camber/train/run_folder.h>

namespace camber::runs {

/// How a run of the detector begins, and who listens.
struct DetectorRunRequest {
  DetectorTrainingOptions options{};
  std::filesystem::path out{};         ///< the folder of the run
  bool resume = false;                 ///< it exists already
  std::filesystem::path from{};        ///< a checkpoint whose weights are taken where they fit; empty: none
  std::vector<std::string> exclude{};  ///< parts of names that are not taken
  std::string device = "cpu";          ///< where it trains: cpu, cuda, cuda:N; a run may be resumed on another
  bool evaluate = true;                ///< false: the weights are exported, and somebody else evaluates them
  /// The processes that share every batch and the evaluations; only the first of them writes and listens.
  std::shared_ptr<distributed::ProcessGroup> group = distributed::alone();

  std::function<void(const train::StepReport&, const std::string& note)> after_step{};
  std::function<void(const std::string& line)> say{};  ///< whole sentences, for people
  std::function<bool()> stop_requested{};
};

struct DetectorRunResult {
  bool finished = false;        ///< false: stopped on request
  std::int64_t first_step = 0;  ///< steps that were done before
  std::int64_t steps = 0;
  double seconds = 0;                                    ///< of the steps
  std::vector<std::pair<std::string, double>> scales{};  ///< where they ended
  std::optional<FaultReport> evaluation{};               ///< of the validation split, when the run finished; on rank 0
};

/// Trains a detector into a run folder: frames, batches, losses, steps, metrics, checkpoints, evaluation, result.
DetectorRunResult train_detector(const DetectorRunRequest& request);

/// The configuration that a run folder or a checkpoint holds; the defaults for weights that come without one.
DetectorTrainingOptions options_of_run(const std::filesystem::path& folder);
DetectorTrainingOptions options_of_checkpoint(const std::filesystem::path& file);

}  // namespace camber::runs
