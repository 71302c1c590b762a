#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/stack.h>

#include "camber/ops/biased_attention.h"

namespace camber::ops {

AttentionOutput merge(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& logsumexps) {
  TORCH_CHECK_VALUE(!outputs.empty() && outputs.size() == logsumexps.size(),
                    "[merge] outputs and logsumexps must have the same number of shards, at least one, got ",
                    outputs.size(), " and ", logsumexps.size());
  const auto all = at::stack(logsumexps);  // [N, B, H, Q]
  const auto dead = all.eq(-std::numeric_limits<double>::infinity()).all(0);
  const auto safe = all.masked_fill(dead.unsqueeze(0), 0);  // a row no shard knows stays without gradient
  const auto joint = at::logsumexp(safe, 0);
  const auto weights = (safe - joint).exp().masked_fill(dead, 0);
  const auto wide = at::stack(outputs).to(all.scalar_type());
  return {.output = (weights.unsqueeze(-1) * wide).sum(0).to(outputs[0].scalar_type()),
          .logsumexp = joint.masked_fill(dead, -std::numeric_limits<double>::infinity())};
}

}  // namespace camber::ops
