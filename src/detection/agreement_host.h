#pragma once
#include "camber/detection/agreement.h"

namespace camber::detection {

/// Heats whose spreads have a smaller product are constant: they correlate with nothing.
constexpr double kConstantHeat = 1e-12;

/// agreement_of in tensor operations, for any device.
SensorAgreement agreement_by_tensors(const torch::Tensor& grid_logits, const torch::Tensor& camera_logits,
                                     const nn::QueryProjection& places, const nn::SensorScene& scene);

/// The same in loops on the host, with the bits of the tensor operations: sigmoids, sums over places and square roots
/// are torch's own, on numbers that lie as they lie there; all else is exact. It takes a tenth of their time, which is
/// what a dozen places and a handful of classes cost in operations on small tensors.
SensorAgreement agreement_on_host(const torch::Tensor& grid_logits, const torch::Tensor& camera_logits,
                                  const nn::QueryProjection& places, const nn::SensorScene& scene);

}  // namespace camber::detection
