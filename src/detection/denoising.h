#pragma once
#include "camber/detection/detector.h"

namespace camber::detection {

/// True objects with noise on their positions, as further queries of a training step: groups = min(max_groups,
/// num_queries / most objects of a frame), each frame's objects once a group, padded with -1. Per axis the centre moves
/// by U(-1, 1) * noise_scale * (half the size + noise_margin); with fixed references the noise in x and y takes half
/// the length and z is the references' own. No objects in the whole batch: no queries. The draws are those of the
/// stream "denoising" at (seed, step).
/// A batch that is a share of one begins at `first_frame` of it, and has no frame with more than `most` objects.
DenoisingQueries make_denoising_queries(const DetectorBatch& batch, const DetectorOptions& options, std::uint64_t seed,
                                        std::int64_t step, std::int64_t first_frame = 0, std::int64_t most = 0);

/// Bool [B, 1, D + Q, D + Q], true = blocked: the Q learned queries see no denoising query, a group sees itself and the
/// learned ones, and nobody sees padding.
torch::Tensor denoising_mask(const DenoisingQueries& denoising, std::int64_t num_queries);

}  // namespace camber::detection
