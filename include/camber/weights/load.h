#pragma once
#include <string>
#include <vector>

#include <camber/weights/state_file.h>

namespace camber::weights {

/// Buffers that say how weights are read and are no weights themselves, by name: the bounds and the mapping of every
/// nn::BoundedScale, the clip in force of every nn::AttentionBias.
struct SettingNames {
  std::vector<std::string> all{};
  std::vector<std::string> later{};  ///< those that older files lack; they mean what the module was built with

  bool contains(const std::string& name) const;
  bool is_later(const std::string& name) const;
};
SettingNames settings_of(const torch::nn::Module& model);

/// What became of every name when a file was loaded.
struct LoadReport {
  struct Mismatch {
    std::string name{};
    std::string file{};   ///< "F32 [64, 32]"
    std::string model{};  ///< likewise
  };
  std::vector<std::string> loaded{};
  std::vector<std::string> missing{};  ///< in the model alone: they keep their values
  std::vector<std::string> unknown{};  ///< in the file alone
  std::vector<Mismatch> mismatched{};  ///< in both, of another shape or kind: they keep their values
  std::vector<std::string> excluded{};
  std::vector<std::string> notes{};  ///< with Settings::kOfModel: a sentence for each setting that is not the file's

  bool complete() const { return missing.empty() && unknown.empty() && mismatched.empty() && excluded.empty(); }
  /// Every name that did not match, one a line under a sentence of counts; then the notes.
  std::string text() const;
};

/// Whose bounds, constraints, spaces and clips hold after loading.
enum class Settings {
  kOfFile,   ///< the model becomes what was saved
  kOfModel,  ///< a new run with settings of its own: scales keep the file's value, put onto the model's bounds
};

struct LoadOptions {
  std::vector<std::string> exclude{};  ///< names that contain one of these stay as they are
  Settings settings = Settings::kOfFile;
  /// With kOfModel: a module as the file's own configuration builds it. Tells how to read scales of files that do not
  /// say it themselves, and what else was configured.
  const torch::nn::Module* written_for = nullptr;
};

/// Takes what a file and a model share; the running average where the file has one. A floating-point tensor takes the
/// type of the model's; any other must have it.
/// Throws std::runtime_error when not a single name matches, and std::invalid_argument for a part in `exclude` that no
/// name contains; nothing is loaded then. What the model computed with its old weights is forgotten.
LoadReport load(const StateFile& file, torch::nn::Module& model, const LoadOptions& options = {});

/// Loads the whole state, settings included, or throws std::runtime_error with what did not match and changes nothing.
void load_whole(const StateFile& file, torch::nn::Module& model);

}  // namespace camber::weights
