#pragma once
#include <cstdint>
#include <optional>

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>

#include "camber/nn/attention_bias_options.h"
#include "camber/nn/decoder.h"
#include "camber/nn/query_projection.h"

namespace camber::nn {

/// Where trust comes from.
enum class RouterMode {
  kOff,         // no trust, no bias
  kConstant,    // w = +1: locality without trust
  kContent,     // what the query sees locally, no cues
  kCues,        // the sensors' health, no content
  kLearned,     // both
  kZeroSum,     // both, less the mean over the query's live sensors (before tanh)
  kSupervised,  // both, with labels in the loss
  kOracle,      // labels as weights
  kShuffled,    // learned weights, permuted over the queries: a control at test time
  kAgree,       // cues, held against how far the sensors agree; the same for all queries
};

/// Whether trust comes from what the query sees locally, from the sensors' cues, or from either: then the router has
/// parameters to learn. Trust from content differs over the queries of a frame.
constexpr bool uses_content(RouterMode mode) {
  switch (mode) {
    case RouterMode::kContent:
    case RouterMode::kLearned:
    case RouterMode::kZeroSum:
    case RouterMode::kSupervised:
    case RouterMode::kShuffled:
      return true;
    default:
      return false;
  }
}

constexpr bool uses_cues(RouterMode mode) {
  return mode == RouterMode::kCues || mode == RouterMode::kAgree ||
         (uses_content(mode) && mode != RouterMode::kContent);
}

constexpr bool learns_trust(RouterMode mode) {
  return uses_content(mode) || uses_cues(mode);
}

struct QueryRouterOptions {
  RouterMode mode = RouterMode::kLearned;
  WeightActivation activation = WeightActivation::kTanh;
  std::int64_t width = 256;
  std::int64_t num_heads = 4;
  std::int64_t feedforward_width = 1024;
  double dropout = 0.1;
  std::int64_t bev_window = 5;
  std::int64_t camera_window = 15;
  std::int64_t num_sensors = 2;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("mode", mode, "where trust comes from");
    visitor("activation", activation, "tanh: trust in [-1, 1]; sigmoid: in [0, 1]");
    visitor("width", width, "width of queries and keys", config::Range{.min = 1});
    visitor("num_heads", num_heads, "heads of the local attention; must divide the width", config::Range{.min = 1});
    visitor("feedforward_width", feedforward_width, "inner width of the feed-forward net", config::Range{.min = 1});
    visitor("dropout", dropout, "residual dropout", config::Range{0, 1});
    visitor("bev_window", bev_window, "cells that a query sees in the grid (odd)", config::Range{.min = 1});
    visitor("camera_window", camera_window, "cells that a query sees in each camera (odd)", config::Range{.min = 1});
    visitor("num_sensors", num_sensors, "LiDAR and cameras: 2, or 1 + the number of cameras", config::Range{.min = 1});
  }
  void validate() const;
};

/// Cheap cues of each sensor's health, [B, X]: from outside the content, because content shows that two sensors
/// disagree, not which one is wrong. Neutral values: age 0.5, level 0.
struct SensorCues {
  torch::Tensor age{};    // 0 fresh .. 1 stale
  torch::Tensor level{};  // brightness or number of points against their running mean, 0 normal
};

/// How many numbers of the sensors' agreement the router of mode agree takes.
constexpr std::int64_t kAgreementNumbers = 4;

struct RouterInputs {
  torch::Tensor query_position{};   // [B, Q, C]
  torch::Tensor memory{};           // [B, K, C]
  torch::Tensor memory_position{};  // [B, K, C]
  /// What project_memory() made of the memory, when it is looked at again.
  std::optional<KeysAndValues> projected_memory{};
  QueryProjection projection{};
  const SensorScene* scene = nullptr;
  SensorCues cues{};
  /// [B, kAgreementNumbers], for agree: detection::SensorAgreement::numbers().
  torch::Tensor agreement{};
  /// [B, Q, X] in [-1, 1], for oracle.
  std::optional<torch::Tensor> labels{};
  std::uint64_t dropout_seed = 0;
  /// Names the permutation of shuffled.
  std::uint64_t shuffle_seed = 0;
};

/// Says, for each query, how far to trust each sensor (the adaptive query router, AQR):
///
///   w_x = tanh(g_x (0.5 - age_x) + k_x level_x + c_x + content_x)
///
/// content_x is a linear function of one layer of (cross_attn, norm, ffn, norm) over the keys round the query. The
/// gains g, k, c and content's last layer start at zero, so that an untrained router leaves the detector's output
/// bit-identical. (Then the scale's gradient is exactly 0 at the first step, which is no illness.)
///
/// In mode agree, w = tanh(V relu(U [0.5 - age, level, agreement] + b) + c) of a frame: a sum of cues cannot say "an
/// alarm, but the sensors agree", this can. V and c start at zero.
///
///   QueryRouter router(QueryRouterOptions{.mode = RouterMode::kLearned});
///   torch::Tensor trust = router->forward(inputs);   // [B, Q, X]; undefined in mode off
class QueryRouterImpl : public torch::nn::Cloneable<QueryRouterImpl> {
 public:
  explicit QueryRouterImpl(QueryRouterOptions options = {});
  void reset() override;
  torch::Tensor forward(const RouterInputs& inputs);
  /// Keys and values of the local attention, for a memory that is looked at more than once; none without content.
  std::optional<KeysAndValues> project_memory(const torch::Tensor& memory, const torch::Tensor& memory_position) const;

  /// 0.5 * mean |w - label| over the queries that `foreground` [B, Q] marks; 0 when there are none.
  static torch::Tensor supervision_loss(const torch::Tensor& trust, const torch::Tensor& labels,
                                        const torch::Tensor& foreground);

  QueryRouterOptions options;
  MultiheadAttention local_attention{nullptr};
  torch::nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  FeedForward feedforward{nullptr};
  torch::nn::Linear content{nullptr};
  torch::Tensor age_gain, level_gain, offset;                               // g, k, c: [X]
  torch::nn::Linear agreement_hidden{nullptr}, agreement_content{nullptr};  // U and b, V and c

 private:
  torch::Tensor content_logits(const RouterInputs& inputs);
  void check_cues(const SensorCues& cues) const;
  torch::Tensor cue_logits(const SensorCues& cues) const;
  torch::Tensor agreement_logits(const RouterInputs& inputs);
  torch::Tensor live_sensors(const QueryProjection& projection, std::int64_t num_grids) const;
};

TORCH_MODULE(QueryRouter);

}  // namespace camber::nn

template <>
inline constexpr auto camber::config::enum_names<camber::nn::RouterMode> =
    std::array{std::pair{camber::nn::RouterMode::kOff, std::string_view("off")},
               std::pair{camber::nn::RouterMode::kConstant, std::string_view("constant")},
               std::pair{camber::nn::RouterMode::kContent, std::string_view("content")},
               std::pair{camber::nn::RouterMode::kCues, std::string_view("cues")},
               std::pair{camber::nn::RouterMode::kLearned, std::string_view("learned")},
               std::pair{camber::nn::RouterMode::kZeroSum, std::string_view("zero_sum")},
               std::pair{camber::nn::RouterMode::kSupervised, std::string_view("supervised")},
               std::pair{camber::nn::RouterMode::kOracle, std::string_view("oracle")},
               std::pair{camber::nn::RouterMode::kShuffled, std::string_view("shuffled")},
               std::pair{camber::nn::RouterMode::kAgree, std::string_view("agree")}};
