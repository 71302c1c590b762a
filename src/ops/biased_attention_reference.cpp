#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include "ops/attention_arguments.h"

namespace camber::ops {
namespace {

StructuredBias bias_of(const AttentionArguments& a) {
  StructuredBias bias;
  const auto type = a.compute_type();
  if (a.window_value.defined()) bias.windows = Windows{a.row_offsets, a.key_index, a.window_value.to(type)};
  if (a.segment_value.defined()) bias.segments = Segments{a.segment_offsets, a.segment_value.to(type)};
  return bias;
}

// Bool [B, 1, 1, K], undefined where no key can be removed.
at::Tensor removed_in_batch(const AttentionArguments& a) {
  const auto removed = all_removed_keys(a);
  return removed.defined() ? removed.unsqueeze(1).unsqueeze(1) : removed;
}

}  // namespace

ForwardResult reference_forward(const AttentionArguments& arguments) {
  const AttentionArguments a = with_rows_blocked(arguments);
  const auto type = a.compute_type();
  auto q = a.q.to(type), k = a.k.to(type), v = a.v.to(type);
  const auto removed = removed_in_batch(a);
  if (removed.defined()) {
    // A key that does not exist has no content: a NaN in it must not meet a weight of zero.
    const auto column = removed.transpose(-1, -2);
    k = k.masked_fill(column, 0);
    v = v.masked_fill(column, 0);
  }
  auto base = at::matmul(q, k.transpose(-1, -2)) * a.scale();
  if (a.table_value.defined()) base = add_bias(base, table_scores(a, 0, a.queries()));
  if (a.attn_mask.defined()) base = add_bias(base, a.attn_mask.to(type));
  if (a.blocked_mask.defined()) base = base.masked_fill(a.blocked_mask, -kInfinity);
  if (removed.defined()) base = base.masked_fill(removed, -kInfinity);
  const auto bias = bias_of(a).materialize(a.batch(), a.queries(), a.keys(), q);
  const auto z = add_bias(base, bias);

  const auto dead = z.eq(-kInfinity).all(-1, true);
  const auto safe = z.masked_fill(dead, 0);
  auto weights = at::softmax(safe, -1).masked_fill(dead, 0);
  ForwardResult result;
  result.logsumexp = at::logsumexp(safe, -1).masked_fill(dead.squeeze(-1), -kInfinity);
  if (a.dropout > 0) {
    std::vector<at::Tensor> factors;
    factors.reserve(static_cast<std::size_t>(a.batch()));
    for (std::int64_t b = 0; b < a.batch(); ++b) factors.push_back(dropout_factors(a, b, 0, a.queries()));
    if (!factors.empty()) weights = weights * at::stack(factors);
  }
  // What flows back into a row without keys ends here, NaN included.
  result.output = at::matmul(weights, v).masked_fill(dead, 0).to(a.q.scalar_type());
  const auto empty = empty_results(a);
  result.row_statistics = empty.row_statistics;
  result.segment_mass = empty.segment_mass;
  if (a.statistics) {
    const auto b = bias.detach();
    const auto gone = b.eq(-kInfinity);
    row_statistics(a, z.detach(), base.detach().masked_fill(gone, -kInfinity), b.masked_fill(gone, 0),
                   result.logsumexp.detach(), result.row_statistics, result.segment_mass);
  }
  return result;
}

void row_statistics(const AttentionArguments& a, const at::Tensor& z, const at::Tensor& z0, const at::Tensor& bias,
                    const at::Tensor& logsumexp, const at::Tensor& statistics, const at::Tensor& segment_mass) {
  const auto alive = logsumexp.ne(-kInfinity);
  const auto lse = logsumexp.masked_fill(alive.logical_not(), 0);
  const auto log_p = z - lse.unsqueeze(-1);
  const auto p = log_p.exp();
  const auto gone = z.eq(-kInfinity);
  const auto lse0 = at::logsumexp(z0, -1).masked_fill(alive.logical_not(), 0);
  const auto p0 = (z0 - lse0.unsqueeze(-1)).exp();
  const auto put = [&](Statistic which, const at::Tensor& value) {
    statistics.select(0, which).copy_(value.masked_fill(alive.logical_not(), 0));
  };
  put(kEntropy, -(p * log_p).masked_fill(gone, 0).sum(-1));  // lse - sum p z would cancel where |z| is large
  put(kLargestWeight, z.size(-1) > 0 ? p.amax(-1) : at::zeros_like(lse));
  put(kSumOfSquares, p.square().sum(-1));
  put(kChange, 0.5 * (p - p0).abs().sum(-1));
  put(kDivergence, (p * bias).sum(-1) - lse + lse0);
  put(kKeysLeft, gone.logical_not().sum(-1).to(p.scalar_type()));
  if (segment_mass.dim() < 2) return;
  const auto offsets = host_offsets(a.segment_offsets);
  for (std::size_t s = 0; s + 1 < offsets.size(); ++s)
    segment_mass.select(-1, static_cast<std::int64_t>(s))
        .copy_(p.slice(-1, offsets[s], offsets[s + 1]).sum(-1).masked_fill(alive.logical_not(), 0));
}

}  // namespace camber::ops
