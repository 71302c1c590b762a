#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include <camber/train/checkpoint.h>

namespace camber::train {

/// What a result depends on beside its configuration.
struct Environment {
  std::string version{};  ///< of Camber
  std::string torch_version{};
  std::string compiler{};
  std::string processor{};        ///< "AMD EPYC 9B14"
  std::string instruction_set{};  ///< that the kernels chose
  std::int64_t numerics = 0;      ///< the version of their arithmetic (camber/ops/numerics.h)
  std::int64_t threads = 0;
  std::uint64_t seed = 0;
  std::string commit{};            ///< of the source; empty where it is not known
  std::string data_fingerprint{};  ///< of the data set's tables

  /// Versions, processor and threads of this program.
  static Environment of_this_program();
  std::string to_json() const;
};

/// A sum over the tables (*.json) of a data set's version folder, names and contents.
std::string fingerprint_of_tables(const std::filesystem::path& folder);

/// The folder of a run:
///
///   config.toml       complete, as used
///   environment.json  versions, processor, instruction set, numerics, threads, seed, commit, data fingerprint
///   metrics.jsonl, metrics.csv, events.out.tfevents.*    written while the run goes on
///   checkpoints/      last, previous, best, numbered
///   curves.json       precision over recall of the clean condition, as the devkit's metrics_details.json
///   result.json       at the end
///   lock              held by the process that works in it
class RunFolder {
 public:
  /// A new run. `first_checkpoint` may save what the run starts from; the folder counts as a run only afterwards.
  /// Throws std::invalid_argument when the folder holds a run already.
  static RunFolder create(const std::filesystem::path& path, const std::string& config, const Environment& environment,
                          const std::function<void(const CheckpointFolder&)>& first_checkpoint = {});
  /// A run that exists. Throws std::invalid_argument when the folder is none.
  static RunFolder open(const std::filesystem::path& path);
  /// Whether a run of exactly this configuration can go on there: it has a checkpoint.
  static bool can_resume(const std::filesystem::path& path, const std::string& config);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path config() const { return path_ / "config.toml"; }
  std::filesystem::path environment() const { return path_ / "environment.json"; }
  std::filesystem::path metrics_jsonl() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path result() const { return path_ / "result.json"; }
  std::filesystem::path curves() const { return path_ / "curves.json"; }
  std::filesystem::path weights() const { return path_ / "model.safetensors"; }
  /// Of whoever works in the folder: storage::FolderLock. Reading needs none.
  static std::filesystem::path lock_of(const std::filesystem::path& path) { return path / "lock"; }
  static std::filesystem::path checkpoints_of(const std::filesystem::path& path) { return path / "checkpoints"; }
  CheckpointFolder checkpoints() const { return CheckpointFolder(checkpoints_of(path_)); }
  /// One sentence when the run began with other threads or another instruction set, with which its last bits differ;
  /// empty when it did not, or does not say.
  std::string other_environment() const;

 private:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;
};

/// The exported weights of a run, else its last checkpoint, else the one before.
std::filesystem::path weights_of_run(const std::filesystem::path& folder);

}  // namespace camber::train
