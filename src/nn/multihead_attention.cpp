#include "camber/nn/multihead_attention.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/nn/init.h>

#include "camber/nn/affine.h"
#include "camber/ops/sparse_attention.h"
#include "camber/random/stream.h"

namespace camber::nn {

void MultiheadAttentionOptions::validate() const {
  TORCH_CHECK_VALUE(width % num_heads == 0, "[MultiheadAttention] num_heads must divide width ", width, ", got ",
                    num_heads);
  for (const auto& [name, value] :
       {std::pair{"attention_dropout", attention_dropout}, std::pair{"residual_dropout", residual_dropout}})
    TORCH_CHECK_VALUE(value >= 0 && value < 1, "[MultiheadAttention] ", name, " must lie in [0, 1), got ", value);
}

torch::Tensor seeded_dropout(const torch::Tensor& input, double probability, bool training, std::uint64_t seed) {
  if (!training || probability == 0) return input;
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const auto kept =
      torch::empty(input.sizes(), input.options().device(torch::kCPU)).bernoulli_(1 - probability, generator);
  return input * kept.to(input.device()).div_(1 - probability);
}

MultiheadAttentionImpl::MultiheadAttentionImpl(MultiheadAttentionOptions attention_options,
                                               AttentionKind attention_kind)
    : options(attention_options), kind(attention_kind) {
  options.validate();
  reset();
}

void MultiheadAttentionImpl::reset() {
  const std::int64_t width = options.width;
  in_proj_weight = register_parameter("in_proj_weight", torch::empty({3 * width, width}));
  in_proj_bias = register_parameter("in_proj_bias", torch::zeros({3 * width}));
  out_proj = register_module("out_proj", torch::nn::Linear(width, width));
  const torch::NoGradGuard guard;
  torch::nn::init::xavier_uniform_(in_proj_weight);
  torch::nn::init::xavier_uniform_(out_proj->weight);
  out_proj->bias.zero_();
}

MultiheadAttentionImpl::Projected MultiheadAttentionImpl::project(const AttentionInputs& in) const {
  const std::int64_t width = options.width;
  const auto check = [&](const char* name, const torch::Tensor& t) {
    TORCH_CHECK_VALUE(t.dim() == 3 && t.size(2) == width, "[MultiheadAttention] ", name, " must be [B, N, ", width,
                      "], got ", t.sizes());
  };
  check("query", in.query);
  check("key", in.key);
  check("value", in.value);
  TORCH_CHECK_VALUE(in.key.size(0) == in.query.size(0) && in.value.size(0) == in.query.size(0),
                    "[MultiheadAttention] key and value must have the batch of query, ", in.query.size(0), ", got ",
                    in.key.size(0), " and ", in.value.size(0));
  const auto query = project_heads(in.query_position ? in.query + *in.query_position : in.query, 0);
  const auto [keys, values] = in.projected != nullptr ? *in.projected : keys_and_values(in);
  return {query.to(keys.scalar_type()), keys, values};
}

// part: 0 query, 1 key, 2 value.
torch::Tensor MultiheadAttentionImpl::project_heads(const torch::Tensor& input, std::int64_t part) const {
  const std::int64_t width = options.width;
  const auto projected = affine(input, in_proj_weight.slice(0, part * width, (part + 1) * width),
                                in_proj_bias.slice(0, part * width, (part + 1) * width));
  return projected.view({input.size(0), input.size(1), options.num_heads, width / options.num_heads}).transpose(1, 2);
}

KeysAndValues MultiheadAttentionImpl::keys_and_values(const AttentionInputs& in) const {
  return {project_heads(in.key_position ? in.key + *in.key_position : in.key, 1), project_heads(in.value, 2)};
}

torch::Tensor MultiheadAttentionImpl::join(const torch::Tensor& heads, const torch::Tensor& identity,
                                           std::uint64_t dropout_seed) {
  // [B, Q, C]; a view, the operators store heads innermost. The memory may have a narrower type than the queries.
  const auto joined = heads.transpose(1, 2).flatten(2).to(identity.scalar_type());
  return identity + seeded_dropout(affine(joined, out_proj->weight, out_proj->bias), options.residual_dropout,
                                   is_training(), random::Stream(dropout_seed, "residual").key());
}

AttendedOutput MultiheadAttentionImpl::forward(const AttentionInputs& inputs, const AttentionCall& call) {
  TORCH_CHECK_VALUE(
      kind == AttentionKind::kCross || (!call.bias.windows && !call.bias.segments),
      "[MultiheadAttention] bias must be absent in self-attention: it biases queries toward sensors' keys");
  const auto [q, k, v] = project(inputs);
  const auto attended =
      ops::biased_attention(q, k, v, call.bias,
                            {.masks = call.masks,
                             .dropout = is_training() ? options.attention_dropout : 0,
                             .dropout_seed = random::Stream(call.dropout_seed, "attention").key() >> 1,
                             .statistics = call.statistics,
                             .implementation = call.implementation});
  return {.output = join(attended.output, inputs.query, call.dropout_seed), .statistics = attended.statistics};
}

torch::Tensor MultiheadAttentionImpl::forward_local(const AttentionInputs& inputs, const ops::WindowIndex& keys,
                                                    std::uint64_t dropout_seed) {
  const auto [q, k, v] = project(inputs);
  return join(ops::sparse_attention(q, k, v, keys.row_offsets, keys.key_index), inputs.query, dropout_seed);
}

}  // namespace camber::nn
