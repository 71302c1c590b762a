#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "camber/sensors/cues.h"

namespace camber::sensors {

/// How well a threshold on the cues alone tells a faulty sensor from a sound one: areas under the ROC curve, 0.5 is
/// chance, 1 perfect. The joint score of a reading is max(age, -level).
struct CueSeparation {
  std::string fault{};
  double age = 0.5, level = 0.5, joint = 0.5;
  std::int64_t faulty = 0, sound = 0;  ///< readings compared
};

/// The area under the ROC curve: the chance that a positive scores above a negative, ties counting half.
double area_under_curve(const std::vector<double>& positive, std::vector<double> negative);

/// Every fault in turn on every sample: the readings that it hit against the same sensors' sound ones.
std::vector<CueSeparation> cue_separation(const nuscenes::Dataset& dataset, std::span<const nuscenes::Index> samples,
                                          const FrameOptions& frames, std::span<const Fault> faults, std::uint64_t seed,
                                          int threads = 0, const std::function<void(std::int64_t)>& frame_done = {});

/// The mean CPU time of the cues of one frame, in milliseconds, images and points being in memory.
double cue_milliseconds(const nuscenes::Dataset& dataset, std::span<const nuscenes::Index> samples,
                        const FrameOptions& frames);

/// The faults that cues must betray, each at five severities: frozen and stale (true and false timestamps), black,
/// empty, dark.
std::vector<Fault> cue_faults();

std::string to_text(std::span<const CueSeparation> rows, double milliseconds);
std::string to_json(std::span<const CueSeparation> rows, double milliseconds);

}  // namespace camber::sensors
