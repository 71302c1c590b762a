#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <string>

#include "fuzz/targets.h"

/// The entry of libFuzzer for the target that CAMBER_FUZZ_TARGET names. CAMBER_FUZZ_SEEDS names a folder that the
/// target's good inputs are written to before the search begins.
namespace {

using camber::tests::FuzzTarget;

constexpr double kMostSeconds = 1;

const FuzzTarget& target() {
  static const FuzzTarget& chosen = []() -> const FuzzTarget& {
    const char* name = std::getenv("CAMBER_FUZZ_TARGET");
    for (const FuzzTarget& entry : camber::tests::fuzz_targets())
      if (name != nullptr && entry.name == name) return entry;
    std::fprintf(stderr, "CAMBER_FUZZ_TARGET must be one of");
    for (const FuzzTarget& entry : camber::tests::fuzz_targets())
      std::fprintf(stderr, " %s", std::string(entry.name).c_str());
    std::fprintf(stderr, "\n");
    std::_Exit(2);  // libFuzzer takes an orderly end before its search for a crash, and writes a file
  }();
  return chosen;
}

// Of this process alone: on a busy machine the clock on the wall says nothing.
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  if (const char* folder = std::getenv("CAMBER_FUZZ_SEEDS")) {
    int number = 0;
    for (const std::string& seed : target().seeds())
      std::ofstream(std::string(folder) + "/seed_" + std::to_string(number++), std::ios::binary) << seed;
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const double before = processor_seconds();
  target().run({data, size});
  if (processor_seconds() - before > kMostSeconds) {
    std::fprintf(stderr, "ERROR: an input took %.1f s\n", processor_seconds() - before);
    std::abort();
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

// Half of the changes are libFuzzer's own, which coverage guides; half know the structure.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  if (seed % 2 == 0) return LLVMFuzzerMutate(data, size, most);
  const std::string changed =
      camber::tests::mutate(std::string(reinterpret_cast<const char*>(data), size), target(), seed);
  if (changed.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::memcpy(data, changed.data(), changed.size());
  return changed.size();
}
