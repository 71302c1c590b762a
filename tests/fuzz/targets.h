#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// What damaged files are thrown at. Each target takes any bytes and must end in an answer or in a sentence; the same
/// functions are run by the mutation test of `make test` and by libFuzzer for hours (CAMBER_BUILD_FUZZERS).
namespace camber::tests {

struct FuzzTarget {
  std::string_view name;
  /// Runs once. Throws std::logic_error when what came out is neither a right answer nor a sentence.
  void (*run)(std::span<const std::uint8_t> bytes);
  /// Good inputs to start from.
  std::vector<std::string> (*seeds)();
  /// Words that are worth inserting.
  std::vector<std::string> (*words)();
};

const std::vector<FuzzTarget>& fuzz_targets();

/// One random change of an input: bits, bytes, pieces cut, doubled, moved, numbers and words put in.
std::string mutate(const std::string& input, const std::vector<std::string>& words, std::uint64_t seed);

}  // namespace camber::tests
