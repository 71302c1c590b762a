#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "camber/storage/file.h"
#include "fuzz/targets.h"

/// Thousands of damaged files of every kind: a sentence or a right answer, never a crash, a hang or memory without
/// bound. The inputs that once broke a reader (corpus/TARGET) come first, then the good ones, then changes of them, the
/// same in every run, for CAMBER_FUZZ_SECONDS a target.
namespace camber::tests {
namespace {

double seconds_a_target() {
  const char* wanted = std::getenv("CAMBER_FUZZ_SECONDS");
  return wanted == nullptr ? 0.7 : std::atof(wanted);
}

double peak_megabytes() {
  struct rusage usage {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

std::span<const std::uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

// The sanitizer's own books grow with every allocation.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// What was found, in the order of the names.
std::vector<std::filesystem::path> found_inputs(std::string_view target) {
  std::vector<std::filesystem::path> files;
  const auto folder = std::filesystem::path(std::getenv("CAMBER_SOURCE")) / "tests/fuzz/corpus" / target;
  if (!std::filesystem::exists(folder)) return files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

class Fuzz : public testing::TestWithParam<std::size_t> {
 protected:
  using Clock = std::chrono::steady_clock;

  const FuzzTarget& target() const { return fuzz_targets()[GetParam()]; }

  void run(const std::string& input, const std::string& what) {
    const auto start = Clock::now();
    try {
      target().run(bytes_of(input));
    } catch (const std::exception& error) {
      const std::string file = "fuzz-" + std::string(target().name) + ".bin";
      std::ofstream(file, std::ios::binary) << input;
      FAIL() << target().name << ", " << what << " (kept as " << file << "): " << error.what();
    }
    slowest_ = std::max(slowest_, std::chrono::duration<double>(Clock::now() - start).count());
  }

  double slowest_ = 0;
};

TEST_P(Fuzz, EndsInAnAnswerOrASentence) {
  const std::vector<std::string> seeds = target().seeds();
  const double memory_before = peak_megabytes();
  const auto end = Clock::now() + std::chrono::duration<double>(seconds_a_target());
  for (const auto& file : found_inputs(target().name)) run(storage::read_file(file), file.string());
  for (std::size_t i = 0; i < seeds.size(); ++i) run(seeds[i], "seed " + std::to_string(i));
  std::int64_t inputs = 0;
  for (; Clock::now() < end && !HasFailure(); ++inputs) {
    std::string input = seeds[static_cast<std::size_t>(inputs) % seeds.size()];
    // Some changes on top of others.
    for (std::int64_t change = 0; change <= inputs % 3; ++change)
      input = mutate(input, target(), static_cast<std::uint64_t>(inputs * 8 + change));
    run(input, "input " + std::to_string(inputs));
  }
  EXPECT_LT(slowest_, 20) << "seconds for one input";
  if (!kSanitized) {
    EXPECT_LT(peak_megabytes() - memory_before, 512) << "megabytes";
  }
  std::printf("fuzz %s: %ld inputs, slowest %.3f s, %.0f MB at most\n", std::string(target().name).c_str(),
              static_cast<long>(inputs), slowest_, peak_megabytes());
}

INSTANTIATE_TEST_SUITE_P(Targets, Fuzz, testing::Range(std::size_t{0}, fuzz_targets().size()),
                         [](const auto& target) { return std::string(fuzz_targets()[target.param].name); });

}  // namespace
}  // namespace camber::tests
