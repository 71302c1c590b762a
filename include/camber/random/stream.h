#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "camber/random/philox.h"

namespace camber::random {

/// A named stream of random numbers: a function of (seed, name, index) alone.
///
/// Two streams with different names never share a draw, so that adding a consumer (a router, a second augmentation)
/// changes no number that another one sees. `at(index)` opens the sub-stream of one step, sample or object.
///
///   Stream order(seed, "data.order");
///   Stream noise = Stream(seed, "denoising").at(step);
///   double u = noise.uniform();
class Stream {
 public:
  Stream(std::uint64_t seed, std::string_view name);

  /// The sub-stream with this index; it starts at its own beginning whatever was drawn from this one.
  Stream at(std::uint64_t index) const;
  /// The sub-stream with this name.
  Stream at(std::string_view name) const;

  std::uint32_t bits32();
  std::uint64_t bits64();
  /// Uniform in [0, 1) with 53 bits.
  double uniform();
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  /// Standard normal (Box-Muller; one draw takes two uniforms, so that the position in the stream is easy to state).
  double normal();
  double normal(double mean, double deviation) { return mean + deviation * normal(); }
  /// Uniform in 0 .. count-1 without modulo bias; count must be at least 1.
  std::uint64_t integer(std::uint64_t count);
  bool chance(double probability) { return uniform() < probability; }
  /// A permutation of 0 .. count-1 (Fisher-Yates).
  std::vector<std::int64_t> permutation(std::int64_t count);

  /// The 64-bit value that names this stream; fit to seed another generator.
  std::uint64_t key() const { return key_; }

 private:
  explicit Stream(std::uint64_t key) : key_(key) {}

  std::uint64_t key_;
  std::uint64_t position_ = 0;
  PhiloxCounter block_{};
};

}  // namespace camber::random
