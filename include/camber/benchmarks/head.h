#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "camber/benchmarks/attention.h"

/// The detector's head at reference size beside the same head on torch.nn.MultiheadAttention; no torch header.
namespace camber::benchmarks {

struct HeadBenchOptions {
  std::int64_t batch = 1, queries = 900, layers = 6;
  std::int64_t objects = 90;  ///< a frame, for the training step: ten groups of denoising queries
  std::int64_t repeats = 3;   ///< rounds; in each, our heads run three times for one run of the other
  std::int64_t threads = 0;   ///< 0: as many as torch takes by itself
  std::uint64_t seed = 0;
  std::string precision = "float32";  ///< or bfloat16: the products of both heads lowered by torch's autocast
  bool training = true;               ///< also the peak of memory of one training step

  /// Throws std::invalid_argument with one sentence.
  void validate() const;
};

/// One head, its forward pass.
struct HeadBenchRow {
  std::string name{};
  double best = 0, median = 0;  ///< milliseconds
};

/// A training step of the head with router and bias: forward with denoising queries, losses, backward, AdamW.
struct HeadTraining {
  std::int64_t denoising_queries = 0;
  double seconds = 0;
  double megabytes = 0;  ///< peak of resident memory above that with the weights alone
};

struct HeadBench {
  HeadBenchOptions options{};
  std::int64_t keys = 0, parameters = 0, window_entries = 0;
  double weight_megabytes = 0;
  std::vector<HeadBenchRow> rows{};
  double difference = 0;  ///< largest one of camber/head and torch/head, over the largest value
  /// The same of both to camber/head in float32, where the precision is another.
  std::optional<double> ours_to_float{}, theirs_to_float{};
  double tolerance = 0;        ///< above it the bench would have refused to go on
  double speedup = 0;          ///< torch/head over camber/head
  double router_and_bias = 0;  ///< camber/head over camber/head_without_bias, less one
  std::optional<HeadTraining> training{};
};

/// Times, in turns:
///
///   camber/head               router with its local attention, windows, six biased layers
///   camber/head_without_bias  the same weights without router and bias
///   torch/head                camber/head with every attention of the decoder as torch.nn.MultiheadAttention computes
///                             it: the bias made dense, expanded over the heads in every layer, the weights returned
///
/// Features, weights and trust are random, the same for all; the embeddings of the keys are known, as they are for
/// every frame after the first. Throws std::runtime_error when camber/head and torch/head do not compute the same; in
/// bfloat16 when camber/head is further from its float32 than 1.5 times torch/head.
HeadBench bench_head(const HeadBenchOptions& options, const BenchProgress& progress);

std::string to_text(const HeadBench& bench);
std::string to_json(const HeadBench& bench);

}  // namespace camber::benchmarks
