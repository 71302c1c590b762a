#include <algorithm>
#include <chrono>
#include <stdexcept>

#include <torch/optim/adamw.h>

#include "benchmarks/attention_peer.h"
#include "benchmarks/head_peer.h"
#include "benchmarks/head_problem.h"
#include "camber/benchmarks/memory.h"
#include "camber/detection/cmt_head.h"
#include "camber/nn/attention_bias.h"
#include "camber/train/mixed_precision.h"

namespace camber::benchmarks {
namespace {

using detection::Detector;
using detection::DetectorBatch;
using detection::DetectorOutput;

constexpr double kMegabyte = 1024.0 * 1024.0;
constexpr double kTolerance = 1e-4;
constexpr std::int64_t kOursInARound = 3;

std::int64_t parameters_of(const Detector& detector) {
  std::int64_t count = 0;
  for (const auto& parameter : detector->parameters()) count += parameter.numel();
  return count;
}

template <class Action>
double milliseconds_of(const Action& action) {
  const auto begin = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

struct TimedHead {
  std::string name{};
  std::function<DetectorOutput()> run{};
  std::int64_t runs_a_round = 1;
  std::vector<double> times{};

  HeadBenchRow row() const {
    auto sorted = times;
    std::sort(sorted.begin(), sorted.end());
    return {.name = name, .best = sorted.front(), .median = sorted[sorted.size() / 2]};
  }
};

// The largest difference over the largest value, of logits and of codes, whichever is larger.
double difference_of(const DetectorOutput& one, const DetectorOutput& other) {
  const auto relative = [](const torch::Tensor& a, const torch::Tensor& b) {
    return (a - b).abs().max().item<double>() / b.abs().max().item<double>();
  };
  return std::max(relative(one.class_logits, other.class_logits), relative(one.codes, other.codes));
}

// To be called first in a process: what is resident afterwards, and the peak, tell of this step alone.
HeadTraining train_once(Detector& detector, const HeadBenchOptions& options) {
  HeadTraining training;
  restart_peak();
  const double begin = resident_bytes();
  const DetectorBatch batch = head_batch(options, detector->options());
  torch::optim::AdamW optimizer(detector->parameters(), torch::optim::AdamWOptions(1e-6));
  detector->train();
  training.seconds = 1e-3 * milliseconds_of([&] {
                       const auto output = detector->forward(batch, {.seed = options.seed});
                       training.denoising_queries = output.denoising.count;
                       detector->losses(output, batch).total.backward();
                       optimizer.step();
                     });
  training.megabytes = (peak_resident_bytes() - begin) / kMegabyte;
  detector->zero_grad();
  detector->eval();
  return training;
}

std::int64_t window_entries(Detector& detector, const DetectorBatch& batch) {
  const auto head = detector->head();
  const auto references = head->references().unsqueeze(0).expand({batch.size, -1, -1});
  return head->attention_bias->windows(nn::project_queries(references, batch.scene), batch.scene)
      .index.key_index.size(0);
}

// Rounding to bfloat16 moves both, each in its own way: torch's own distance says how far is far.
void check_agreement_in_bfloat16(HeadBench& bench, const DetectorOutput& exact, const TimedHead& ours,
                                 const TimedHead& theirs) {
  constexpr double kFurther = 1.5;
  const auto our_output = ours.run(), their_output = theirs.run();
  bench.difference = difference_of(our_output, their_output);
  bench.ours_to_float = difference_of(our_output, exact);
  bench.theirs_to_float = difference_of(their_output, exact);
  bench.tolerance = kFurther * *bench.theirs_to_float;
  if (!(*bench.ours_to_float <= bench.tolerance))
    throw std::runtime_error("[bench head] camber/head in bfloat16 must be within " + std::to_string(kFurther) +
                             " times torch's distance from float32, got " + std::to_string(*bench.ours_to_float) +
                             " and " + std::to_string(*bench.theirs_to_float) + " of the largest value");
}

void check_agreement(HeadBench& bench, const TimedHead& ours, const TimedHead& theirs) {
  bench.difference = difference_of(ours.run(), theirs.run());
  bench.tolerance = kTolerance;
  if (!(bench.difference <= kTolerance))
    throw std::runtime_error("[bench head] camber/head and torch/head must compute the same, got a difference of " +
                             std::to_string(bench.difference) + " of the largest value");
}

}  // namespace

HeadBench bench_head(const HeadBenchOptions& options, const BenchProgress& progress) {
  options.validate();
  HeadBench bench{.options = options};
  bench.options.threads = set_threads(options.threads);
  Detector detector = reference_head(options, true), plain = reference_head(options, false);
  bench.parameters = parameters_of(detector);
  bench.weight_megabytes = 4.0 * static_cast<double>(bench.parameters) / kMegabyte;
  std::int64_t done = 0;
  const std::int64_t total = 1 + options.repeats * (2 * kOursInARound + 1);
  const auto tell = [&](const std::string& what) {
    if (progress) progress(done, total, what);
    ++done;
  };
  tell("training step");
  if (options.training) bench.training = train_once(detector, options);

  const torch::NoGradGuard guard;
  const DetectorBatch batch = head_batch(options, detector->options());
  bench.keys = batch.scene.layout().keys();
  bench.window_entries = window_entries(detector, batch);
  const auto positions = detector->key_positions(batch.scene);
  const auto precision =
      options.precision == "bfloat16" ? train::TrainingPrecision::kBfloat16 : train::TrainingPrecision::kFloat;
  const auto lowered = [precision](const auto& run) {
    return [precision, run] {
      const train::AutocastScope scope(torch::kCPU, precision);
      return run();
    };
  };
  const auto ours = [&](Detector& head) { return [&] { return head->run(batch, {.denoising = false}, positions); }; };
  std::vector<TimedHead> heads = {
      {.name = "camber/head_without_bias", .run = lowered(ours(plain)), .runs_a_round = kOursInARound},
      {.name = "camber/head", .run = lowered(ours(detector)), .runs_a_round = kOursInARound},
      {.name = "torch/head", .run = lowered([&] { return run_on_torch_attention(detector, batch, positions); })}};
  // Both have run once before they are timed.
  if (precision == train::TrainingPrecision::kFloat)
    check_agreement(bench, heads[1], heads[2]);
  else
    check_agreement_in_bfloat16(bench, ours(detector)(), heads[1], heads[2]);
  for (std::int64_t round = 0; round < options.repeats; ++round)
    for (std::int64_t turn = 0; turn < kOursInARound; ++turn)
      for (TimedHead& head : heads) {
        if (turn >= head.runs_a_round) continue;
        tell(head.name);
        head.times.push_back(milliseconds_of([&] { head.run(); }));
      }
  for (const TimedHead& head : heads) bench.rows.push_back(head.row());
  bench.speedup = bench.rows[2].best / bench.rows[1].best;
  bench.router_and_bias = bench.rows[1].best / bench.rows[0].best - 1;
  return bench;
}

}  // namespace camber::benchmarks
