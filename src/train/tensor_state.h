#pragma once
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <camber/storage/safetensors.h>
#include <camber/train/checkpoint.h>

#include <torch/types.h>

namespace camber::train {

inline constexpr const char* kModelPrefix = "model.";
inline constexpr const char* kOptimizerPrefix = "optimizer.";
inline constexpr const char* kAveragePrefix = "average.";

/// One tensor of a run under its name in the file.
struct NamedTensor {
  std::string name;
  torch::Tensor tensor;
};

/// The model's parameters and buffers; a tensor that two names share appears under the first.
std::vector<NamedTensor> model_tensors(const torch::nn::Module& model);
std::vector<NamedTensor> average_tensors(const ExponentialAverage& average, const char* prefix);
/// What the optimiser keeps; step counts as int64 []. Empty before the first step.
std::vector<NamedTensor> optimizer_tensors(torch::optim::Optimizer& optimizer, const OptimizerGroups& groups);

/// The file's tensors of the optimiser, taken over as its whole state: parameters without any in the file have none.
/// Call check_optimizer_tensors before.
void restore_optimizer(const storage::SafetensorsFile& file, torch::optim::Optimizer& optimizer,
                       const OptimizerGroups& groups);
/// A sentence's part about the first tensor of the optimiser that does not fit; empty when all do.
std::string check_optimizer_tensors(const storage::SafetensorsFile& file, torch::optim::Optimizer& optimizer,
                                    const OptimizerGroups& groups);

/// The tensor must be contiguous, on the CPU and outlive the view.
storage::TensorView view_of(const NamedTensor& entry);
torch::Tensor tensor_of(const storage::TensorView& view);
/// "F32 [64, 32]".
std::string shape_text(const storage::TensorView& view);
std::string shape_text(const torch::Tensor& tensor);
bool fits(const storage::TensorView& view, const torch::Tensor& tensor);

}  // namespace camber::train
