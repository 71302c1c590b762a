#include "benchmarks/head_peer.h"

#include "benchmarks/torch_multihead_attention.h"
#include "camber/detection/cmt_head.h"

namespace camber::benchmarks {
namespace {

using detection::CmtHead;
using detection::DetectorBatch;

MultiheadWeights weights_of(const nn::MultiheadAttention& attention) {
  const auto weights = attention->in_proj_weight.chunk(3), biases = attention->in_proj_bias.chunk(3);
  return {.query = weights[0],
          .key = weights[1],
          .value = weights[2],
          .out = attention->out_proj->weight,
          .query_bias = biases[0],
          .key_bias = biases[1],
          .value_bias = biases[2],
          .out_bias = attention->out_proj->bias};
}

// What the layers share.
struct Memory {
  torch::Tensor content, position;  // [B, K, C]
  torch::Tensor query_position;     // [B, Q, C]
};

torch::Tensor attend(nn::DecoderLayerImpl& layer, const torch::Tensor& state, const Memory& memory,
                     const torch::Tensor& bias) {
  const std::int64_t heads = layer.options.num_heads;
  const auto placed = state + memory.query_position;
  auto next = layer.norm1->forward(
      state + multihead_attention(placed, placed, state, weights_of(layer.self_attention), std::nullopt, heads).output);
  const auto seen = multihead_attention(next + memory.query_position, memory.content + memory.position, memory.content,
                                        weights_of(layer.cross_attention), bias, heads);
  next = layer.norm2->forward(next + seen.output);
  return layer.norm3->forward(layer.feedforward->forward(next));
}

torch::Tensor trust_of(CmtHead& head, const DetectorBatch& batch, const Memory& memory,
                       const nn::QueryProjection& projection, std::int64_t sensors) {
  return head->router->forward(
      {.query_position = memory.query_position,
       .memory = memory.content,
       .memory_position = memory.position,
       .projection = projection,
       .scene = &batch.scene,
       .cues = {.age = detection::by_sensor(batch.age, sensors), .level = detection::by_sensor(batch.level, sensors)}});
}

}  // namespace

detection::DetectorOutput run_on_torch_attention(detection::Detector& detector, const DetectorBatch& batch,
                                                 const torch::Tensor& key_positions) {
  const auto& options = detector->options();
  CmtHead head = detector->head();
  const auto references = head->references().unsqueeze(0).expand({batch.size, -1, -1});
  const Memory memory{.content = head->memory_of(detector->encode(batch), batch),
                      .position = key_positions.expand({batch.size, -1, -1}),
                      .query_position = head->query_positions(references, batch)};
  const auto projection = nn::project_queries(references, batch.scene, batch.available);
  detection::DetectorOutput output;
  output.trust = trust_of(head, batch, memory, projection, options.num_sensors());
  const auto windows = head->attention_bias->windows(projection, batch.scene);
  const std::int64_t queries = references.size(1), keys = memory.content.size(1);
  std::vector<torch::Tensor> logits, codes;
  auto state = head->query_start(memory.query_position);
  for (std::int64_t i = 0; i < options.head.decoder.num_layers; ++i) {
    const auto bias = head->attention_bias->forward(output.trust, windows, batch.scene, i)
                          .materialize(batch.size, queries, keys, state);
    state = attend(*head->decoder->layers[static_cast<std::size_t>(i)]->as<nn::DecoderLayer>(), state, memory, bias);
    const auto boxes = head->boxes_of(head->decoder->post_norm->forward(state), references, i);
    logits.push_back(boxes.logits);
    codes.push_back(boxes.codes);
  }
  output.class_logits = torch::stack(logits);
  output.codes = torch::stack(codes);
  return output;
}

}  // namespace camber::benchmarks
