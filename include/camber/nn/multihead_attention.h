#pragma once
#include <cstdint>
#include <optional>

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include "camber/config/field.h"
#include "camber/ops/biased_attention.h"
#include "camber/ops/windows.h"

namespace camber::nn {

/// Whether queries look at themselves or at a memory. It is said, never guessed from lengths that may be equal.
enum class AttentionKind { kSelf, kCross };

struct MultiheadAttentionOptions {
  std::int64_t width = 256;
  std::int64_t num_heads = 8;
  double attention_dropout = 0;
  double residual_dropout = 0.1;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("width", width, "width of queries and keys", config::Range{.min = 1});
    visitor("num_heads", num_heads, "attention heads; must divide the width", config::Range{.min = 1});
    visitor("attention_dropout", attention_dropout, "dropout of the attention weights", config::Range{0, 1});
    visitor("residual_dropout", residual_dropout, "dropout of what is added to the residual", config::Range{0, 1});
  }
  void validate() const;
};

/// A memory as the heads see it: W_k (key + key_position) and W_v value, [B, H, K, D].
struct KeysAndValues {
  torch::Tensor keys{}, values{};
};

/// What attends to what; all [B, N, C]. The position embeddings go to query and key, never to the value.
struct AttentionInputs {
  torch::Tensor query{}, key{}, value{};
  std::optional<torch::Tensor> query_position{}, key_position{};
  /// What keys_and_values() made of key and value, when other queries look at the same memory again.
  const KeysAndValues* projected = nullptr;
};

/// How one call attends.
struct AttentionCall {
  ops::StructuredBias bias{};
  ops::AttentionMasks masks{};
  bool statistics = false;
  ops::Implementation implementation = ops::Implementation::kAuto;
  /// Names the dropout of this call; a pure function of it, so that nothing else moves when a module is added.
  std::uint64_t dropout_seed = 0;
};

struct AttendedOutput {
  torch::Tensor output{};  // [B, Q, C]
  std::optional<ops::AttentionStatistics> statistics{};
};

/// Multi-head attention with its residual, as in PETR and CMT:
///
///   output = query + dropout(out_proj(attention(W_q (query + query_position), W_k (key + key_position), W_v value))).
///
/// Parameters carry the names and shapes of torch.nn.MultiheadAttention (in_proj_weight [3C, C], in_proj_bias,
/// out_proj.weight, out_proj.bias). A bias belongs to cross-attention; self-attention refuses one. Keys and values may
/// be given in bfloat16 beside queries in float: then they are projected, and attended to, in bfloat16, and the rest
/// stays in float.
///
///   MultiheadAttention cross(MultiheadAttentionOptions{.width = 256}, AttentionKind::kCross);
///   auto out = cross->forward({queries, memory, memory, query_position, memory_position}, {.bias = structured});
class MultiheadAttentionImpl : public torch::nn::Cloneable<MultiheadAttentionImpl> {
 public:
  MultiheadAttentionImpl(MultiheadAttentionOptions options, AttentionKind kind);
  void reset() override;

  AttendedOutput forward(const AttentionInputs& inputs, const AttentionCall& call = {});

  /// The same, each query over its own short list of keys (ops::sparse_attention); an empty list attends to nothing.
  torch::Tensor forward_local(const AttentionInputs& inputs, const ops::WindowIndex& keys, std::uint64_t dropout_seed);

  /// Projects a memory once for many calls, with the bits that each call would compute. Reads key, value, key_position.
  KeysAndValues keys_and_values(const AttentionInputs& inputs) const;

  MultiheadAttentionOptions options;
  AttentionKind kind;
  torch::Tensor in_proj_weight, in_proj_bias;
  torch::nn::Linear out_proj{nullptr};

 private:
  struct Projected {
    torch::Tensor q, k, v;  // [B, H, N, D]
  };
  Projected project(const AttentionInputs& inputs) const;
  torch::Tensor project_heads(const torch::Tensor& input, std::int64_t part) const;
  torch::Tensor join(const torch::Tensor& heads, const torch::Tensor& identity, std::uint64_t dropout_seed);
};

TORCH_MODULE(MultiheadAttention);

/// Dropout that is a function of its seed alone.
torch::Tensor seeded_dropout(const torch::Tensor& input, double probability, bool training, std::uint64_t seed);

}  // namespace camber::nn
