#pragma once
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "camber/detection/detector.h"
#include "camber/storage/safetensors.h"

namespace camber::detection {

/// The key under which a file's metadata holds the detector's options as TOML, and what stands before the name of each
/// parameter and buffer.
inline constexpr const char* kOptionsKey = "detector";
inline constexpr const char* kWeightPrefix = "model.";

/// Parameters and buffers, by name with the prefix, in the module's order; contiguous and on the CPU.
std::vector<std::pair<std::string, torch::Tensor>> state_of(const DetectorImpl& detector);

/// A tensor as a file holds it. The bytes are the tensor's own: it must be contiguous and outlive the view.
storage::TensorView view_of(const std::string& name, const torch::Tensor& tensor);
/// The array of a file as a tensor of its own.
torch::Tensor tensor_of(const storage::TensorView& view);

/// What did not fit when only part of a file was taken.
struct LoadReport {
  std::vector<std::string> missing{};      // in the model, not in the file: they keep their values
  std::vector<std::string> unexpected{};   // in the file, not in the model
  std::vector<std::string> other_shape{};  // in both, with different shapes: they keep their values
  bool complete() const { return missing.empty() && unexpected.empty() && other_shape.empty(); }
};

/// Copies what fits. Names in the file that do not begin with the prefix (an optimiser's state) are passed over.
LoadReport load_weights(DetectorImpl& detector, const storage::SafetensorsFile& file);

/// The options that a file holds.
DetectorOptions options_in(const storage::SafetensorsFile& file, const std::string& name);

/// Writes weights and options, atomically.
void save(const DetectorImpl& detector, const std::filesystem::path& file, storage::Metadata metadata = {});

}  // namespace camber::detection
