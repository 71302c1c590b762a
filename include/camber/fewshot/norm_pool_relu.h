#pragma once
#include <torch/nn/modules/batchnorm.h>
#include <torch/types.h>

namespace camber::fewshot {

/// relu(max_pool2d(norm(maps), 2)), maps [B, C, H, W] with even or odd sides.
///
/// In training, for float maps on a processor, it is one operation: the maps are read twice forward and twice backward,
/// and nothing of their size is written but their gradient (the three operations by themselves write six such arrays).
/// The norm's running statistics move as its own forward would move them. The same bits for any number of threads.
/// In evaluation, and for other types and devices, the three operations run one after the other.
torch::Tensor norm_pool_relu(const torch::Tensor& maps, torch::nn::BatchNorm2d& norm);

}  // namespace camber::fewshot
