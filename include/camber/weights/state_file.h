#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <camber/storage/safetensors.h>

#include <torch/nn/module.h>
#include <torch/types.h>

/// The state of modules in safetensors files that any reader opens:
///
///   model.<name>     parameters and buffers under the names of the module
///   average.<name>   the running average of the same
///   metadata         whatever the writer wants to say, checksums (JSON), numerics (camber/ops/numerics.h)
namespace camber::weights {

inline constexpr const char* kModelPrefix = "model.";
inline constexpr const char* kAveragePrefix = "average.";

/// One tensor under its name in the file.
struct NamedTensor {
  std::string name;
  torch::Tensor tensor;
};

/// The module's own parameters and buffers; a tensor that two names share appears under the first.
std::vector<NamedTensor> tensors_of(const torch::nn::Module& model, const std::string& prefix = kModelPrefix);

/// Bytes of a tensor as a file holds them. It must be contiguous, on the CPU and outlive the view.
storage::TensorView view_of(const NamedTensor& entry);
torch::Tensor tensor_of(const storage::TensorView& view);
/// "F32 [64, 32]".
std::string shape_text(const storage::TensorView& view);
std::string shape_text(const torch::Tensor& tensor);
/// Shape and type are the same: it can be taken bit for bit.
bool fits(const storage::TensorView& view, const torch::Tensor& tensor);

/// Writes tensors of any layout and device with a checksum each: to a temporary name, flushed and renamed, in a folder
/// that is made where it is missing.
void write_state(const std::filesystem::path& path, std::vector<NamedTensor> tensors, storage::Metadata metadata);

/// The version of the arithmetic that a file was made with; 1 where it says nothing.
inline constexpr const char* kNumericsKey = "numerics";
std::int64_t numerics_of(const storage::Metadata& metadata);
/// "" for this program's own, else what follows from it for whoever hopes for the same bits.
std::string numerics_sentence(const std::string& what, std::int64_t made_with);

/// A file whose checksums were verified. One that is cut short or damaged is refused with a std::runtime_error of one
/// sentence that names the file, the tensor and what is wrong. A file without sums, written by others, is taken as is.
class StateFile : public storage::SafetensorsFile {
 public:
  explicit StateFile(const std::filesystem::path& path);
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace camber::weights
