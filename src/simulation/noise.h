#pragma once
#include <array>
#include <cstdint>

#include "camber/random/stream.h"

namespace camber::simulation {

/// Fast noise for pixels and rays: a pure function of (stream, index), so that the order of work does not matter.
class NoiseField {
 public:
  explicit NoiseField(const random::Stream& stream) : key_(random::philox_key(stream.key())) {}

  std::array<std::uint32_t, 4> words(std::uint32_t index) const { return random::philox4x32({index, 0, 0, 0}, key_); }

  /// Uniform in [0, 1).
  static float uniform(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1.0p-24F; }
  /// Standard normal, to 1/4096 of probability: the quantile in the middle of the slice that the top 12 of 16 bits
  /// name.
  static float normal16(std::uint32_t half_word) { return quantiles()[(half_word >> 4) & 0xFFFU]; }
  static float normal(std::uint32_t word) { return quantiles()[word >> 20]; }

 private:
  static const std::array<float, 4096>& quantiles();

  random::PhiloxKey key_;
};

/// floor() for values that fit an int: std::floor is a library call without SSE 4.1, and textures need it per ray.
inline int whole_below(float value) {
  const int whole = static_cast<int>(value);
  return whole - (static_cast<float>(whole) > value ? 1 : 0);
}

/// A well-mixed word of two, for textures: the finaliser of SplitMix64.
inline std::uint32_t mix_words(std::uint64_t seed, std::uint32_t index) {
  std::uint64_t z = seed + index * 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return static_cast<std::uint32_t>(z >> 32);
}

}  // namespace camber::simulation
