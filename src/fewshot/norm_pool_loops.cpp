#include "fewshot/norm_pool_loops.h"

#include <algorithm>
#include <vector>

namespace camber::fewshot {
namespace {

// Adds value(pixel, channel) over all pixels: rows in float, then in double.
template <class Value>
void add_rows(const float* maps, const ImageShape& shape, double* total, const Value& value) {
  const std::int64_t channels = shape.channels;
  std::vector<float> row(static_cast<std::size_t>(channels));
  for (std::int64_t y = 0; y < shape.height; ++y) {
    std::fill(row.begin(), row.end(), 0.0F);
    float* sums = row.data();
    for (std::int64_t x = 0; x < shape.width; ++x, maps += channels)
      for (std::int64_t c = 0; c < channels; ++c) sums[c] += value(maps[c], c);
    for (std::int64_t c = 0; c < channels; ++c) total[c] += static_cast<double>(sums[c]);
  }
}

// Calls visit(cell, first pixel) for every pooled cell.
template <class Visit>
void for_each_cell(const ImageShape& shape, const Visit& visit) {
  for (std::int64_t y = 0; y < shape.height / 2; ++y)
    for (std::int64_t x = 0; x < shape.width / 2; ++x)
      visit((y * (shape.width / 2) + x) * shape.channels, (2 * y * shape.width + 2 * x) * shape.channels);
}

}  // namespace

void image_moments(const float* maps, const ImageShape& shape, double* mean, double* squares) {
  const std::int64_t channels = shape.channels;
  std::fill(mean, mean + channels, 0.0);
  std::fill(squares, squares + channels, 0.0);
  add_rows(maps, shape, mean, [](float x, std::int64_t) { return x; });
  std::vector<float> centre(static_cast<std::size_t>(channels));
  for (std::int64_t c = 0; c < channels; ++c) {
    mean[c] /= static_cast<double>(shape.pixels());
    centre[static_cast<std::size_t>(c)] = static_cast<float>(mean[c]);
  }
  const float* m = centre.data();
  add_rows(maps, shape, squares, [m](float x, std::int64_t c) { return (x - m[c]) * (x - m[c]); });
}

void pool_image(const float* maps, const ImageShape& shape, const float* slope, const float* offset, float* pooled,
                std::uint8_t* which) {
  const std::int64_t channels = shape.channels, down = shape.width * channels;
  for_each_cell(shape, [=](std::int64_t cell, std::int64_t pixel) {
    const float *a = maps + pixel, *b = a + channels, *c = a + down, *d = c + channels;
    float* out = pooled + cell;
    std::uint8_t* index = which + cell;
    for (std::int64_t i = 0; i < channels; ++i) {
      const float za = slope[i] * a[i] + offset[i], zb = slope[i] * b[i] + offset[i];
      const float zc = slope[i] * c[i] + offset[i], zd = slope[i] * d[i] + offset[i];
      // The first of equals, as the library's own pooling takes it.
      const float top = zb > za ? zb : za, low = zd > zc ? zd : zc;
      const int top_index = zb > za ? 1 : 0, low_index = zd > zc ? 3 : 2;
      const float largest = low > top ? low : top;
      out[i] = largest > 0 ? largest : 0;
      index[i] = static_cast<std::uint8_t>(low > top ? low_index : top_index);
    }
  });
}

void gradient_sums(const float* gradient, const float* pooled, const std::uint8_t* which, const float* maps,
                   const ImageShape& shape, const float* mean, double* sum, double* product_sum) {
  const std::int64_t channels = shape.channels, down = shape.width * channels;
  std::fill(sum, sum + channels, 0.0);
  std::fill(product_sum, product_sum + channels, 0.0);
  const std::int64_t step[4] = {0, channels, down, down + channels};
  for_each_cell(shape, [&](std::int64_t cell, std::int64_t pixel) {
    for (std::int64_t i = 0; i < channels; ++i) {
      const float g = pooled[cell + i] > 0 ? gradient[cell + i] : 0;
      const float x = maps[pixel + step[which[cell + i]] + i];
      sum[i] += static_cast<double>(g);
      product_sum[i] += static_cast<double>(g * (x - mean[i]));
    }
  });
}

void spread_gradient(const float* gradient, const float* pooled, const std::uint8_t* which, const float* maps,
                     const ImageShape& shape, const float* mean, const float* slope, const float* constant,
                     const float* linear, float* result) {
  const std::int64_t channels = shape.channels, down = shape.width * channels;
  for (std::int64_t pixel = 0; pixel < shape.pixels() * channels; pixel += channels)
    for (std::int64_t i = 0; i < channels; ++i)
      result[pixel + i] = constant[i] + linear[i] * (maps[pixel + i] - mean[i]);
  const std::int64_t step[4] = {0, channels, down, down + channels};
  for_each_cell(shape, [&](std::int64_t cell, std::int64_t pixel) {
    for (std::int64_t i = 0; i < channels; ++i) {
      const float g = pooled[cell + i] > 0 ? slope[i] * gradient[cell + i] : 0;
      result[pixel + step[which[cell + i]] + i] += g;
    }
  });
}

}  // namespace camber::fewshot
