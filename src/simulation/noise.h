#pragma once
#include <cstdint>

namespace camber::simulation {

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
