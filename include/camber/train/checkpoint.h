#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <camber/train/exponential_average.h>
#include <camber/train/optimizer_groups.h>

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

/// Weights, optimiser state and counters of a run in one safetensors file that any reader opens:
///
///   model.<name>                    parameters and buffers under the names of the module
///   optimizer.<name>.exp_avg, ...   what the optimiser keeps of a parameter
///   average.<name>                  the running average
///   metadata: whatever the run wants to say (its configuration), counters and numbers (JSON), checksums (JSON)
///
/// Files are written to a temporary name, flushed and renamed. A file that is cut short, damaged (its checksums tell),
/// or of another model is refused with a std::runtime_error of one sentence that names the file, the tensor and what is
/// wrong; nothing is loaded then.
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
};

void save_checkpoint(const std::filesystem::path& path, const TrainingState& state, const CheckpointInfo& info);

/// Loads all of it, bit for bit, or throws and changes nothing.
CheckpointInfo load_checkpoint(const std::filesystem::path& path, const TrainingState& state);

/// Metadata and counters alone; checks that the file is whole, not the tensors' checksums.
CheckpointInfo read_checkpoint_info(const std::filesystem::path& path);

/// The weights alone, of the running average where there is one, under model.<name>: what inference reads.
void save_weights(const std::filesystem::path& path, const TrainingState& state, const CheckpointInfo& info);

/// What became of every name when part of a file was loaded.
struct LoadReport {
  struct Mismatch {
    std::string name{};
    std::string file{};   ///< "F32 [64, 32]"
    std::string model{};  ///< likewise
  };
  std::vector<std::string> loaded{};
  std::vector<std::string> missing{};  ///< in the model alone: they keep their values
  std::vector<std::string> unknown{};  ///< in the file alone
  std::vector<Mismatch> mismatched{};  ///< in both, of another shape or type: they keep their values
  std::vector<std::string> excluded{};

  bool complete() const { return missing.empty() && unknown.empty() && mismatched.empty() && excluded.empty(); }
  /// Every name that did not match, one a line under a sentence of counts.
  std::string text() const;
};

/// Takes the weights that a file and a model share, for a branch or for fine-tuning. Reads the running average where
/// the file has one and `use_average` is set. Names that contain one of `exclude` stay as they are. Throws
/// std::runtime_error for a damaged file and when not a single name matches.
struct LoadWeightsOptions {
  bool use_average = true;
  std::vector<std::string> exclude{};
};
LoadReport load_weights(const std::filesystem::path& path, torch::nn::Module& model,
                        const LoadWeightsOptions& options = {});

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
