#include <limits>

#include <torch/csrc/autograd/autograd.h>

#include "camber/ops/biased_attention.h"
#include "camber/ops/sparse_attention.h"
#include "verification/checklist.h"

namespace camber::verification {
namespace {

using ops::AttentionOptions;
using ops::AttentionOutput;
using ops::Implementation;
using ops::StructuredBias;

constexpr std::int64_t kBatch = 2, kHeads = 2, kQueries = 6, kKeys = 24, kWidth = 8;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Problem {
  torch::Tensor q, k, v;
  StructuredBias bias;
  AttentionOptions options;

  std::vector<torch::Tensor> leaves() const {
    return {q, k, v, bias.windows->value, *bias.segments->value, *options.masks.attn_mask};
  }
  AttentionOutput attend(Implementation implementation) const {
    auto chosen = options;
    chosen.implementation = implementation;
    return ops::biased_attention(q, k, v, bias, chosen);
  }
};

// Windows, segments and every mask at once.
Problem make_problem(torch::ScalarType type) {
  const auto random = [&](torch::IntArrayRef shape) { return torch::randn(shape, type).requires_grad_(true); };
  Problem p{.q = random({kBatch, kHeads, kQueries, kWidth}),
            .k = random({kBatch, kHeads, kKeys, kWidth}),
            .v = random({kBatch, kHeads, kKeys, kWidth}),
            .bias = {},
            .options = {}};
  const std::int64_t rows = kBatch * kQueries;
  const auto first = torch::arange(rows, torch::kInt).remainder(kKeys - 3).unsqueeze(1);
  p.bias.windows = ops::Windows{torch::arange(rows + 1, torch::kLong) * 3,
                                (first + torch::arange(3, torch::kInt)).flatten(), random({1, 3 * rows})};
  p.bias.segments =
      ops::Segments{torch::tensor({std::int64_t{0}, std::int64_t{10}, std::int64_t{16}, kKeys}, torch::kLong),
                    random({kBatch, kHeads, kQueries, 3})};
  auto blocked = torch::rand({kBatch, 1, kQueries, kKeys}).lt(0.2);
  blocked.select(2, 1).fill_(true);  // one row without a key
  auto available = torch::ones({kBatch, 3}, torch::kBool);
  available[1][1] = false;
  p.options.masks = {.attn_mask = random({1, kHeads, kQueries, kKeys}),
                     .blocked_mask = blocked,
                     .key_padding_mask = torch::rand({kBatch, kKeys}).lt(0.1),
                     .key_lengths = torch::tensor({kKeys, kKeys - 4}, torch::kLong),
                     .segment_available = available};
  return p;
}

// The formula written out with ordinary operations, from the parts.
torch::Tensor written_out(const Problem& p) {
  auto z = torch::matmul(p.q, p.k.transpose(-1, -2)) / std::sqrt(static_cast<double>(kWidth));
  z = z + p.bias.materialize(kBatch, kQueries, kKeys, p.q) + *p.options.masks.attn_mask;
  const auto& masks = p.options.masks;
  const auto beyond = torch::arange(kKeys).unsqueeze(0).ge(masks.key_lengths->unsqueeze(1));
  const auto lengths = torch::tensor({10, 6, 8}, torch::kLong);
  const auto absent = masks.segment_available->logical_not().repeat_interleave(lengths, 1);
  const auto removed = masks.key_padding_mask->logical_or(beyond).logical_or(absent).view({kBatch, 1, 1, kKeys});
  z = z.masked_fill(masks.blocked_mask->logical_or(removed), -kInfinity);
  return torch::matmul(torch::softmax(z, -1).nan_to_num(0), p.v);
}

torch::Tensor loss(const AttentionOutput& out) {
  const auto lse = out.logsumexp;
  const auto alive = torch::where(lse.eq(-kInfinity), torch::zeros_like(lse), lse);
  return out.output.square().sum() + alive.sum();
}

Seen masks_with_bias() {
  double worst = 0;
  const auto p = make_problem(torch::kDouble);
  for (const auto implementation : {Implementation::kReference, Implementation::kStreamed})
    worst = std::max(worst, difference(p.attend(implementation).output, written_out(p)));
  return at_most(worst, 1e-12, "off the formula written out");
}

Seen gradients_agree(Implementation implementation, torch::ScalarType type, double limit) {
  const auto p = make_problem(type);
  const auto expected = torch::autograd::grad({loss(p.attend(Implementation::kReference))}, p.leaves());
  const auto actual = torch::autograd::grad({loss(p.attend(implementation))}, p.leaves());
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    worst = std::max(worst, difference(actual[i], expected[i]) / std::max(1.0, expected[i].abs().max().item<double>()));
  return at_most(worst, limit, "of the largest gradient, six inputs");
}

// One step of central differences along a random direction of every input at once.
Seen numeric_gradient() {
  auto p = make_problem(torch::kDouble);
  const auto leaves = p.leaves();
  const auto gradients = torch::autograd::grad({loss(p.attend(Implementation::kStreamed))}, leaves);
  const torch::NoGradGuard guard;
  double slope = 0;
  std::vector<torch::Tensor> directions;
  directions.reserve(leaves.size());
  for (const torch::Tensor& leaf : leaves) directions.push_back(torch::randn_like(leaf));
  for (std::size_t i = 0; i < leaves.size(); ++i) slope += (gradients[i] * directions[i]).sum().item<double>();
  const auto moved = [&](double step) {
    for (std::size_t i = 0; i < leaves.size(); ++i) leaves[i].add_(directions[i], step);
    const auto value = loss(p.attend(Implementation::kStreamed)).item<double>();
    for (std::size_t i = 0; i < leaves.size(); ++i) leaves[i].sub_(directions[i], step);
    return value;
  };
  constexpr double kStep = 1e-6;
  const double numeric = (moved(kStep) - moved(-kStep)) / (2 * kStep);
  return at_most(std::abs(numeric - slope) / std::max(1.0, std::abs(slope)), 1e-7, "relative error of the slope");
}

Seen empty_rows() {
  const auto p = make_problem(torch::kDouble);
  const auto out = p.attend(Implementation::kStreamed);
  const auto gradient = torch::autograd::grad({loss(out)}, {p.q})[0];
  const auto output = out.output.select(2, 1).abs().max().item<double>();
  const auto slope = gradient.select(2, 1).abs().max().item<double>();
  const auto lse = out.logsumexp.select(2, 1).max().item<double>();
  return {"output " + number(output) + ", gradient " + number(slope) + ", logsumexp " + number(lse),
          output == 0 && slope == 0 && lse == -kInfinity};
}

Seen merged_shards() {
  const auto p = make_problem(torch::kDouble);
  const auto whole = ops::biased_attention(p.q, p.k, p.v);
  std::vector<torch::Tensor> outputs, logsumexps;
  for (const auto& [first, last] : {std::pair{0, 7}, std::pair{7, 8}, std::pair{8, 24}}) {
    const auto shard = ops::biased_attention(p.q, p.k.slice(2, first, last), p.v.slice(2, first, last));
    outputs.push_back(shard.output);
    logsumexps.push_back(shard.logsumexp);
  }
  const auto joined = ops::merge(outputs, logsumexps);
  return at_most(std::max(difference(joined.output, whole.output), difference(joined.logsumexp, whole.logsumexp)),
                 1e-12);
}

Seen dropout_agrees() {
  auto p = make_problem(torch::kDouble);
  p.options.dropout = 0.4;
  p.options.dropout_seed = 77;
  return at_most(difference(p.attend(Implementation::kStreamed).output, p.attend(Implementation::kReference).output),
                 1e-12);
}

Seen statistics_agree() {
  auto p = make_problem(torch::kDouble);
  p.options.statistics = true;
  p.options.masks = {};
  const auto s = *p.attend(Implementation::kStreamed).statistics;
  const auto base = torch::matmul(p.q, p.k.transpose(-1, -2)) / std::sqrt(static_cast<double>(kWidth));
  const auto weights = torch::softmax(base + p.bias.materialize(kBatch, kQueries, kKeys, p.q), -1);
  const auto plain = torch::softmax(base, -1);
  double worst = difference(s.entropy, -(weights * weights.log()).sum(-1));
  worst = std::max(worst, difference(s.change, 0.5 * (weights - plain).abs().sum(-1)));
  worst = std::max(worst, difference(s.divergence, (weights * (weights / plain).log()).sum(-1)));
  worst = std::max(worst, difference(s.segment_mass.select(-1, 1), weights.slice(-1, 10, 16).sum(-1)));
  return at_most(worst, 1e-12, "off their definitions");
}

Seen sparse_equals_dense() {
  const auto p = make_problem(torch::kDouble);
  const auto& w = *p.bias.windows;
  auto support = p.bias;
  support.segments.reset();
  support.windows->value = torch::ones_like(w.value.detach());
  const auto blocked = support.materialize(kBatch, kQueries, kKeys, p.q).eq(0);
  StructuredBias windows_alone{.windows = w};
  const auto dense = ops::biased_attention(p.q, p.k, p.v, windows_alone, {.masks = {.blocked_mask = blocked}}).output;
  return at_most(difference(ops::sparse_attention(p.q, p.k, p.v, w.row_offsets, w.key_index, w.value), dense), 1e-12);
}

Seen zero_bias_bits() {
  auto p = make_problem(torch::kFloat);
  const torch::NoGradGuard guard;
  p.bias.windows->value.zero_();
  p.bias.segments->value->zero_();
  const auto without = ops::biased_attention(p.q, p.k, p.v, {}, {.masks = {.attn_mask = p.options.masks.attn_mask}});
  const auto with = ops::biased_attention(p.q, p.k, p.v, p.bias, {.masks = {.attn_mask = p.options.masks.attn_mask}});
  return equal(difference(with.output, without.output), 0, "apart");
}

// A NaN in one row of the mask, and in a key that -inf removes for every row: of 6 rows in each head one is NaN.
Seen nan_stays_in_its_row() {
  const torch::NoGradGuard guard;
  std::int64_t strays = 0, missing = 0;
  for (const auto implementation : {Implementation::kFused, Implementation::kStreamed, Implementation::kReference}) {
    constexpr std::int64_t kLong = 600, kRow = 4, kKey = 300;
    const auto q = torch::randn({1, 2, 6, kWidth}), k = torch::randn({1, 2, kLong, kWidth}),
               v = torch::randn({1, 2, kLong, kWidth});
    auto mask = torch::randn({1, 1, 6, kLong});
    mask.select(3, kKey).fill_(-kInfinity);
    k.select(2, kKey).fill_(NAN);
    mask[0][0][kRow][kKey + 20] = NAN;
    const auto nan =
        ops::biased_attention(q, k, v, {}, {.masks = {.attn_mask = mask}, .implementation = implementation})
            .output.isnan()
            .any(-1);
    const auto own = nan.select(2, kRow).sum().item<std::int64_t>();
    missing += 2 - own;
    strays += nan.sum().item<std::int64_t>() - own;
  }
  return {std::to_string(strays) + " other rows touched, " + std::to_string(missing) + " own rows missed",
          strays == 0 && missing == 0};
}

Seen expanded_mask() {
  const auto p = make_problem(torch::kFloat);
  const auto gradient = [&](const torch::Tensor& mask) {
    const auto leaf = mask.detach().requires_grad_(true);
    const auto out =
        ops::biased_attention(p.q.detach(), p.k.detach(), p.v.detach(), {}, {.masks = {.attn_mask = leaf}});
    return torch::autograd::grad({out.output.square().sum()}, {leaf})[0];
  };
  const auto expanded = torch::randn({1, 1, kQueries, kKeys}).expand({kBatch, kHeads, kQueries, kKeys});
  return equal(difference(gradient(expanded), gradient(expanded.contiguous())), 0, "apart");
}

}  // namespace

void check_attention(Checklist& list) {
  list.section("attention");
  list.check("every mask together with the bias follows the formula", masks_with_bias);
  list.check(
      "streamed gradients equal the reference's (double)",
      [] { return gradients_agree(Implementation::kStreamed, torch::kDouble, 1e-12); });
  list.check("what auto takes has the reference's gradients (float)",
             [] { return gradients_agree(Implementation::kAuto, torch::kFloat, 2e-5); });
  list.check("gradients follow central differences", numeric_gradient);
  list.check("a row without a key gives zeros and no gradient", empty_rows);
  list.check("merge of shards equals the whole", merged_shards);
  list.check("dropout is the same in every implementation", dropout_agrees);
  list.check("statistics equal their definitions", statistics_agree);
  list.check("sparse attention equals dense attention over its list", sparse_equals_dense);
  list.check("a bias of zero changes no bit", zero_bias_bits);
  list.check("a NaN stays in its row, and out of keys that -inf removes", nan_stays_in_its_row);
  list.check("an expanded mask has the gradient of its copy", expanded_mask);
}

}  // namespace camber::verification
