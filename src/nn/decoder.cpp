#include "camber/nn/decoder.h"

#include <torch/nn/init.h>

#include "camber/nn/affine.h"
#include "camber/random/stream.h"

namespace camber::nn {
namespace {

torch::nn::LayerNorm layer_norm(std::int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}));
}

torch::nn::Linear xavier_linear(std::int64_t inputs, std::int64_t outputs) {
  torch::nn::Linear linear(inputs, outputs);
  const torch::NoGradGuard guard;
  torch::nn::init::xavier_uniform_(linear->weight);
  linear->bias.zero_();
  return linear;
}

}  // namespace

FeedForwardImpl::FeedForwardImpl(std::int64_t width, std::int64_t inner_width, double dropout)
    : width_(width), inner_width_(inner_width), dropout_(dropout) {
  reset();
}

void FeedForwardImpl::reset() {
  expand = register_module("expand", xavier_linear(width_, inner_width_));
  contract = register_module("contract", xavier_linear(inner_width_, width_));
}

torch::Tensor FeedForwardImpl::forward(const torch::Tensor& input, std::uint64_t dropout_seed) {
  const random::Stream stream(dropout_seed, "feedforward");
  const auto inner = seeded_dropout(torch::relu(affine(input, expand->weight, expand->bias)), dropout_, is_training(),
                                    stream.at(0).key());
  return input +
         seeded_dropout(affine(inner, contract->weight, contract->bias), dropout_, is_training(), stream.at(1).key());
}

DecoderLayerImpl::DecoderLayerImpl(TransformerDecoderOptions layer_options) : options(layer_options) {
  reset();
}

void DecoderLayerImpl::reset() {
  const auto attention = [&](double dropout, AttentionKind kind) {
    return MultiheadAttention(MultiheadAttentionOptions{.width = options.width,
                                                        .num_heads = options.num_heads,
                                                        .attention_dropout = dropout,
                                                        .residual_dropout = options.residual_dropout},
                              kind);
  };
  self_attention = register_module("self_attention", attention(options.self_attention_dropout, AttentionKind::kSelf));
  norm1 = register_module("norm1", layer_norm(options.width));
  cross_attention =
      register_module("cross_attention", attention(options.cross_attention_dropout, AttentionKind::kCross));
  norm2 = register_module("norm2", layer_norm(options.width));
  feedforward = register_module("feedforward",
                                FeedForward(options.width, options.feedforward_width, options.feedforward_dropout));
  norm3 = register_module("norm3", layer_norm(options.width));
}

AttendedOutput DecoderLayerImpl::forward(const torch::Tensor& queries, const DecoderInputs& inputs,
                                         const AttentionCall& call, const KeysAndValues* projected) {
  const random::Stream stream(call.dropout_seed, "decoder_layer");
  const AttentionCall among_queries{.masks = {.blocked_mask = inputs.self_blocked},
                                    .implementation = call.implementation,
                                    .dropout_seed = stream.at("self").key()};
  const AttentionInputs self{queries, queries, queries, inputs.query_position, inputs.query_position};
  auto state = norm1->forward(self_attention->forward(self, among_queries).output);

  auto at_memory = call;
  at_memory.dropout_seed = stream.at("cross").key();
  const bool summed = inputs.memory_keys.defined();
  const AttentionInputs cross{.query = state,
                              .key = summed ? inputs.memory_keys : inputs.memory,
                              .value = inputs.memory,
                              .query_position = inputs.query_position,
                              .key_position = summed ? std::optional<torch::Tensor>{} : inputs.memory_position,
                              .projected = projected};
  auto attended = cross_attention->forward(cross, at_memory);
  state = norm2->forward(attended.output);

  attended.output = norm3->forward(feedforward->forward(state, stream.at("feedforward").key()));
  return attended;
}

TransformerDecoderImpl::TransformerDecoderImpl(TransformerDecoderOptions decoder_options) : options(decoder_options) {
  reset();
}

void TransformerDecoderImpl::reset() {
  layers = register_module("layers", torch::nn::ModuleList());
  for (std::int64_t i = 0; i < options.num_layers; ++i) layers->push_back(DecoderLayer(options));
  post_norm = register_module("post_norm", layer_norm(options.width));
}

std::vector<KeysAndValues> TransformerDecoderImpl::project_memory(const torch::Tensor& memory,
                                                                  const torch::Tensor& memory_position) const {
  std::vector<KeysAndValues> projected;
  projected.reserve(layers->size());
  for (const auto& layer : *layers)
    projected.push_back(layer->as<DecoderLayer>()->cross_attention->keys_and_values(
        {.key = memory, .value = memory, .key_position = memory_position}));
  return projected;
}

DecoderOutput TransformerDecoderImpl::forward(const DecoderInputs& inputs) {
  const auto known = static_cast<std::int64_t>(inputs.projected_memory.size());
  TORCH_CHECK_VALUE(known == 0 || known == options.num_layers, "[TransformerDecoder] projected_memory must have ",
                    options.num_layers, " layers or none, got ", known);
  const random::Stream stream(inputs.dropout_seed, "decoder");
  DecoderOutput result;
  std::vector<torch::Tensor> states;
  auto queries = inputs.target;
  auto current = inputs;
  // The same sum in every layer; with gradients each layer takes its own, as it is recomputed there.
  if (known == 0 && !torch::GradMode::is_enabled()) current.memory_keys = inputs.memory + inputs.memory_position;
  for (std::int64_t i = 0; i < options.num_layers; ++i) {
    if (inputs.refined_position && i > 0) current.query_position = inputs.refined_position(i, states.back());
    const AttentionCall call{
        .bias = inputs.bias ? inputs.bias(i, states.empty() ? torch::Tensor{} : states.back()) : ops::StructuredBias{},
        .masks = inputs.cross_masks,
        .statistics = inputs.statistics_from && i >= *inputs.statistics_from,
        .implementation = inputs.implementation,
        .dropout_seed = stream.at(static_cast<std::uint64_t>(i)).key()};
    const auto layer = static_cast<std::size_t>(i);
    const KeysAndValues* projected = known > 0 ? &inputs.projected_memory[layer] : nullptr;
    const auto attended = layers[layer]->as<DecoderLayer>()->forward(queries, current, call, projected);
    queries = attended.output;
    states.push_back(post_norm->forward(queries));
    if (attended.statistics) result.statistics.push_back(*attended.statistics);
  }
  result.states = torch::stack(states);
  return result;
}

}  // namespace camber::nn
