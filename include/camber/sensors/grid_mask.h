#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "camber/random/stream.h"

namespace camber::sensors {

/// GridMask: squares at equal distances cover an image. A pixel stays when its row or its column lies in a stripe;
/// stripes are `width` wide and begin every `period` pixels, from first_row and first_column on, counted on a canvas of
/// one and a half times the image's size whose middle is the image (before the first stripe there is none).
///
///   const GridMask mask{.period = 40, .width = 20, .first_row = 3, .first_column = 8};
///   const auto rows = mask.open_rows(320);   // rows[v]: row v stays whole
struct GridMask {
  std::int64_t period = 2, width = 1;
  std::int64_t first_row = 0, first_column = 0;

  std::vector<bool> open_rows(std::int64_t height) const;
  std::vector<bool> open_columns(std::int64_t image_width) const;
  bool operator==(const GridMask&) const = default;
};

/// As CMT draws it, in a share of `probability`: a period of 2 to height - 1 pixels, width = round(ratio * period) in 1
/// .. period - 1, and where the stripes begin. Images lower than three pixels have none.
std::optional<GridMask> draw_grid_mask(double probability, double ratio, std::int64_t height, random::Stream stream);

}  // namespace camber::sensors
