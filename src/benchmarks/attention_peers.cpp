#include <cmath>
#include <memory>
#include <stdexcept>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/headeronly/version.h>

#include "benchmarks/attention_call.h"
#include "benchmarks/attention_peer.h"
#include "benchmarks/attention_problem.h"
#include "benchmarks/torch_multihead_attention.h"
#include "camber/ops/sparse_attention.h"

// What is timed. Every peer is a call as a user would write it; the ones that need a gradient get it for
// everything that could learn.
namespace camber::benchmarks {
namespace {

using ProblemPointer = std::shared_ptr<AttentionProblem>;
using ops::AttentionOptions;
using ops::StructuredBias;

// Makes the call on a problem; `learns` says whether the leaves require their gradients.
using MakeCall = std::function<Call(AttentionProblem& problem, bool learns)>;

// --- Camber ---

// What one of our rows has beside q, k, v.
struct Ours {
  bool windows = true, segment_values = false, statistics = false, cameras_absent = false, float_mask = false;
  at::ScalarType type = at::kFloat;
  ops::Implementation implementation = ops::Implementation::kAuto;
};

Call camber_call(AttentionProblem& p, bool learns, const Ours& ours) {
  const auto h = p.heads();
  Call call{
      .leaves = {leaf(p.q(h, ours.type), learns), leaf(p.k(h, ours.type), learns), leaf(p.v(h, ours.type), learns)},
      .run = {},
      .gradient = p.gradient(h)};
  StructuredBias bias = p.windows();
  if (ours.windows)
    call.leaves.push_back(bias.windows->value = leaf(bias.windows->value, learns));
  else
    bias.windows.reset();
  if (ours.segment_values) {
    bias.segments->value = leaf(p.segment_value(), learns);
    call.leaves.push_back(*bias.segments->value);
  }
  AttentionOptions options{.statistics = ours.statistics, .implementation = ours.implementation};
  if (ours.cameras_absent) options.masks.segment_available = p.cameras_absent();
  if (ours.float_mask) {
    options.masks.attn_mask = leaf(p.float_mask(), learns);
    call.leaves.push_back(*options.masks.attn_mask);
  }
  call.run = [leaves = call.leaves, bias, options] {
    const auto result = ops::biased_attention(leaves[0], leaves[1], leaves[2], bias, options);
    return Tensors{result.output, result.logsumexp};
  };
  return call;
}

MakeCall camber(const Ours& ours) {
  return [ours](AttentionProblem& p, bool learns) { return camber_call(p, learns, ours); };
}

// --- torch.nn.functional.scaled_dot_product_attention ---

enum class Mask { kNone, kPrebuilt, kBuiltInTheCall, kLearns, kFloatMaskLearns };

Call sdpa_call(AttentionProblem& p, bool learns, Mask kind, at::ScalarType type) {
  const auto h = p.heads();
  Call call{.leaves = {leaf(p.q(h, type), learns), leaf(p.k(h, type), learns), leaf(p.v(h, type), learns)},
            .run = {},
            .gradient = p.gradient(h)};
  std::optional<at::Tensor> mask;
  if (kind == Mask::kPrebuilt) mask = p.dense_bias().to(type);
  if (kind == Mask::kLearns) mask = leaf(p.dense_bias(), learns);
  if (kind == Mask::kFloatMaskLearns) mask = leaf(p.float_mask(), learns);
  if (learns && mask && mask->requires_grad()) call.leaves.push_back(*mask);
  const auto bias = kind == Mask::kBuiltInTheCall ? p.windows() : StructuredBias{};
  call.run = [leaves = call.leaves, mask, kind, bias] {
    const auto& q = leaves[0];
    const auto added =
        kind == Mask::kBuiltInTheCall ? bias.materialize(q.size(0), q.size(2), leaves[1].size(2), q) : mask;
    return Tensors{at::scaled_dot_product_attention(q, leaves[1], leaves[2], added)};
  };
  return call;
}

MakeCall sdpa(Mask kind, at::ScalarType type = at::kFloat) {
  return [kind, type](AttentionProblem& p, bool learns) { return sdpa_call(p, learns, kind, type); };
}

// --- A whole multi-head layer with its projections ---

Tensors layer_leaves(AttentionProblem& p, bool learns) {
  Tensors leaves = {leaf(p.rows("q"), learns), leaf(p.rows("k"), learns), leaf(p.rows("v"), learns)};
  for (std::int64_t part = 0; part < 4; ++part) leaves.push_back(leaf(p.projection(part), learns));
  return leaves;
}

Call torch_layer_call(AttentionProblem& p, bool learns) {
  Call call{.leaves = layer_leaves(p, learns), .run = {}, .gradient = p.rows("gradient")};
  call.leaves.push_back(leaf(p.dense_bias(), learns));
  call.run = [x = call.leaves, heads = p.heads()] {
    const MultiheadWeights weights{.query = x[3], .key = x[4], .value = x[5], .out = x[6]};
    const auto attended = multihead_attention(x[0], x[1], x[2], weights, x[7], heads);
    return Tensors{attended.output, attended.weights};
  };
  return call;
}

Call camber_layer_call(AttentionProblem& p, bool learns) {
  Call call{.leaves = layer_leaves(p, learns), .run = {}, .gradient = p.rows("gradient")};
  auto bias = p.windows();
  call.leaves.push_back(bias.windows->value = leaf(bias.windows->value, learns));
  call.run = [x = call.leaves, bias, heads = p.heads()] {
    const auto heads_of = [&](const at::Tensor& rows, const at::Tensor& weight) {
      return at::linear(rows, weight).view({rows.size(0), rows.size(1), heads, -1}).transpose(1, 2);
    };
    const auto result = ops::biased_attention(heads_of(x[0], x[3]), heads_of(x[1], x[4]), heads_of(x[2], x[5]), bias);
    return Tensors{at::linear(result.output.transpose(1, 2).flatten(2), x[6]), result.logsumexp};
  };
  return call;
}

// --- The router's local attention: half the heads, each query over its windows' keys alone ---

Call empty_local_call(AttentionProblem& p, bool learns) {
  const auto h = std::max<std::int64_t>(1, p.heads() / 2);
  return {.leaves = {leaf(p.q(h), learns), leaf(p.k(h), learns), leaf(p.v(h), learns)},
          .run = {},
          .gradient = p.gradient(h)};
}

Call camber_local_call(AttentionProblem& p, bool learns) {
  Call call = empty_local_call(p, learns);
  call.run = [x = call.leaves, lists = *p.windows().windows] {
    return Tensors{ops::sparse_attention(x[0], x[1], x[2], lists.row_offsets, lists.key_index)};
  };
  return call;
}

// The lists change with the queries, so their mask is built in the call.
Call sdpa_local_call(AttentionProblem& p, bool learns) {
  Call call = empty_local_call(p, learns);
  call.run = [x = call.leaves, lists = *p.windows().windows] {
    const std::int64_t batch = x[0].size(0), queries = x[0].size(2), keys = x[1].size(2);
    const auto lengths = lists.row_offsets.slice(0, 1) - lists.row_offsets.slice(0, 0, -1);
    const auto row = at::arange(batch * queries, lengths.options()).repeat_interleave(lengths);
    auto mask = at::zeros({batch * queries * keys}, lengths.options().dtype(at::kBool));
    mask.index_fill_(0, row * keys + lists.key_index, true);
    return Tensors{at::scaled_dot_product_attention(x[0], x[1], x[2], mask.view({batch, 1, queries, keys}))};
  };
  return call;
}

// --- The table ---

double attention_gflop(const AttentionBenchOptions& o, std::int64_t keys, const std::string& pass) {
  const double forward =
      4e-9 * static_cast<double>(o.batch * o.heads * o.queries * o.width) * static_cast<double>(keys);
  return pass == kForward ? forward : pass == kBackward ? 2.5 * forward : 3.5 * forward;
}

double projection_gflop(const AttentionBenchOptions& o, const std::string& pass) {
  const auto channels = static_cast<double>(o.heads * o.width);
  const double forward = 4e-9 * static_cast<double>(o.batch * (o.queries + o.keys)) * channels * channels;
  return pass == kForward ? forward : 3 * forward;
}

class Table {
 public:
  explicit Table(const AttentionBenchOptions& options)
      : options_(options), problem_(std::make_shared<AttentionProblem>(options)) {}

  void add(const std::string& name, const std::string& pass, const std::string& compared_with, double gflop,
           const MakeCall& make, bool bfloat16 = false) {
    const auto ready = [problem = problem_, make, pass] {
      Peer::Run run = ready_run(make(*problem, pass != kForward), pass);
      const auto device = problem->device();
      run.before = [before = run.before, device] {
        before();
        nn::wait_for(device);
      };
      run.run = [timed = run.run, device] {
        const std::int64_t bytes = timed();
        nn::wait_for(device);
        return bytes;
      };
      return run;
    };
    rows_.push_back({.name = name,
                     .pass = pass,
                     .compared_with = compared_with,
                     .gflop = gflop,
                     .bfloat16 = bfloat16,
                     .ready = ready});
  }

  // The whole problem's attention, in the passes given.
  void attention(const std::string& name, const std::vector<const char*>& passes, const MakeCall& make,
                 const std::string& compared_with = "camber/windows") {
    for (const char* pass : passes)
      add(name, pass, compared_with, attention_gflop(options_, options_.keys, pass), make);
  }

  void camber_rows() {
    attention("camber/windows", {kForward, kBackward, kBoth}, camber({}));
    attention("camber/no_bias", {kForward, kBackward, kBoth}, camber({.windows = false}));
    attention("camber/windows_and_segments", {kForward, kBoth}, camber({.segment_values = true}));
    attention("camber/statistics", {kForward}, camber({.statistics = true}));
    for (const char* pass : {kForward, kBoth})
      add("camber/cameras_absent", pass, "camber/windows", attention_gflop(options_, problem_->grid_keys(), pass),
          camber({.cameras_absent = true}));
    // Beside the operator that it corrects: what the bias costs there.
    const auto corrected = ops::Implementation::kCorrected;
    attention("camber/corrected", {kForward, kBackward, kBoth}, camber({.implementation = corrected}), "sdpa/no_bias");
    attention("camber/corrected_segments", {kForward, kBoth},
              camber({.segment_values = true, .implementation = corrected}), "sdpa/no_bias");
    attention("camber/corrected_statistics", {kForward}, camber({.statistics = true, .implementation = corrected}),
              "camber/corrected_statistics");
    attention("camber/streamed_statistics", {kForward},
              camber({.statistics = true, .implementation = ops::Implementation::kStreamed}),
              "camber/corrected_statistics");
    attention("camber/float_mask", {kForward, kBoth}, camber({.windows = false, .float_mask = true}));
    add("camber/bfloat16", kForward, "camber/windows", attention_gflop(options_, options_.keys, kForward),
        camber({.type = at::kBFloat16}), true);
  }

  void sdpa_rows() {
    attention("sdpa/no_bias", {kForward, kBackward, kBoth}, sdpa(Mask::kNone));
    attention("sdpa/dense_bias", {kForward, kBoth}, sdpa(Mask::kPrebuilt));
    attention("sdpa/dense_bias_each_call", {kForward}, sdpa(Mask::kBuiltInTheCall));
    attention("sdpa/dense_bias_with_gradient", {kBoth}, sdpa(Mask::kLearns));
    attention("sdpa/float_mask_with_gradient", {kBoth}, sdpa(Mask::kFloatMaskLearns), "camber/float_mask");
    for (const auto& [name, mask] :
         {std::pair{"sdpa/bfloat16", Mask::kNone}, std::pair{"sdpa/bfloat16_dense_bias", Mask::kPrebuilt}})
      add(name, kForward, "camber/bfloat16", attention_gflop(options_, options_.keys, kForward),
          sdpa(mask, at::kBFloat16), true);
  }

  void layer_rows() {
    for (const char* pass : {kForward, kBoth}) {
      const double gflop = attention_gflop(options_, options_.keys, pass) + projection_gflop(options_, pass);
      add("camber/multihead_attention", pass, "camber/multihead_attention", gflop, camber_layer_call);
      add("torch/multihead_attention", pass, "camber/multihead_attention", gflop, torch_layer_call);
    }
  }

  void local_rows() {
    for (const char* pass : {kForward, kBoth}) {
      // Counted is the work on the lists, which is all that has to be done.
      const double forward =
          4e-9 * static_cast<double>(problem_->channels()) * static_cast<double>(problem_->window_entries());
      const double gflop = pass == kForward ? forward : 3.5 * forward;
      add("camber/local", pass, "camber/local", gflop, camber_local_call);
      add("sdpa/local_as_mask", pass, "camber/local", gflop, sdpa_local_call);
    }
  }

  std::vector<Peer> rows() { return std::move(rows_); }

 private:
  AttentionBenchOptions options_;
  ProblemPointer problem_;
  std::vector<Peer> rows_;
};

void require_close(const std::string& what, const at::Tensor& a, const at::Tensor& b, double tolerance) {
  const auto error = (a.to(at::kFloat) - b.to(at::kFloat)).abs().max().item<double>();
  const auto largest = b.abs().max().item<double>();
  if (!(error <= tolerance * largest))
    throw std::runtime_error("[bench attention] " + what + " must compute the same, got a difference of " +
                             std::to_string(error) + " in values up to " + std::to_string(largest));
}

}  // namespace

std::vector<Peer> attention_peers(const AttentionBenchOptions& options) {
  Table table(options);
  table.camber_rows();
  table.sdpa_rows();
  table.layer_rows();
  table.local_rows();
  return table.rows();
}

void check_agreement(const AttentionBenchOptions& options) {
  AttentionBenchOptions small = options;
  small.queries = std::min<std::int64_t>(options.queries, 40);
  AttentionProblem p(small);
  const at::NoGradGuard no_gradient;
  const auto first = [&](const MakeCall& make) { return make(p, false).run()[0]; };
  const auto dense = first(sdpa(Mask::kPrebuilt));
  require_close("camber/windows and sdpa/dense_bias", first(camber({})), dense, 1e-4);
  require_close("camber/corrected and sdpa/dense_bias",
                first(camber({.implementation = ops::Implementation::kCorrected})), dense, 1e-4);
  require_close("both dense biases", first(sdpa(Mask::kBuiltInTheCall)), dense, 1e-5);
  require_close("camber/bfloat16 and sdpa/dense_bias", first(camber({.type = at::kBFloat16})), dense, 3e-2);
  require_close("camber/no_bias and sdpa/no_bias", first(camber({.windows = false})), first(sdpa(Mask::kNone)), 1e-4);
  require_close("both float masks", first(camber({.windows = false, .float_mask = true})),
                first(sdpa(Mask::kFloatMaskLearns)), 1e-4);
  require_close("both multi-head layers", first(camber_layer_call), first(torch_layer_call), 1e-4);
  require_close("both local attentions", first(camber_local_call), first(sdpa_local_call), 1e-4);
}

std::int64_t set_threads(std::int64_t threads) {
  if (threads > 0) at::set_num_threads(static_cast<int>(threads));
  return at::get_num_threads();
}

std::string torch_version() {
  return std::to_string(TORCH_VERSION_MAJOR) + "." + std::to_string(TORCH_VERSION_MINOR) + "." +
         std::to_string(TORCH_VERSION_PATCH);
}

std::string torch_capability() {
  return at::get_cpu_capability();
}

std::string implementation_sentence(const AttentionBenchOptions& options) {
  AttentionBenchOptions small = options;
  small.queries = 1;
  AttentionProblem p(small);
  const at::NoGradGuard no_gradient;
  ops::AttentionReport report;
  const auto h = p.heads();
  ops::biased_attention(p.q(h), p.k(h), p.v(h), p.windows(), {}, &report);
  return report.sentence();
}

}  // namespace camber::benchmarks
