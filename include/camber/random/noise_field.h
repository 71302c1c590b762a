#pragma once
#include <array>
#include <cstdint>

#include "camber/random/stream.h"

namespace camber::random {

/// Fast noise for pixels and rays: a pure function of (stream, index), so that the order of work does not matter.
///
///   const NoiseField noise(stream.at("pixels"));
///   const auto words = noise.words(pixel);
///   red += deviation * NoiseField::normal(words[0]);
class NoiseField {
 public:
  explicit NoiseField(const Stream& stream) : key_(philox_key(stream.key())) {}

  /// Four independent words of an index.
  std::array<std::uint32_t, 4> words(std::uint32_t index) const { return philox4x32({index, 0, 0, 0}, key_); }

  /// Uniform in [0, 1).
  static float uniform(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1.0p-24F; }
  /// Standard normal, to 1/4096 of probability: the quantile in the middle of the slice that the top 12 bits name.
  static float normal(std::uint32_t word) { return quantiles()[word >> 20]; }

 private:
  static const std::array<float, 4096>& quantiles();

  PhiloxKey key_;
};

}  // namespace camber::random
