#pragma once
#include "camber/detection/detector.h"

namespace camber::benchmarks {

/// The same weights and the same work as detector->run(batch, ...) of a head with router and bias, with each attention
/// of the decoder in the operations of torch.nn.MultiheadAttention: the bias of every layer as a dense [B, 1, Q, K],
/// expanded over the heads, and the weights returned. Fills class_logits, codes and trust.
detection::DetectorOutput run_on_torch_attention(detection::Detector& detector, const detection::DetectorBatch& batch,
                                                 const torch::Tensor& key_positions);

}  // namespace camber::benchmarks
