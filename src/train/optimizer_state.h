#pragma once
#include <string>
#include <vector>

#include <camber/train/optimizer_groups.h>
#include <camber/weights/state_file.h>

#include <torch/optim/optimizer.h>

namespace camber::train {

inline constexpr const char* kOptimizerPrefix = "optimizer.";

/// What the optimiser keeps; step counts as int64 []. Empty before the first step.
std::vector<weights::NamedTensor> optimizer_tensors(torch::optim::Optimizer& optimizer, const OptimizerGroups& groups);

/// The file's tensors of the optimiser, taken over as its whole state: parameters without any in the file have none.
/// Call check_optimizer_tensors before.
void restore_optimizer(const storage::SafetensorsFile& file, torch::optim::Optimizer& optimizer,
                       const OptimizerGroups& groups);
/// A sentence's part about the first tensor of the optimiser that does not fit; empty when all do.
std::string check_optimizer_tensors(const storage::SafetensorsFile& file, torch::optim::Optimizer& optimizer,
                                    const OptimizerGroups& groups);

}  // namespace camber::train
