#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "camber/benchmarks/attention.h"

/// The operator against scaled_dot_product_attention over a grid of sizes, types, masks and passes; no torch header.
namespace camber::benchmarks {

/// The axes of the grid and how to measure it. Cells of more work than the reference size (B Q K = 900 x 22,384) are
/// left out.
struct GridBenchOptions {
  std::vector<double> batches{1, 8, 64}, queries{1, 8, 64, 900}, keys{128, 512, 2048, 8192, 22384};
  std::int64_t heads = 8, width = 32;
  std::vector<std::string> types{"float32", "bfloat16", "half"};
  double seconds = 0.5;      ///< of a cell, at most; both sides in turns, the best time of each counts
  std::int64_t repeats = 3;  ///< of a cell, at least
  std::int64_t threads = 0;  ///< 0: as many as torch takes by itself
  /// Count the processor's time divided by the threads instead of wall time: what else runs on a busy machine stays
  /// out. With several threads their waiting counts too, so best with one.
  bool processor_time = false;
  std::uint64_t seed = 0;
  bool problems = false;            ///< also causal attention, window attention, T5 and a pair bias
  std::vector<std::string> only{};  ///< cells whose name contains one of these words; empty: all
  /// Every row is added to this file as soon as it is measured, and rows that it holds are not measured again; empty:
  /// none.
  std::string rows_file{};

  /// Throws std::invalid_argument with one sentence.
  void validate() const;
};

/// One problem in one pass. Rows are stored as a multi-head layer makes them, [B, rows, H, D].
struct GridCell {
  /// "none"; "mask", a float mask [1, 1, Q, K]; "learned_mask", the same with its gradient. Of the problems: "causal";
  /// "swin", a learned table of offsets on a 7 x 7 window; "t5", one of distances up to 127; "pair", a learned mask
  /// [1, H, Q, K]. Torch gets the tables gathered to a dense mask, in the call, as the models do it.
  std::string bias{};
  std::string pass{};  ///< "inference" or "training" (forward and backward)
  std::string type{};  ///< of q, k, v and the mask
  std::int64_t batch = 1, heads = 8, queries = 1, keys = 1, width = 32;

  /// "none/inference/float32/B1/Q900/K22384"
  std::string name() const;
};

struct GridRow {
  GridCell cell{};
  double ours = 0, theirs = 0;  ///< milliseconds, best of all runs
  double speedup() const { return theirs / ours; }
};

struct GridBench {
  GridBenchOptions options{};
  std::string processor{}, torch_version{}, torch_capability{};
  std::vector<GridRow> rows{}, problems{};

  double geometric_mean() const;
  std::int64_t slower() const;  ///< cells below 0.97, where PyTorch is faster beyond the noise
};

/// Times every cell: ours and torch's call in turns until `seconds` are used up. The two are first checked to compute
/// the same; std::runtime_error when they do not.
///
///   const GridBench bench = bench_grid({.batches = {1}, .queries = {1}, .keys = {128}, .types = {"float32"}}, {});
///   std::puts(to_text(bench).c_str());
GridBench bench_grid(const GridBenchOptions& options, const BenchProgress& progress);

std::string to_text(const GridBench& bench);
std::string to_json(const GridBench& bench);
std::string to_csv(const GridBench& bench);

}  // namespace camber::benchmarks
