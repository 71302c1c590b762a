#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <camber/health/monitor.h>
#include <camber/health/sink.h>
#include <camber/storage/folder_lock.h>
#include <camber/train/health_adapter.h>
#include <camber/train/run_folder.h>
#include <camber/train/training_loop.h>

namespace camber::train {

/// What is kept of a run, and who listens.
struct RunRequest {
  std::filesystem::path out{};  ///< the folder of the run; empty: nothing is written
  bool resume = false;          ///< it exists already
  std::string config{};         ///< complete TOML
  std::uint64_t seed = 0;
  std::function<std::string()> data_fingerprint{};  ///< asked of a new run alone
  bool keep_start = false;                          ///< a checkpoint of step 0, before the folder counts as a run
  health::MonitorOptions health{};
  std::function<void(const std::string& sentence)> say{};  ///< for people
  std::function<bool()> stop_requested{};
};

/// One run of a training loop, whatever it trains: its folder with the lock, configuration and environment, resuming,
/// metrics, health monitor and its findings, interruption.
///
///   RunSession session(loop, {.out = "runs/a", .config = toml});
///   const bool finished = session.train(losses_of, {.after_step = [&](const StepReport& report) {
///     HealthAdapter adapter = session.health(report.step);
///     session.record(report.step, session.metrics_of(report), &adapter.sample());
///   }});
class RunSession {
 public:
  /// Locks and makes the folder, or opens it and resumes the loop from its newest sound checkpoint; those that were
  /// refused are said. The monitor then stands where it stood at that step. Of several ranks the first does this; the
  /// others only read the checkpoint, and write and say nothing.
  RunSession(TrainingLoop& loop, RunRequest request);

  /// Steps until the end or until a stop is asked for; false then. At the end the monitor concludes. The findings of
  /// the guard are told before `after_step`, files are flushed before a checkpoint: the hooks need do neither.
  bool train(const TrainingLoop::LossFunction& losses_of, TrainingHooks hooks);

  /// Whether the monitor wants a sample of the step, counted from 1.
  bool sampled(std::int64_t step) const { return monitor_.due(step); }
  /// A sample of the step that holds the loop's scales.
  HealthAdapter health(std::int64_t step);
  /// Losses, learning rate, norm of the gradients, time and skipped steps.
  health::Metrics metrics_of(const StepReport& report) const;
  /// Writes the metrics and, with a sample, what the monitor makes of it; tells its findings.
  void record(std::int64_t step, health::Metrics metrics, const health::HealthSample* sample = nullptr);
  void say(const std::string& sentence) const;

  const std::optional<RunFolder>& folder() const { return folder_; }
  const std::vector<health::Record>& past() const { return past_; }       ///< records before this session
  const std::vector<std::string>& findings() const { return findings_; }  ///< sentences of this session
  std::int64_t first_step() const { return first_step_; }                 ///< steps that were done before it
  double seconds() const { return seconds_; }                             ///< of its steps

 private:
  void open_together();
  void open_folder();
  void resume();
  void tell(const health::Findings& findings);

  TrainingLoop& loop_;
  const RunRequest request_;
  std::optional<storage::FolderLock> lock_;
  std::optional<RunFolder> folder_;
  std::optional<CheckpointFolder> checkpoints_;
  std::optional<health::MetricsSink> sink_;
  health::HealthMonitor monitor_;
  std::vector<ReachableRange> reaches_;
  std::vector<health::Record> past_;
  std::vector<std::string> findings_;
  std::int64_t first_step_ = 0;
  double seconds_ = 0;
};

}  // namespace camber::train
