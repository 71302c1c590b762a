#pragma once
#include <cstdint>

#include <camber/runs/detector_options.h>

namespace camber::runs {

/// The memory of this machine in 10^9 bytes; 0 where the system does not say.
double machine_gigabytes();

/// What a training step holds at the least, in 10^9 bytes: parameters with their moments, the batches prepared ahead,
/// the feature maps and queries of a batch. A lower bound by the sizes of the configuration, for refusing what cannot
/// run.
double training_gigabytes(const DetectorTrainingOptions& options, std::int64_t cameras);

/// Throws std::invalid_argument, which states both numbers, when that is more than `gigabytes`; 0: unknown, no check.
void check_training_memory(const DetectorTrainingOptions& options, std::int64_t cameras, double gigabytes);

}  // namespace camber::runs
