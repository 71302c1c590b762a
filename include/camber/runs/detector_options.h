#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <camber/config/field.h>
#include <camber/detection/detector_options.h>
#include <camber/health/monitor.h>
#include <camber/sensors/loader.h>
#include <camber/train/training_loop.h>

namespace camber::runs {

/// Which frames a run learns from and by which it is evaluated.
struct DetectorDataOptions {
  std::string root{};
  std::string version = "v1.0-simulated";
  std::string train_split = "train";
  std::string validation_split = "val";
  std::int64_t limit = 0;
  bool class_balance = false;
  std::int64_t batch_size = 4;
  sensors::FaultOptions faults{};
  sensors::CueErrorOptions cue_errors{};
  sensors::AugmentationOptions augmentation{};
  std::int64_t batches_ahead = 4;
  std::int64_t threads = 1;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("root", root, "the data set's folder");
    visitor("version", version, "folder of its tables");
    visitor("train_split", train_split, "scenes to learn from");
    visitor("validation_split", validation_split, "scenes for evaluations while training");
    visitor("limit", limit, "frames of the split to learn from, spread evenly; 0: all", config::Range{.min = 0});
    visitor("class_balance", class_balance, "draw frames so that all classes are met equally often (CBGS)");
    visitor("batch_size", batch_size, "frames a batch", config::Range{.min = 1, .max = 4096});
    visitor("faults", faults, "faults drawn for each frame");
    visitor("cue_errors", cue_errors, "how the cues err in training");
    visitor("augmentation", augmentation, "how frames are varied");
    visitor("batches_ahead", batches_ahead, "batches prepared before they are asked for",
            config::Range{.min = 1, .max = 64});
    visitor("threads", threads, "threads that prepare them", config::Range{.min = 1, .max = 256});
  }
};

/// How a detector is evaluated.
struct DetectorEvaluationOptions {
  std::filesystem::path config{};  ///< beside the file that names it: config::file_at
  std::int64_t limit = 0;
  std::vector<std::string> faults{};
  std::int64_t batch_size = 4;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("config", config, "evaluation configuration in the devkit's JSON format; empty: the official one");
    visitor("limit", limit, "frames of the split, spread evenly; 0: all", config::Range{.min = 0});
    visitor("faults", faults, "conditions beside the clean one for result.json, such as frozen:4");
    visitor("batch_size", batch_size, "frames a batch", config::Range{.min = 1, .max = 4096});
  }
};

/// The whole configuration of `camber train`. The defaults are the small detector on a simulated world.
struct DetectorTrainingOptions {
  std::uint64_t seed = 0;
  DetectorDataOptions data{};
  detection::DetectorOptions detector = detection::DetectorOptions::small();
  train::TrainingLoopOptions loop{};
  health::MonitorOptions health{};
  DetectorEvaluationOptions evaluation{};
  std::int64_t log_every = 10;
  bool synchronize_batch_norm = true;
  bool double_precision = false;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("seed", seed, "of every named random stream");
    visitor("data", data, "frames to learn from");
    visitor("detector", detector, "the model");
    visitor("loop", loop, "the training");
    visitor("health", health, "what is watched");
    visitor("evaluation", evaluation, "how the model is evaluated");
    visitor("log_every", log_every, "steps between records in metrics.jsonl", config::Range{.min = 1});
    visitor("synchronize_batch_norm", synchronize_batch_norm,
            "with several processes: batch norms measure the whole batch; false: each its share");
    visitor("double_precision", double_precision,
            "train in double precision, to tell rounding from error; the exported weights are single");
  }
  void validate() const;
  /// With data set and maps as absolute paths, so that the run does not depend on the working folder.
  DetectorTrainingOptions from_any_folder() const;

  /// The loader's options for training, for the share of one of several ranks: batches of `batch_size` in all, cut
  /// into shares that differ by one frame at most.
  sensors::LoaderOptions loader(std::int64_t rank = 0, std::int64_t ranks = 1) const;
  /// The loop's options with the detector's own rules for its parameters behind those of the configuration.
  train::TrainingLoopOptions loop_with_rules() const;
};

/// Options that differ from `defaults` and change nothing because what they belong to is switched off, a sentence each:
/// "detector.bias.segments = true has no effect: detector.router.mode is off".
std::vector<std::string> unused_options(const DetectorTrainingOptions& options,
                                        const DetectorTrainingOptions& defaults);

/// The detector that a configuration describes: the name of a preset (cmt_r50), or a TOML file of `camber train`.
detection::DetectorOptions detector_of_config(const std::string& config);

/// Every n-th of the samples so that about `limit` remain; all for 0.
std::vector<nuscenes::Index> evenly_spaced(const std::vector<nuscenes::Index>& samples, std::int64_t limit);

}  // namespace camber::runs
