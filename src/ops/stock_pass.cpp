#include "ops/stock_pass.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

namespace camber::ops {

std::vector<KeyRange> ranges_of(const AttentionArguments& a) {
  if (!a.segment_value.defined() && !a.segment_available.defined()) return {{0, a.keys(), -1}};
  std::vector<KeyRange> ranges;
  const auto offsets = host_offsets(a.segment_offsets);
  for (std::int64_t s = 0; s < a.segments(); ++s) {
    const KeyRange range{offsets[static_cast<std::size_t>(s)], offsets[static_cast<std::size_t>(s) + 1], s};
    const bool absent = a.segment_available.defined() && a.segment_available.is_cpu() &&
                        !a.segment_available.select(1, s).any().item<bool>();
    if (range.end > range.first && !absent) ranges.push_back(range);
  }
  return ranges;
}

StockPass::StockPass(const AttentionArguments& arguments, StockOperator stock, std::int64_t spare_columns)
    : a(arguments), which(stock), q(a.q), k(a.k), v(a.v) {
  removed = all_removed_keys(a);
  // What a removed key holds must not meet a weight of 0. On the CPU such inputs never come here.
  if (removed.defined() && !a.q.is_cpu()) {
    const auto column = removed.unsqueeze(1).unsqueeze(-1);
    k = k.masked_fill(column, 0);
    v = v.masked_fill(column, 0);
  }
  if (spare_columns > 0) v = at::cat({v, at::zeros({v.size(0), v.size(1), v.size(2), spare_columns}, v.options())}, -1);
  widen_for(which, q, k, v);
}

at::Tensor StockPass::mask_of(const KeyRange& range) const {
  at::Tensor mask;
  const auto block = [&](const at::Tensor& blocked) {
    if (!mask.defined()) mask = at::zeros({1, 1, 1, 1}, a.q.options());
    mask = mask.masked_fill(blocked, -kInfinity);
  };
  if (a.attn_mask.defined()) mask = a.attn_mask.slice(3, range.first, range.end).to(a.q.scalar_type());
  if (a.blocked_mask.defined()) block(a.blocked_mask.slice(3, range.first, range.end));
  // An absent segment is left out by its bias.
  if (a.key_padding_mask.defined() || a.key_lengths.defined())
    block(removed.slice(1, range.first, range.end).unsqueeze(1).unsqueeze(1));
  return mask;
}

StockProblem StockPass::problem_of(const KeyRange& range, const at::Tensor& queries) const {
  return {.q = queries,
          .k = k.slice(2, range.first, range.end),
          .v = v.slice(2, range.first, range.end),
          .mask = mask_of(range),
          .scale = a.scale()};
}

at::Tensor StockPass::bias_of(const KeyRange& range) const {
  at::Tensor bias;
  if (range.segment >= 0 && a.segment_value.defined()) bias = a.segment_value.select(3, range.segment).to(type);
  if (range.segment >= 0 && a.segment_available.defined()) {
    const auto absent = a.segment_available.select(1, range.segment).logical_not().view({-1, 1, 1});
    if (!bias.defined()) bias = at::zeros({1, 1, 1}, a.q.options().dtype(type));
    bias = bias.masked_fill(absent, -kInfinity);
  }
  return bias;
}

StockResult StockPass::forward(const KeyRange& range) const {
  const auto problem = problem_of(range, q);
  auto result = stock_forward(which, problem);
  result.output = result.output.slice(3, 0, a.v.size(3)).to(type);
  result.logsumexp = result.logsumexp.to(type);
  if (problem.mask.defined()) {
    const auto dead = problem.mask.amax(-1).eq(-kInfinity);
    result.logsumexp = result.logsumexp.masked_fill(dead, -kInfinity);
  }
  return result;
}

}  // namespace camber::ops
