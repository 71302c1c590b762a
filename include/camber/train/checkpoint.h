#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <camber/ops/numerics.h>
#include <camber/train/exponential_average.h>
#include <camber/train/optimizer_groups.h>

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

/// Weights, optimiser state and counters of a run in one safetensors file that any reader opens:
///
///   model.<name>, average.<name>    as camber/weights/state_file.h says
///   optimizer.<name>.exp_avg, ...   what the optimiser keeps of a parameter
///   metadata: whatever the run wants to say (its configuration), counters and numbers (JSON), checksums (JSON)
///
/// A file that is cut short, damaged (its checksums tell), or of another model is refused with a std::runtime_error of
/// one sentence that names the file, the tensor and what is wrong; nothing is loaded then.
namespace camber::train {

/// Whole numbers that a run counts: step, skipped, ...
using Counters = std::map<std::string, std::int64_t>;

/// What a checkpoint holds beside the weights; null: not there.
struct TrainingState {
  torch::nn::Module& model;
  torch::optim::Optimizer* optimizer = nullptr;
  const OptimizerGroups* groups = nullptr;  ///< names of the optimiser's parameters
  ExponentialAverage* average = nullptr;
};

struct CheckpointInfo {
  std::map<std::string, std::string> metadata{};  ///< e.g. {"config", complete TOML}
  Counters counters{};
  std::map<std::string, double> numbers{};  ///< e.g. the best score; written so that they read back to the same bits
  std::int64_t numerics = ops::kNumerics;   ///< the version of the arithmetic that a file was made with
};

void save_checkpoint(const std::filesystem::path& path, const TrainingState& state, const CheckpointInfo& info);

/// Loads all of it, bit for bit, or throws and changes nothing.
CheckpointInfo load_checkpoint(const std::filesystem::path& path, const TrainingState& state);

/// Metadata and counters alone; checks that the file is whole, not the tensors' checksums.
CheckpointInfo read_checkpoint_info(const std::filesystem::path& path);

/// The weights alone, of the running average where there is one, under model.<name>: what inference reads.
void save_weights(const std::filesystem::path& path, const TrainingState& state, const CheckpointInfo& info);

/// The checkpoints of a run: last.safetensors, the one before it in previous.safetensors, best.safetensors and
/// step_0000700.safetensors.
class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Writes last; what was last becomes previous. At every moment one of the two is whole.
  void save_last(const TrainingState& state, const CheckpointInfo& info) const;
  void save_best(const TrainingState& state, const CheckpointInfo& info) const;
  void save_numbered(const TrainingState& state, const CheckpointInfo& info, std::int64_t step) const;

  struct Resumed {
    std::filesystem::path path{};
    CheckpointInfo info{};
    std::vector<std::string> refused{};  ///< sentences about newer files that could not be used
  };
  /// Loads the newest checkpoint that is sound: last, previous, then the numbered ones from the newest. Nothing when
  /// there is no file at all; throws std::runtime_error with every sentence when all are damaged.
  std::optional<Resumed> resume(const TrainingState& state) const;

  std::filesystem::path last() const { return folder_ / "last.safetensors"; }
  std::filesystem::path previous() const { return folder_ / "previous.safetensors"; }
  std::filesystem::path best() const { return folder_ / "best.safetensors"; }
  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::vector<std::filesystem::path> newest_first() const;

  std::filesystem::path folder_;
};

}  // namespace camber::train
