#include "camber/random/stream.h"

#include <cmath>
#include <numbers>
#include <stdexcept>
#include <utility>

namespace camber::random {
namespace {

// Mixes a word into a key; the finaliser of SplitMix64, which is a bijection with full avalanche.
std::uint64_t mix(std::uint64_t key, std::uint64_t word) {
  std::uint64_t z = key + 0x9E3779B97F4A7C15ull + word * 0xD1B54A32D192ED03ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

// FNV-1a over the name, so that the stream does not depend on the standard library's hash.
std::uint64_t hash(std::string_view name) {
  std::uint64_t value = 0xCBF29CE484222325ull;
  for (const char letter : name) value = (value ^ static_cast<unsigned char>(letter)) * 0x100000001B3ull;
  return value;
}

}  // namespace

Stream::Stream(std::uint64_t seed, std::string_view name) : key_(mix(mix(0, seed), hash(name))) {}

Stream Stream::at(std::uint64_t index) const {
  return Stream(mix(key_, index));
}
// The constant keeps the name "x" apart from any small index.
Stream Stream::at(std::string_view name) const {
  return Stream(mix(key_ ^ 0xA5A5A5A5A5A5A5A5ull, hash(name)));
}

std::uint32_t Stream::bits32() {
  const std::uint32_t word = position_ & 3;
  if (word == 0) {
    const std::uint64_t block = position_ >> 2;
    block_ = philox4x32({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0},
                        philox_key(key_));
  }
  ++position_;
  return block_[word];
}

std::uint64_t Stream::bits64() {
  const std::uint64_t low = bits32();
  return low | (std::uint64_t{bits32()} << 32);
}

double Stream::uniform() {
  return static_cast<double>(bits64() >> 11) * 0x1.0p-53;
}

double Stream::normal() {
  const double radius = std::sqrt(-2.0 * std::log1p(-uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

std::uint64_t Stream::integer(std::uint64_t count) {
  if (count == 0) throw std::invalid_argument("[Stream.integer] count must be at least 1, got 0");
  const std::uint64_t limit = UINT64_MAX - UINT64_MAX % count;
  std::uint64_t draw = bits64();
  while (draw >= limit) draw = bits64();
  return draw % count;
}

std::vector<std::int64_t> Stream::permutation(std::int64_t count) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) order[static_cast<std::size_t>(i)] = i;
  for (std::int64_t i = count - 1; i > 0; --i)
    std::swap(order[static_cast<std::size_t>(i)], order[integer(static_cast<std::uint64_t>(i) + 1)]);
  return order;
}

}  // namespace camber::random
