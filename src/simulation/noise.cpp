#include "simulation/noise.h"

#include "camber/random/noise_field.h"
#include "camber/simulation/scene.h"

namespace camber::simulation {
namespace {

float smooth(float t) {
  return t * t * (3 - 2 * t);
}

std::size_t index_of(int row, int column, int side) {
  return static_cast<std::size_t>(row) * static_cast<std::size_t>(side) + static_cast<std::size_t>(column);
}

}  // namespace

NoiseTile::NoiseTile(random::Stream stream) : value_(static_cast<std::size_t>(kSide) * kSide) {
  // Octaves of value noise whose grids divide the side, so that the tile repeats without a seam.
  float total = 0;
  for (const int grid : {16, 32, 64, 128}) {
    const float weight = grid == 16 ? 1.0F : 0.7F;
    total += weight;
    std::vector<float> node(static_cast<std::size_t>(grid) * grid);
    for (float& value : node) value = random::NoiseField::uniform(stream.bits32());
    const int step = kSide / grid;
    for (int row = 0; row < kSide; ++row) {
      for (int column = 0; column < kSide; ++column) {
        const int r0 = row / step, c0 = column / step, r1 = (r0 + 1) % grid, c1 = (c0 + 1) % grid;
        const float fr = smooth(static_cast<float>(row % step) / static_cast<float>(step));
        const float fc = smooth(static_cast<float>(column % step) / static_cast<float>(step));
        const auto at = [&](int r, int c) { return node[index_of(r, c, grid)]; };
        const float low = at(r0, c0) + fc * (at(r0, c1) - at(r0, c0)),
                    high = at(r1, c0) + fc * (at(r1, c1) - at(r1, c0));
        value_[index_of(row, column, kSide)] += weight * (low + fr * (high - low));
      }
    }
  }
  for (float& value : value_) value /= total;
}

float NoiseTile::at(float u, float v) const {
  const float su = u * 16, sv = v * 16;
  const int fu = whole_below(su), fv = whole_below(sv);
  const int c0 = fu & (kSide - 1), r0 = fv & (kSide - 1), c1 = (c0 + 1) & (kSide - 1), r1 = (r0 + 1) & (kSide - 1);
  const float a = su - static_cast<float>(fu), b = sv - static_cast<float>(fv);
  const auto node = [this](int r, int c) { return value_[index_of(r, c, kSide)]; };
  const float low = node(r0, c0) + a * (node(r0, c1) - node(r0, c0));
  const float high = node(r1, c0) + a * (node(r1, c1) - node(r1, c0));
  return low + b * (high - low);
}

}  // namespace camber::simulation
