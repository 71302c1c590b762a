#include <cmath>
#include <cstdlib>

#include <gtest/gtest.h>

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include "camber/kernels/isa.h"
#include "camber/random/stream.h"
#include "support/attention_cases.h"
#include "support/comparison.h"

// Random calls of biased_attention: fused and streamed against the reference in double, over shapes, strides, expanded
// views, masks, -inf, NaN in one row, dropout, all gradients, statistics, threads and instruction sets.
//   CAMBER_RANDOM_CASES=3000 ops_test --gtest_filter=RandomComparison.*
namespace camber::ops {
namespace {

using namespace camber::proof;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

enum class Spoiled { kNothing, kQuery, kMask, kWindow, kSegment, kRemovedKey };
enum class MaskView { kAsDrawn, kExpandedAll, kExpandedHeads, kExpandedBatch, kTransposed };

struct Draw {
  AttentionCase sizes;
  Spoiled spoiled = Spoiled::kNothing;
  MaskView mask_view = MaskView::kAsDrawn;
  bool expanded_keys = false;  // k and v of one batch element, expanded over all
  at::ScalarType type = at::kFloat;
  kernels::Isa isa = kernels::Isa::scalar;
  int threads = 1;
};

template <class T>
T one_of(random::Stream& stream, std::initializer_list<T> values) {
  return values.begin()[stream.integer(values.size())];
}

Draw draw_case(std::int64_t number) {
  random::Stream stream = random::Stream(2026, "random comparison").at(static_cast<std::uint64_t>(number));
  Draw draw;
  AttentionCase& c = draw.sizes;
  c.name = "random_" + std::to_string(number);
  c.batch = one_of<std::int64_t>(stream, {1, 1, 2, 3});
  c.heads = one_of<std::int64_t>(stream, {1, 2, 3, 4});
  c.queries = one_of<std::int64_t>(stream, {1, 2, 5, 12, 13, 31, 61, 70});
  c.keys = one_of<std::int64_t>(stream, {1, 7, 33, 97, 256, 257, 300, 513, 700});
  c.width = one_of<std::int64_t>(stream, {1, 3, 8, 16, 32, 33, 64});
  c.value_width = one_of<std::int64_t>(stream, {1, 5, 8, 16, 32, 40, 64});
  if (stream.chance(0.6)) c.window_entries = one_of<std::int64_t>(stream, {1, 4, 20, 60, 400});
  c.windows_per_head = stream.chance(0.4);
  if (stream.chance(0.5)) c.segments = one_of<std::int64_t>(stream, {1, 2, 3, 5});
  c.segment_values = stream.chance(0.85);
  c.segments_per_head = stream.chance(0.4);
  c.absent_segment = c.segments > 1 && stream.chance(0.3);
  c.attn_mask = stream.chance(0.5);
  c.attn_mask_shared = stream.chance(0.5);
  c.blocked_mask = stream.chance(0.25);
  c.key_padding = stream.chance(0.2);
  c.key_lengths = stream.chance(0.2);
  c.row_lengths = stream.chance(0.2);
  c.table_of_offsets = stream.chance(0.15);
  c.table_by_index = !c.table_of_offsets && stream.chance(0.15);
  c.table_per_head = stream.chance(0.5);
  c.infinities = stream.chance(0.4);
  c.dead_rows = c.blocked_mask && stream.chance(0.5);
  c.transposed_inputs = stream.chance(0.4);
  c.magnitude = one_of(stream, {0.3, 1.0, 1.0, 4.0});
  c.bias_magnitude = one_of(stream, {0.5, 2.0, 5.0, 25.0});
  c.dropout = stream.chance(0.2) ? 0.3 : 0;
  draw.mask_view = one_of(stream, {MaskView::kAsDrawn, MaskView::kExpandedAll, MaskView::kExpandedHeads,
                                   MaskView::kExpandedBatch, MaskView::kTransposed});
  draw.expanded_keys = stream.chance(0.15);
  draw.spoiled = one_of(stream, {Spoiled::kNothing, Spoiled::kNothing, Spoiled::kQuery, Spoiled::kMask,
                                 Spoiled::kWindow, Spoiled::kSegment, Spoiled::kRemovedKey});
  std::vector<kernels::Isa> isas;
  for (const auto isa : {kernels::Isa::scalar, kernels::Isa::avx2, kernels::Isa::avx512, kernels::Isa::avx512_bf16})
    if (kernels::isa_supported(isa)) isas.push_back(isa);
  draw.isa = isas[stream.integer(isas.size())];
  if (stream.chance(0.2)) draw.type = at::kBFloat16;
  draw.threads = static_cast<int>(1 + stream.integer(3));
  return draw;
}

// The mask as a view whose strides say nothing about its sizes.
at::Tensor view_of(const at::Tensor& mask, MaskView view, std::int64_t batch, std::int64_t heads) {
  switch (view) {
    case MaskView::kExpandedAll:
      return mask.slice(0, 0, 1).slice(1, 0, 1).expand({batch, heads, -1, -1});
    case MaskView::kExpandedHeads:
      return mask.slice(1, 0, 1).expand({-1, heads, -1, -1});
    case MaskView::kExpandedBatch:
      return mask.slice(0, 0, 1).expand({batch, -1, -1, -1});
    case MaskView::kTransposed:
      return mask.permute({0, 1, 3, 2}).contiguous().permute({0, 1, 3, 2});
    default:
      return mask;
  }
}

AttentionTestInputs inputs_of(const Draw& draw) {
  auto in = make_inputs(draw.sizes).to(draw.type).to(at::kDouble);
  auto& mask = in.options.masks.attn_mask;
  if (mask) mask = view_of(*mask, draw.mask_view, draw.sizes.batch, draw.sizes.heads);
  if (draw.expanded_keys)
    for (at::Tensor* t : {&in.k, &in.v}) *t = t->slice(0, 0, 1).expand({draw.sizes.batch, -1, -1, -1});
  return in;
}

// What NaN was written to: rows [B, H, Q] that it makes NaN; all others must stay as they are.
struct Spoil {
  at::Tensor rows;
  bool any = false;
};

// Writes a NaN into copies of the inputs; their strides stay those of the views.
Spoil spoil(const Draw& draw, AttentionTestInputs& in) {
  const auto& c = draw.sizes;
  Spoil spoiled{at::zeros({c.batch, c.heads, c.queries}, at::kBool)};
  const std::int64_t row = c.queries / 2, key = c.keys * 2 / 3;
  auto& masks = in.options.masks;
  const auto mark = [&](std::int64_t batch, std::int64_t head, std::int64_t batches, std::int64_t heads) {
    spoiled.any = true;
    spoiled.rows.slice(0, batches == 1 ? 0 : batch, batches == 1 ? c.batch : batch + 1)
        .slice(1, heads == 1 ? 0 : head, heads == 1 ? c.heads : head + 1)
        .select(2, row)
        .fill_(true);
  };
  if (draw.spoiled == Spoiled::kQuery) {
    in.q = in.q.clone();
    in.q[0][0][row][0] = kNan;
    mark(0, 0, c.batch == 1 ? 1 : 2, c.heads == 1 ? 1 : 2);
  } else if (draw.spoiled == Spoiled::kMask && masks.attn_mask) {
    // The base of an expanded mask: NaN is in every plane that shares it.
    const auto copy = masks.attn_mask->clone();
    const bool all_batches = masks.attn_mask->stride(0) == 0 || copy.size(0) == 1;
    const bool all_heads = masks.attn_mask->stride(1) == 0 || copy.size(1) == 1;
    copy.slice(0, 0, all_batches ? copy.size(0) : 1)
        .slice(1, 0, all_heads ? copy.size(1) : 1)
        .select(2, row)
        .select(2, key)
        .fill_(kNan);
    masks.attn_mask = view_of(copy, draw.mask_view, c.batch, c.heads);
    mark(0, 0, all_batches ? 1 : 2, all_heads ? 1 : 2);
  } else if (draw.spoiled == Spoiled::kWindow && in.bias.windows) {
    const auto* offsets = in.bias.windows->row_offsets.const_data_ptr<std::int64_t>();
    if (offsets[row] == offsets[row + 1]) return spoiled;
    in.bias.windows->value = in.bias.windows->value.clone();
    in.bias.windows->value[0][offsets[row]] = kNan;
    mark(0, 0, c.batch == 1 ? 1 : 2, in.bias.windows->value.size(0) == 1 ? 1 : 2);
  } else if (draw.spoiled == Spoiled::kSegment && in.bias.segments && in.bias.segments->value) {
    in.bias.segments->value = in.bias.segments->value->clone();
    (*in.bias.segments->value)[0][0][row][c.segments - 1] = kNan;
    mark(0, 0, c.batch == 1 ? 1 : 2, in.bias.segments->value->size(1) == 1 ? 1 : 2);
  } else if (draw.spoiled == Spoiled::kRemovedKey && masks.attn_mask && draw.mask_view == MaskView::kAsDrawn) {
    const auto copy = masks.attn_mask->clone();
    copy.select(3, key).fill_(-kInfinity);
    masks.attn_mask = copy;
    for (at::Tensor* t : {&in.k, &in.v}) {
      *t = t->clone();
      t->select(2, key).fill_(kNan);
    }
  }
  return spoiled;
}

struct Results {
  AttentionOutput forward;
  std::vector<std::pair<std::string, at::Tensor>> gradients;
};

// The gradients are those of the views that the operator sees, not of what they are views of.
Results run(const AttentionTestInputs& in, Implementation implementation) {
  AttentionTestInputs leaves = in;
  const auto watched = [](const at::Tensor& t) { return t.detach().requires_grad_(true); };
  for (at::Tensor* t : {&leaves.q, &leaves.k, &leaves.v}) *t = watched(*t);
  if (leaves.bias.windows) leaves.bias.windows->value = watched(leaves.bias.windows->value);
  if (leaves.bias.segments && leaves.bias.segments->value)
    leaves.bias.segments->value = watched(*leaves.bias.segments->value);
  if (leaves.bias.table) leaves.bias.table->value = watched(leaves.bias.table->value);
  if (leaves.options.masks.attn_mask) leaves.options.masks.attn_mask = watched(*leaves.options.masks.attn_mask);
  auto options = leaves.options;
  options.implementation = implementation;
  options.statistics = true;
  Results results{.forward = biased_attention(leaves.q, leaves.k, leaves.v, leaves.bias, options), .gradients = {}};
  std::vector<at::Tensor> inputs, flowing;
  for (const auto& [name, tensor] : leaves.differentiable()) inputs.push_back(tensor);
  for (const auto* t : {&results.forward.output, &results.forward.logsumexp}) {
    auto stream = random::Stream(5, t->dim() == 4 ? "output" : "logsumexp");
    auto weight = at::empty(t->sizes(), at::kDouble);
    for (std::int64_t i = 0; i < weight.numel(); ++i) weight.data_ptr<double>()[i] = stream.normal();
    flowing.push_back(weight.to(t->scalar_type()));
  }
  const auto found = torch::autograd::grad({results.forward.output, results.forward.logsumexp}, inputs, flowing,
                                           std::nullopt, false, true);
  for (std::size_t i = 0; i < found.size(); ++i)
    results.gradients.emplace_back(leaves.differentiable()[i].first, found[i].detach());
  return results;
}

// `rows` broadcasts to the tensor; what it marks is left out.
at::Tensor without(const at::Tensor& tensor, const at::Tensor& rows) {
  return rows.defined() ? tensor.masked_fill(rows, 0) : tensor;
}

// Which elements of a gradient belong to the rows that are NaN; undefined where all do (k, v and a table gather over
// rows).
std::optional<at::Tensor> rows_of_gradient(const std::string& name, const AttentionTestInputs& in,
                                           const Spoil& spoiled) {
  if (!spoiled.any) return at::Tensor{};
  const auto& rows = spoiled.rows;  // [B, H, Q]
  if (name == "k" || name == "v" || name == "table_value") return std::nullopt;
  if (name == "q") return rows.unsqueeze(-1);
  if (name == "window_value") {
    const auto& offsets = in.bias.windows->row_offsets;
    const auto lengths = offsets.slice(0, 1) - offsets.slice(0, 0, -1);
    const auto of_entry = rows.permute({1, 0, 2}).flatten(1).repeat_interleave(lengths, 1);  // [H, nnz]
    return in.bias.windows->value.size(0) == 1 ? of_entry.any(0, true) : of_entry;
  }
  const auto shape = name == "segment_value" ? in.bias.segments->value->sizes() : in.options.masks.attn_mask->sizes();
  auto kept = rows;
  if (shape[0] == 1) kept = kept.any(0, true);
  if (shape[1] == 1) kept = kept.any(1, true);
  return kept.unsqueeze(-1);
}

// The largest |partial sum| that a score can pass through: windows and segments may cancel each other, their rounding
// errors do not.
double largest_partial_sum(const AttentionTestInputs& in) {
  const auto largest = [](const at::Tensor& t) {
    return t.numel() == 0 ? 0.0 : t.masked_fill(t.isinf(), 0).abs().max().item<double>();
  };
  AttentionTestInputs plain = in;
  plain.bias = {};
  plain.options.masks.attn_mask.reset();
  double sum = largest_score(plain);
  if (in.bias.windows) sum += largest(in.bias.windows->value);
  if (in.bias.segments && in.bias.segments->value) sum += largest(*in.bias.segments->value);
  if (in.bias.table) sum += largest(in.bias.table->value);
  if (in.options.masks.attn_mask) sum += largest(*in.options.masks.attn_mask);
  return sum;
}

::testing::AssertionResult near(const at::Tensor& actual, const at::Tensor& expected, double tolerance) {
  if (expected.numel() == 0) return ::testing::AssertionSuccess();
  // A gradient that all but cancels is held to the size of what flows back.
  const auto scale = at::clamp_min(expected.masked_fill(expected.isinf(), 0).abs().max(), 0.1).item<double>();
  return close(actual / scale, expected / scale, tolerance);
}

void compare(const Draw& draw, const AttentionTestInputs& in, const Spoil& spoiled, const Results& expected,
             const Results& actual, double bound) {
  const auto dead = expected.forward.logsumexp.eq(-kInfinity);
  const auto broken = spoiled.rows.logical_and(dead.logical_not());
  const auto wide = [](const at::Tensor& t) { return t.detach().to(at::kDouble); };
  const auto nan_rows = wide(actual.forward.logsumexp).isnan();
  // A NaN on a key that was removed anyway breaks no row, so that fewer may be NaN, but none besides.
  EXPECT_FALSE(nan_rows.logical_and(spoiled.rows.logical_not()).any().item<bool>()) << "NaN in another row";
  EXPECT_TRUE(draw.spoiled != Spoiled::kQuery || nan_rows.equal(broken)) << "a NaN query must show in its row";
  const auto marked = spoiled.rows;
  EXPECT_TRUE(near(without(wide(actual.forward.output), marked.unsqueeze(-1)),
                   without(wide(expected.forward.output), marked.unsqueeze(-1)), bound))
      << "output";
  EXPECT_TRUE(close(without(wide(actual.forward.logsumexp), marked), without(wide(expected.forward.logsumexp), marked),
                    draw.type == at::kFloat ? bound : 1e-3))
      << "logsumexp";
  const auto seen = named_statistics(actual.forward), wanted = named_statistics(expected.forward);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto rows = wanted[i].second.dim() == 4 ? marked.unsqueeze(-1) : marked;
    EXPECT_TRUE(close(without(wide(seen[i].second), rows), without(wide(wanted[i].second), rows),
                      draw.type == at::kFloat ? 1e-5 + 10 * bound : 1e-2))
        << wanted[i].first;
  }
  // In bfloat16 the saved output is rounded to 8 bits, and every slope holds its product with what flows back.
  const double slope_bound =
      draw.type == at::kFloat ? 10 * bound : 3e-2 + 4 * 0x1p-8 * std::sqrt(static_cast<double>(draw.sizes.value_width));
  for (std::size_t i = 0; i < actual.gradients.size(); ++i) {
    const auto& [name, gradient] = expected.gradients[i];
    const auto rows = rows_of_gradient(name, in, spoiled);
    if (!rows) continue;
    EXPECT_TRUE(near(without(wide(actual.gradients[i].second), *rows), without(wide(gradient), *rows), slope_bound))
        << "gradient of " << name;
  }
}

// NaN is NaN, whatever its bits.
void expect_same(const at::Tensor& a, const at::Tensor& b, const std::string& what) {
  EXPECT_TRUE(a.isnan().equal(b.isnan())) << what;
  EXPECT_TRUE(same_bits(a.masked_fill(a.isnan(), 0), b.masked_fill(b.isnan(), 0))) << what;
}

void expect_same(const Results& a, const Results& b) {
  expect_same(a.forward.output, b.forward.output, "output");
  expect_same(a.forward.logsumexp, b.forward.logsumexp, "logsumexp");
  const auto first = named_statistics(a.forward), second = named_statistics(b.forward);
  for (std::size_t i = 0; i < first.size(); ++i) expect_same(first[i].second, second[i].second, first[i].first);
  for (std::size_t i = 0; i < a.gradients.size(); ++i)
    expect_same(a.gradients[i].second, b.gradients[i].second, a.gradients[i].first);
}

TEST(RandomComparison, FusedAndStreamedAgreeWithTheReference) {
  const char* wanted = std::getenv("CAMBER_RANDOM_CASES");
  const std::int64_t cases = wanted == nullptr ? 200 : std::atoll(wanted);
  const int threads_before = at::get_num_threads();
  const char* isa_before = std::getenv("CAMBER_ISA");
  const std::string restored = isa_before == nullptr ? "" : isa_before;
  std::int64_t failed = 0;
  for (std::int64_t i = 0; i < cases; ++i) {
    const Draw draw = draw_case(i);
    SCOPED_TRACE(draw.sizes.name + " " + kernels::isa_name(draw.isa) + ", " + std::to_string(draw.threads) +
                 " threads, spoiled " + std::to_string(static_cast<int>(draw.spoiled)) + ", mask view " +
                 std::to_string(static_cast<int>(draw.mask_view)));
    AttentionTestInputs in = inputs_of(draw);
    AttentionTestInputs broken = in;
    const Spoil spoiled = spoil(draw, broken);
    if (draw.spoiled == Spoiled::kRemovedKey) in.options.masks = broken.options.masks;
    const double bound = draw.type == at::kFloat ? 2e-6 + 4 * 0x1p-24 * largest_partial_sum(in) : 1e-2;
    const Results expected = run(in, Implementation::kReference);
    setenv("CAMBER_ISA", kernels::isa_name(draw.isa), 1);
    at::set_num_threads(draw.threads);
    const auto given = broken.to(draw.type);
    const Results fused = run(given, Implementation::kFused), streamed = run(given, Implementation::kStreamed);
    {
      SCOPED_TRACE("fused");
      compare(draw, in, spoiled, expected, fused, bound);
    }
    {
      SCOPED_TRACE("streamed");
      compare(draw, in, spoiled, expected, streamed, 2 * bound);
    }
    // A mask goes to torch in the type of q, so that in bfloat16 it has lost digits.
    if (draw.sizes.correctable() && (draw.type == at::kFloat || !draw.sizes.attn_mask)) {
      SCOPED_TRACE("corrected, forward");
      const Results corrected{.forward = attend(given, Implementation::kCorrected, true), .gradients = {}};
      compare(draw, in, spoiled, expected, corrected, 4 * bound);
    }
    at::set_num_threads(draw.threads == 1 ? 3 : 1);
    expect_same(fused, run(given, Implementation::kFused));
    failed += ::testing::Test::HasFailure() ? 1 : 0;
    if (failed > 0) break;  // the first one, with its trace
  }
  at::set_num_threads(threads_before);
  if (restored.empty())
    unsetenv("CAMBER_ISA");
  else
    setenv("CAMBER_ISA", restored.c_str(), 1);
  RecordProperty("cases", std::to_string(cases));
}

// The gradient of an expanded mask is the gradient of each of its planes.
TEST(BiasedAttention, AnExpandedMaskHasTheGradientOfItsCopy) {
  AttentionCase c{.name = "expanded", .batch = 2, .heads = 3, .queries = 7, .keys = 40, .attn_mask = true};
  for (const auto view : {MaskView::kExpandedAll, MaskView::kExpandedHeads, MaskView::kExpandedBatch})
    for (const auto implementation : {Implementation::kFused, Implementation::kStreamed, Implementation::kReference}) {
      auto in = make_inputs(c).to(at::kFloat);
      in.options.masks.attn_mask = view_of(*in.options.masks.attn_mask, view, c.batch, c.heads);
      auto copied = in;
      copied.options.masks.attn_mask = in.options.masks.attn_mask->contiguous();
      const Results found = run(in, implementation), expected = run(copied, implementation);
      EXPECT_TRUE(same_bits(found.gradients.back().second, expected.gradients.back().second))
          << name_of(implementation) << ", view " << static_cast<int>(view);
    }
}

TEST(BiasedAttention, NanThatFlowsIntoADeadRowGoesNowhere) {
  AttentionCase c{.name = "dead_flow", .queries = 5, .keys = 40, .blocked_mask = true, .dead_rows = true};
  for (const auto implementation : {Implementation::kFused, Implementation::kStreamed, Implementation::kReference}) {
    const auto in = make_inputs(c).to(at::kFloat).with_gradients();
    auto options = in.options;
    options.implementation = implementation;
    const auto out = biased_attention(in.q, in.k, in.v, in.bias, options);
    auto into_output = at::ones_like(out.output), into_lse = at::ones_like(out.logsumexp);
    into_output.select(2, 2).fill_(kNan);
    into_lse.select(2, 2).fill_(kNan);
    const auto gradients =
        torch::autograd::grad({out.output, out.logsumexp}, {in.q, in.k, in.v}, {into_output, into_lse});
    for (const auto& gradient : gradients)
      EXPECT_TRUE(gradient.isfinite().all().item<bool>()) << name_of(implementation);
    EXPECT_EQ(gradients[0].select(2, 2).abs().max().item<double>(), 0) << name_of(implementation);
  }
}

}  // namespace
}  // namespace camber::ops
