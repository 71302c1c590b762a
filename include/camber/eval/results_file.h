#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "camber/eval/detection_box.h"

namespace camber::eval {

/// Predictions as anyone's `results_nusc.json` has them.
struct ResultsFile {
  std::string meta{};   ///< the `meta` object as JSON text
  SampleBoxes boxes{};  ///< samples in the order of the file
};

struct ResultsOptions {
  std::int64_t max_boxes_per_sample = 500;
  /// When given, the boxes of other samples are passed over unread, as the devkit does for custom splits.
  const std::unordered_set<std::string_view>* wanted = nullptr;
  int threads = 0;  ///< 0: as many as the machine has; the result does not depend on it
};

/// Reads predictions in one streaming pass: the file may be of any size, memory is needed for the boxes alone. What the
/// devkit refuses is refused, with the file, the sample and the box: no `results` or `meta`, an unknown class or
/// attribute, lists of the wrong length, NaN where a number must stand, too many boxes in a sample. An integer score
/// and a velocity of NaN are accepted, a missing score counts as -1, `ego_translation` serves only where no tables tell
/// where the ego vehicle was. Beyond the devkit, numbers written as text or as true and false are refused.
ResultsFile read_results(const std::filesystem::path& path, const ResultsOptions& options = {});

/// Reads true objects in the same box format: {"results": {token: [box, ...]}} with or without `meta`, or the inner
/// object alone. `num_pts` filters as in the tables; the distance from the ego vehicle is that of `ego_translation`,
/// zero where it is missing.
SampleBoxes read_ground_truth(const std::filesystem::path& path, int threads = 0);

}  // namespace camber::eval
