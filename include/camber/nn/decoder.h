#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>

#include "camber/nn/multihead_attention.h"

namespace camber::nn {

struct TransformerDecoderOptions {
  std::int64_t num_layers = 6;
  std::int64_t width = 256;
  std::int64_t num_heads = 8;
  std::int64_t feedforward_width = 1024;
  double self_attention_dropout = 0.1;
  double cross_attention_dropout = 0;
  double residual_dropout = 0.1;
  double feedforward_dropout = 0;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("num_layers", num_layers, "decoder layers", config::Range{.min = 1});
    visitor("width", width, "width of queries and keys", config::Range{.min = 1});
    visitor("num_heads", num_heads, "attention heads; must divide the width", config::Range{.min = 1});
    visitor("feedforward_width", feedforward_width, "inner width of the feed-forward net", config::Range{.min = 1});
    visitor("self_attention_dropout", self_attention_dropout, "dropout of the weights in self-attention",
            config::Range{0, 1});
    visitor("cross_attention_dropout", cross_attention_dropout, "dropout of the weights in cross-attention",
            config::Range{0, 1});
    visitor("residual_dropout", residual_dropout, "dropout of what attention adds", config::Range{0, 1});
    visitor("feedforward_dropout", feedforward_dropout, "dropout inside the feed-forward net", config::Range{0, 1});
  }
};

/// x + W_2 dropout(relu(W_1 x)).
class FeedForwardImpl : public torch::nn::Cloneable<FeedForwardImpl> {
 public:
  FeedForwardImpl(std::int64_t width, std::int64_t inner_width, double dropout);
  void reset() override;
  torch::Tensor forward(const torch::Tensor& input, std::uint64_t dropout_seed = 0);

  torch::nn::Linear expand{nullptr}, contract{nullptr};

 private:
  std::int64_t width_, inner_width_;
  double dropout_;
};
TORCH_MODULE(FeedForward);

/// What the decoder looks at, and how.
struct DecoderInputs {
  torch::Tensor target{};           // [B, Q, C]: where the queries start (zeros in CMT)
  torch::Tensor query_position{};   // [B, Q, C]
  torch::Tensor memory{};           // [B, K, C]
  torch::Tensor memory_position{};  // [B, K, C]
  torch::Tensor memory_keys{};      // memory + memory_position where they are known; the decoder fills it in inference
  /// What project_memory() made of the memory, when it is looked at again; empty: computed in the layers.
  std::vector<KeysAndValues> projected_memory{};
  /// Bool [1|B, 1|H, Q, Q], true = blocked: which queries may not see each other.
  std::optional<torch::Tensor> self_blocked{};
  /// Masks of the cross-attention.
  ops::AttentionMasks cross_masks{};
  /// The bias of a layer's cross-attention; it gets the normalised output of the layer before (undefined for the
  /// first), so that windows can follow predictions. Absent: no bias.
  std::function<ops::StructuredBias(std::int64_t layer, const torch::Tensor& previous)> bias{};
  /// Position embeddings of the queries from the second layer on, from the normalised output of the layer before, for
  /// references that follow predictions; it is asked before the bias. Absent: query_position in all layers.
  std::function<torch::Tensor(std::int64_t layer, const torch::Tensor& previous)> refined_position{};
  /// The layers from this one on also give row statistics of their cross-attention; none by default.
  std::optional<std::int64_t> statistics_from{};
  ops::Implementation implementation = ops::Implementation::kAuto;
  std::uint64_t dropout_seed = 0;
};

struct DecoderOutput {
  torch::Tensor states{};                              // [L, B, Q, C], each through the shared last norm
  std::vector<ops::AttentionStatistics> statistics{};  // of the cross-attention of the layers that were asked for them
};

/// One layer: self_attn, norm, cross_attn, norm, ffn, norm.
class DecoderLayerImpl : public torch::nn::Cloneable<DecoderLayerImpl> {
 public:
  explicit DecoderLayerImpl(TransformerDecoderOptions options);
  void reset() override;
  /// `call` holds bias and masks of the cross-attention; `projected` its keys and values where they are known.
  AttendedOutput forward(const torch::Tensor& queries, const DecoderInputs& inputs, const AttentionCall& call,
                         const KeysAndValues* projected = nullptr);

  TransformerDecoderOptions options;
  MultiheadAttention self_attention{nullptr}, cross_attention{nullptr};
  FeedForward feedforward{nullptr};
  torch::nn::LayerNorm norm1{nullptr}, norm2{nullptr}, norm3{nullptr};
};
TORCH_MODULE(DecoderLayer);

/// The decoder of PETR and CMT: the stack that comes out goes through one shared norm, the query that goes on does not.
/// At reference size a layer has 1,053,440 parameters, the whole 6,321,152.
///
///   TransformerDecoder decoder(TransformerDecoderOptions{.num_layers = 6});
///   auto out = decoder->forward({.target = zeros, .query_position = position, .memory = keys,
///                                .memory_position = key_position, .bias = structured});
class TransformerDecoderImpl : public torch::nn::Cloneable<TransformerDecoderImpl> {
 public:
  explicit TransformerDecoderImpl(TransformerDecoderOptions options = {});
  void reset() override;
  DecoderOutput forward(const DecoderInputs& inputs);
  /// Keys and values of every layer's cross-attention, for a memory that is decoded more than once.
  std::vector<KeysAndValues> project_memory(const torch::Tensor& memory, const torch::Tensor& memory_position) const;

  TransformerDecoderOptions options;
  torch::nn::ModuleList layers{nullptr};
  torch::nn::LayerNorm post_norm{nullptr};
};
TORCH_MODULE(TransformerDecoder);

}  // namespace camber::nn
