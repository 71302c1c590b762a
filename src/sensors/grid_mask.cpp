#include "camber/sensors/grid_mask.h"

#include <algorithm>
#include <cmath>

namespace camber::sensors {
namespace {

std::vector<bool> stripes_on(std::int64_t size, std::int64_t period, std::int64_t width, std::int64_t first) {
  const std::int64_t canvas = size + size / 2, margin = (canvas - size) / 2;
  std::vector<bool> open(static_cast<std::size_t>(size), false);
  for (std::int64_t i = 0; i < canvas / period; ++i) {
    const std::int64_t begin = i * period + first - margin;
    const std::int64_t from = std::clamp<std::int64_t>(begin, 0, size);
    const std::int64_t to = std::clamp<std::int64_t>(begin + width, 0, size);
    std::fill(open.begin() + from, open.begin() + to, true);
  }
  return open;
}

}  // namespace

std::vector<bool> GridMask::open_rows(std::int64_t height) const {
  return stripes_on(height, period, width, first_row);
}

std::vector<bool> GridMask::open_columns(std::int64_t image_width) const {
  return stripes_on(image_width, period, width, first_column);
}

std::optional<GridMask> draw_grid_mask(double probability, double ratio, std::int64_t height, random::Stream stream) {
  if (height < 3 || !stream.chance(probability)) return std::nullopt;
  GridMask mask;
  mask.period = 2 + static_cast<std::int64_t>(stream.integer(static_cast<std::uint64_t>(height - 2)));
  const std::int64_t wanted = std::lround(static_cast<double>(mask.period) * ratio);
  mask.width = std::clamp<std::int64_t>(wanted, 1, mask.period - 1);
  mask.first_row = static_cast<std::int64_t>(stream.integer(static_cast<std::uint64_t>(mask.period)));
  mask.first_column = static_cast<std::int64_t>(stream.integer(static_cast<std::uint64_t>(mask.period)));
  return mask;
}

}  // namespace camber::sensors
