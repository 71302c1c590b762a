#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "fuzz/targets.h"

/// The entry of libFuzzer for the target CAMBER_FUZZ_TARGET, set at compile time.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const camber::tests::FuzzTarget* const target = [] {
    for (const camber::tests::FuzzTarget& entry : camber::tests::fuzz_targets())
      if (entry.name == std::string_view(CAMBER_FUZZ_TARGET)) return &entry;
    std::abort();
  }();
  target->run({data, size});
  return 0;
}
