#pragma once
#include <array>
#include <cstdint>

/// Counter-based random numbers (Philox 4x32 with ten rounds, Salmon et al., SC 2011).
///
/// A value is a pure function of (key, counter): the same numbers come out whatever the order, the number of threads
/// or the tile size, and nothing has to be stored to draw them again in a backward pass.
namespace camber::random {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

/// Four independent 32-bit words for one counter.
/// Known answer: counter 0, key 0 gives 6627e8d5 e169c58d bc57ac4c 9b00dbd8.
constexpr PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key) {
  constexpr std::uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{kMultiplier0} * counter[0];
    const std::uint64_t product1 = std::uint64_t{kMultiplier1} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

constexpr PhiloxKey philox_key(std::uint64_t seed) {
  return {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
}

/// The random word that decides on attention weight (batch, head, query, key): four neighbouring keys share a counter.
/// A weight is kept when its word is at least dropout_threshold(p).
constexpr std::uint32_t attention_dropout_word(std::uint64_t seed, std::uint32_t batch, std::uint32_t head,
                                               std::uint32_t query, std::uint32_t key) {
  return philox4x32({key >> 2, query, head, batch}, philox_key(seed))[key & 3];
}

/// A weight is dropped when its word lies below this: round-to-nothing of p * 2^32.
constexpr std::uint32_t dropout_threshold(double probability) {
  return static_cast<std::uint32_t>(probability * 4294967296.0);
}

}  // namespace camber::random
