#pragma once
#include <torch/types.h>

#include "camber/nn/batch_norm.h"

namespace camber::detection {

/// relu(norm(maps)). While the norm measures its batch, and maps are float on the CPU with their channels last, as one
/// operation each way: less memory traffic, the same bits for any number of threads, not differentiable
/// twice. Else one after the other.
torch::Tensor norm_relu(const torch::Tensor& maps, nn::BatchNorm2dImpl& norm);

}  // namespace camber::detection
