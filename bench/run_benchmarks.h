#pragma once
#include <cstdio>
#include <exception>

#include <benchmark/benchmark.h>
#include <gtest/gtest.h>

namespace camber::bench {

/// Whether a comparison with the reference held; says on standard error what did not.
inline bool held(const char* name, const ::testing::AssertionResult& comparison) {
  if (!comparison) std::fprintf(stderr, "%s: %s\n", name, comparison.message());
  return static_cast<bool>(comparison);
}

/// The main of a benchmark. `add_benchmarks` compares each case with the reference before it registers it, and returns
/// false where one does not agree: nothing wrong is timed.
template <class AddBenchmarks>
int run_benchmarks(int argument_count, char** arguments, const AddBenchmarks& add_benchmarks) {
  benchmark::Initialize(&argument_count, arguments);
  if (benchmark::ReportUnrecognizedArguments(argument_count, arguments)) return 2;
  try {
    if (!add_benchmarks()) return 1;
    benchmark::RunSpecifiedBenchmarks();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  benchmark::Shutdown();
  return 0;
}

}  // namespace camber::bench
