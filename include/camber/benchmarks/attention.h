#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "camber/benchmarks/peak.h"

/// The operator and what a user would otherwise call, timed in one run; no torch header.
namespace camber::benchmarks {

/// One problem and how to measure it.
struct AttentionBenchOptions {
  std::int64_t batch = 1, heads = 8, width = 32, queries = 900;
  /// 22,384 = 128 x 128 + 6 x 20 x 50 (the reference), 56,400 = 180 x 180 + 6 x 40 x 100 (CMT as published) or 5,000 =
  /// 40 x 50 + 6 x 20 x 25; windows need the maps behind the number.
  std::int64_t keys = 22384;
  /// Every row runs this often, in turns with all others; the best time counts.
  std::int64_t repeats = 5;
  std::int64_t threads = 0;  ///< 0: as many as torch takes by itself
  std::uint64_t seed = 0;
  std::vector<std::string> only{};  ///< rows whose name contains one of these words; empty: all
  std::string device = "cpu";       ///< where everything is timed: cpu, cuda, cuda:N; memory is the host's alone
  bool memory = true;               ///< measure each row's memory in a fresh process
  bool scaling = false;             ///< also the tables over keys, queries, batch and threads

  /// Throws std::invalid_argument with one sentence.
  void validate() const;
};

/// One measured row. `speedup` says how many times faster the Camber row `compared_with` is than this one, in the same
/// pass of the same run; below 1 this row is the faster one.
struct BenchRow {
  std::string name{};  ///< "camber/windows", "sdpa/dense_bias"
  std::string pass{};  ///< "forward", "backward" or "forward+backward"
  double milliseconds = 0;
  double gflops = 0;                        ///< 4 B H Q K D forward, 10 backward, over the time
  double share_of_peak = 0;                 ///< of the FMA peak, for bfloat16 of the peak of its dot products
  std::optional<double> extra_megabytes{};  ///< peak growth in a fresh process, less the outputs
  std::optional<double> speedup{};          ///< empty where the row it is compared with was not measured
  std::string compared_with{};
};

/// A row of a scaling table.
struct ScalingRow {
  std::string axis{};  ///< "keys", "queries", "batch" or "threads"
  std::int64_t value = 0;
  BenchRow row{};
};

struct AttentionBench {
  AttentionBenchOptions options{};
  std::string processor{}, torch_version{}, torch_capability{}, implementation{};
  std::vector<std::pair<std::string, std::string>> environment{};  ///< variables that choose instructions, where set
  ProcessorPeaks peaks{};
  std::vector<BenchRow> rows{};
  std::vector<ScalingRow> scaling{};
};

/// Gives the extra megabytes of a row, measured in a fresh process of its own.
using MemoryOfRow =
    std::function<double(const AttentionBenchOptions&, const std::string& name, const std::string& pass)>;
/// Is told before each run of a row: how many are done of how many, and what comes now.
using BenchProgress = std::function<void(std::int64_t done, std::int64_t total, const std::string& what)>;

/// Runs everything. The rows are first checked to compute the same thing; std::runtime_error when they do not.
///
///   const AttentionBench bench = bench_attention({.queries = 300, .memory = false}, {}, {});
///   std::puts(to_text(bench).c_str());
AttentionBench bench_attention(const AttentionBenchOptions& options, const MemoryOfRow& memory_of,
                               const BenchProgress& progress);

/// The same meter for every row: growth of the peak of resident memory (VmHWM) during one run, less what the run
/// returns, in megabytes of 2^20 bytes. To be called once in a process that did nothing else.
double measure_memory(const AttentionBenchOptions& options, std::string_view name, std::string_view pass);

std::string to_text(const AttentionBench& bench);
std::string to_json(const AttentionBench& bench);
std::string to_csv(const AttentionBench& bench);

}  // namespace camber::benchmarks
