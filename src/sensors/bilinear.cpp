#include "sensors/bilinear.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace camber::sensors {
namespace {

constexpr float kOne = 2048;  // weights have eleven bits behind the point

// The two neighbours of a pixel of the resized image along one axis; first < 0: outside of it.
struct Neighbours {
  std::int64_t first = -1, second = -1;
  std::int32_t first_weight = 0, second_weight = 0;
};

// Beyond the middle of the outermost pixels a column takes the last one with the whole weight, but a row takes it twice
// with both weights, whose products are cut off one by one.
Neighbours neighbours_of(std::int64_t pixel, double step, std::int64_t source, bool is_column) {
  auto position = static_cast<float>((static_cast<double>(pixel) + 0.5) * step - 0.5);
  auto first = static_cast<std::int64_t>(std::floor(position));
  position -= static_cast<float>(first);
  if (is_column && (first < 0 || first >= source - 1)) {
    position = 0;
    first = std::clamp<std::int64_t>(first, 0, source - 1);
  }
  const auto inside = [source](std::int64_t i) { return std::clamp<std::int64_t>(i, 0, source - 1); };
  return {inside(first), inside(first + 1), static_cast<std::int32_t>(std::lrint((1 - position) * kOne)),
          static_cast<std::int32_t>(std::lrint(position * kOne))};
}

// One axis of the result: `count` pixels of the `resized` ones from `crop` on.
std::vector<Neighbours> axis(std::int64_t count, std::int64_t resized, std::int64_t source, double crop, bool flip,
                             bool is_column) {
  const double step = 1 / (static_cast<double>(resized) / static_cast<double>(source));
  std::vector<Neighbours> all(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t pixel = (flip ? count - 1 - i : i) + std::llround(crop);
    if (pixel >= 0 && pixel < resized) all[static_cast<std::size_t>(i)] = neighbours_of(pixel, step, source, is_column);
  }
  return all;
}

// Times 2048.
void blend_columns(const std::uint8_t* source, const std::vector<Neighbours>& columns, std::vector<std::int32_t>& row) {
  auto* out = row.data();
  for (const Neighbours& at : columns) {
    const std::uint8_t *first = source + 3 * at.first, *second = source + 3 * at.second;
    for (std::int64_t i = 0; i < 3; ++i)
      *out++ = at.first < 0 ? 0 : first[i] * at.first_weight + second[i] * at.second_weight;
  }
}

// The two last blended rows of the source, by their number.
class BlendedRows {
 public:
  BlendedRows(const ImageView& source, const std::vector<Neighbours>& columns) : source_(source), columns_(columns) {
    for (Row& row : rows_) row.values.resize(3 * columns.size());
  }
  const std::int32_t* get(std::int64_t number) {
    if (rows_[0].number != number) std::swap(rows_[0], rows_[1]);  // the one used last comes first and stays
    if (rows_[0].number != number) {
      rows_[0].number = number;
      blend_columns(source_.row(number), columns_, rows_[0].values);
    }
    return rows_[0].values.data();
  }

 private:
  struct Row {
    std::int64_t number = -1;
    std::vector<std::int32_t> values{};
  };
  const ImageView& source_;
  const std::vector<Neighbours>& columns_;
  std::array<Row, 2> rows_{};
};

void blend(const ImageView& source, const std::vector<Neighbours>& rows, const std::vector<Neighbours>& columns,
           Image& result) {
  BlendedRows blended(source, columns);
  for (std::int64_t y = 0; y < result.height; ++y) {
    const Neighbours& at = rows[static_cast<std::size_t>(y)];
    if (at.first < 0) continue;
    const std::int32_t *first = blended.get(at.first), *second = blended.get(at.second);
    std::uint8_t* out = result.row(y);
    for (std::int64_t i = 0; i < 3 * result.width; ++i)
      out[i] = static_cast<std::uint8_t>(
          (((at.first_weight * (first[i] >> 4)) >> 16) + ((at.second_weight * (second[i] >> 4)) >> 16) + 2) >> 2);
  }
}

// Half the size: OpenCV takes the mean of two by two pixels, half rounded up.
void halve(const ImageView& source, const geometry::ImageTransform& transform, Image& result) {
  const std::int64_t crop_x = std::llround(transform.crop_x), crop_y = std::llround(transform.crop_y);
  for (std::int64_t y = 0; y < result.height; ++y) {
    const std::int64_t row = y + crop_y;
    if (row < 0 || 2 * row >= source.height) continue;
    const std::uint8_t *upper = source.row(2 * row), *lower = source.row(2 * row + 1);
    for (std::int64_t x = 0; x < result.width; ++x) {
      const std::int64_t column = (transform.flip ? result.width - 1 - x : x) + crop_x;
      if (column < 0 || 2 * column >= source.width) continue;
      for (std::int64_t i = 0; i < 3; ++i) {
        const std::int64_t left = 6 * column + i, right = left + 3;
        result.row(y)[3 * x + i] =
            static_cast<std::uint8_t>((upper[left] + upper[right] + lower[left] + lower[right] + 2) >> 2);
      }
    }
  }
}

}  // namespace

void resample_bilinear(const ImageView& decoded, ImageSize source, const geometry::ImageTransform& transform,
                       Image& result) {
  const std::int64_t width = transform.resized(source.width), height = transform.resized(source.height);
  if (width < 1 || height < 1) return;
  if (decoded.width == 2 * width && decoded.height == 2 * height) return halve(decoded, transform, result);
  blend(decoded, axis(result.height, height, decoded.height, transform.crop_y, false, false),
        axis(result.width, width, decoded.width, transform.crop_x, transform.flip, true), result);
}

}  // namespace camber::sensors
