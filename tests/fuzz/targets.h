#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// What damaged files are thrown at. Each target takes any bytes and must end in an answer or in a sentence; the same
/// functions are run by the mutation test of `make test` and by libFuzzer for hours (CAMBER_BUILD_FUZZERS).
namespace camber::tests {

/// What a change must keep intact to get past a reader's first check.
enum class Structure {
  kBytes,        ///< nothing: any byte may change
  kJson,         ///< a JSON text: values are replaced, left out, doubled, nested
  kJsonLines,    ///< one JSON text a line
  kTableJson,    ///< one byte, then JSON
  kToml,         ///< TOML: the right-hand sides of its lines change
  kSafetensors,  ///< the length before the header is that of the header; the header is JSON
  kTar,          ///< every header block has its sum
  kPng,          ///< every chunk has its length and its sum
  kZip,          ///< stored entries have their sums
  kFiles,        ///< several files (fuzzing.h), of which one changes, by the ending of its name
};

struct FuzzTarget {
  std::string_view name;
  /// Runs once. Throws std::logic_error when what came out is neither a right answer nor a sentence.
  void (*run)(std::span<const std::uint8_t> bytes);
  /// Good inputs to start from.
  std::vector<std::string> (*seeds)();
  /// Words that are worth inserting.
  std::vector<std::string> (*words)();
  Structure structure = Structure::kBytes;
};

/// All that need no torch.
const std::vector<FuzzTarget>& fuzz_targets();

/// One random change of an input: bits, bytes, pieces cut, doubled, moved, numbers and words put in; or, where the
/// target has a structure, of that.
std::string mutate(const std::string& input, const FuzzTarget& target, std::uint64_t seed);

}  // namespace camber::tests
