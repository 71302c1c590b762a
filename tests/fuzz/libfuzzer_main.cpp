#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include <sys/time.h>
#include <unistd.h>

#include "fuzz/targets.h"

/// The entry of libFuzzer for the target that CAMBER_FUZZ_TARGET names. CAMBER_FUZZ_SEEDS names a folder that the
/// target's good inputs are written to before the search begins.
namespace {

using camber::tests::FuzzTarget;

constexpr int kMostSeconds = 1;

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

// In the middle of an input, so that one that never ends is kept too; libFuzzer writes the file when a process aborts.
void refuse_slowness(int) {
  constexpr char kWords[] = "ERROR: an input takes more than a second of the processor\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kWords, sizeof kWords - 1);
  std::abort();
}

// Of this process's own time: on a busy machine the clock on the wall says nothing. What waits for something without
// taking time is left to libFuzzer's -timeout.
void limit_seconds(int seconds) {
  const itimerval limit{.it_interval = {}, .it_value = {.tv_sec = seconds, .tv_usec = 0}};
  setitimer(ITIMER_PROF, &limit, nullptr);
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  std::signal(SIGPROF, refuse_slowness);
  if (const char* folder = std::getenv("CAMBER_FUZZ_SEEDS")) {
    int number = 0;
    for (const std::string& seed : target().seeds())
      std::ofstream(std::string(folder) + "/seed_" + std::to_string(number++), std::ios::binary) << seed;
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  limit_seconds(kMostSeconds);
  target().run({data, size});
  limit_seconds(0);
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
