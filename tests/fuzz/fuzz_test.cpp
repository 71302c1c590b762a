#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "fuzz/targets.h"

/// Thousands of damaged tables, results, configurations, point files and images: a sentence or a right answer, never
/// a crash, a hang or memory without bound. CAMBER_FUZZ_ITERATIONS asks for more than the usual number a target.
namespace camber::tests {
namespace {

std::int64_t iterations() {
  const char* wanted = std::getenv("CAMBER_FUZZ_ITERATIONS");
  return wanted == nullptr ? 5000 : std::atoll(wanted);
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

class Fuzz : public testing::TestWithParam<std::size_t> {};

TEST_P(Fuzz, EndsInAnAnswerOrASentence) {
  using Clock = std::chrono::steady_clock;
  const FuzzTarget& target = fuzz_targets()[GetParam()];
  const std::vector<std::string> seeds = target.seeds(), words = target.words();
  double slowest = 0;
  const double memory_before = peak_megabytes();
  for (std::int64_t i = 0; i < iterations(); ++i) {
    const std::string& seed = seeds[static_cast<std::size_t>(i) % seeds.size()];
    // The seed itself first; then changes, some of them on top of others.
    std::string input = seed;
    const std::int64_t depth = i < static_cast<std::int64_t>(seeds.size()) ? 0 : 1 + i % 3;
    for (std::int64_t change = 0; change < depth; ++change)
      input = mutate(input, words, static_cast<std::uint64_t>(i * 8 + change));
    const auto start = Clock::now();
    try {
      target.run(bytes_of(input));
    } catch (const std::exception& error) {
      const std::string file = "fuzz-" + std::string(target.name) + "-" + std::to_string(i) + ".bin";
      std::ofstream(file, std::ios::binary) << input;
      FAIL() << target.name << ", input " << i << " (kept as " << file << "): " << error.what();
    }
    slowest = std::max(slowest, std::chrono::duration<double>(Clock::now() - start).count());
  }
  EXPECT_LT(slowest, 20) << "seconds for one input";
  if (!kSanitized) {
    EXPECT_LT(peak_megabytes() - memory_before, 400) << "megabytes";
  }
  std::printf("fuzz %s: %ld inputs, slowest %.3f s, %.0f MB at most\n", std::string(target.name).c_str(),
              static_cast<long>(iterations()), slowest, peak_megabytes());
}

INSTANTIATE_TEST_SUITE_P(Targets, Fuzz, testing::Range(std::size_t{0}, std::size_t{5}),
                         [](const auto& target) { return std::string(fuzz_targets()[target.param].name); });

}  // namespace
}  // namespace camber::tests
