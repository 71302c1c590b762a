#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include <camber/runs/fewshot_options.h>
#include <camber/runs/fewshot_result.h>

namespace camber::runs {

/// How a run is carried out, beside what it is. No torch header here.
struct FewshotRun {
  std::int64_t threads = 0;     ///< 0: as many as torch takes by itself
  std::filesystem::path out{};  ///< folder of the run; empty: nothing is written
  bool resume = false;          ///< continue the run in `out`
  std::string device = "cpu";   ///< where it trains and tests: cpu, cuda, cuda:N; a run may be resumed on another
  std::string config{};         ///< complete TOML, kept in the folder and in every checkpoint
  std::function<void(std::int64_t done, std::int64_t total, const std::string& note)> progress{};
  std::function<void(const std::string& sentence)> say{};  ///< notes and findings while the run goes on
  std::function<bool()> stop_requested{};
};

/// Trains on episodes and tests. Initial values, training episodes and dropout come from streams named by the seed and
/// the episode's number; the division of the data and the test's episodes do not depend on the seed. A resumed run has
/// the bits of one that was never stopped.
///
///   const FewshotResult result = run_fewshot(FewshotOptions{.seed = 1}, {});
FewshotResult run_fewshot(const FewshotOptions& options, const FewshotRun& run);

/// The optimiser's groups of a run's model, as a table: bounded scales stand alone, without decay.
std::string parameter_groups(const FewshotOptions& options);

}  // namespace camber::runs
