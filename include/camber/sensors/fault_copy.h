#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "camber/nuscenes/splits.h"
#include "camber/sensors/fault.h"

namespace camber::sensors {

struct FaultCopySummary {
  std::int64_t samples = 0;  ///< key frames that met the faults
  std::int64_t changed_files = 0, linked_files = 0;
  std::int64_t bytes = 0;  ///< of the changed files
};

/// Writes a copy of a data set in which the faults happened to every key frame of the split (and its sweeps), for
/// detectors that read nuScenes folders and know nothing of faults.
///
/// Same tables, same tokens, same annotations. What a fault did not touch is a hard link to the original where the
/// disk allows it, else a copy. A known-off sensor leaves a black image or an empty cloud, since readers insist on
/// the file; true timestamps of repeated readings and the calibration that a miscalibrated camera believes in
/// stand in the tables. `<version>/faults.json` says for every sample which sensors are off and each stated quality.
/// The version folder appears last; a folder that has it already is refused.
FaultCopySummary write_faulted_copy(const nuscenes::Dataset& dataset, const nuscenes::Split& split,
                                    std::span<const Fault> faults, std::uint64_t seed, int threads,
                                    const std::filesystem::path& out,
                                    const std::function<void(std::int64_t)>& sample_done = {});

}  // namespace camber::sensors
