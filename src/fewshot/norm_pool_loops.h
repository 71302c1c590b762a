#pragma once
#include <cstdint>

/// The loops of norm_pool_relu on plain pointers, one image at a time: maps [height, width, channels] with the
/// channels side by side, pooled maps [height / 2, width / 2, channels]. A last odd row or column belongs to no pooled
/// cell.
namespace camber::fewshot {

struct ImageShape {
  std::int64_t height = 0, width = 0, channels = 0;
  std::int64_t pixels() const { return height * width; }
  std::int64_t cells() const { return (height / 2) * (width / 2); }
};

/// Mean and sum of squared distances from it, of every channel; sums of a row in float, of rows in double.
void image_moments(const float* maps, const ImageShape& shape, double* mean, double* squares);

/// pooled = max(0, max over the 2x2 pixels of slope * x + offset); which: the pixel that was largest, 0 .. 3.
void pool_image(const float* maps, const ImageShape& shape, const float* slope, const float* offset, float* pooled,
                std::uint8_t* which);

/// Sums over cells with pooled > 0 of the gradient, and of the gradient times (x - mean) at the pixel that was largest.
void gradient_sums(const float* gradient, const float* pooled, const std::uint8_t* which, const float* maps,
                   const ImageShape& shape, const float* mean, double* sum, double* product_sum);

/// The gradient of the maps: slope * gradient where a pixel was largest in a cell with pooled > 0, and everywhere
/// constant[c] + linear[c] * (x - mean[c]), which is what the mean and the deviation pass on.
void spread_gradient(const float* gradient, const float* pooled, const std::uint8_t* which, const float* maps,
                     const ImageShape& shape, const float* mean, const float* slope, const float* constant,
                     const float* linear, float* result);

}  // namespace camber::fewshot
