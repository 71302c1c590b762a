#pragma once
#include <memory>
#include <optional>

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>

#include "camber/detection/detector.h"
#include "camber/nn/attention_bias.h"
#include "camber/nn/batch_norm.h"
#include "camber/nn/decoder.h"
#include "camber/nn/query_router.h"

namespace camber::detection {

class KeyPositionsImpl;   // positions of keys and queries as vectors
class NormedConvolution;  // a convolution with the norm folded into it
class TaskHeadsImpl;

/// Points of the clouds that take part in their cells, those outside of the grid left out, as a LiDAR encoder wants
/// them. Pillars: a row a point, features [n, 8] and cell int64 [n] = (cloud * rows + row) * columns + column, or with
/// encoder.split_lag twice that, plus 1 for the points of earlier sweeps. CMT's
/// voxels: a row a voxel, features [n, 5], the mean of its points, and cell int32 [n, 4] = (cloud, z, y, x).
struct GroupedPoints {
  torch::Tensor features{}, cell{};
};

/// Maps of keys; either may lack elements, which availability then says.
struct KeyMaps {
  /// [B, bev_channels, rows, columns], with dense_motion four channels more; undefined: nothing in the whole batch.
  torch::Tensor bev{};
  torch::Tensor cameras{};  // [B, keys of all cameras, camera_channels]; undefined likewise
};

/// Keys as the head looks at them, [B, K, C].
struct HeadMemory {
  torch::Tensor content{}, position{};
  torch::Tensor motion{};  // [B, cells of the grid, 4] = (sin, cos, vx, vy), 0 without LiDAR; with dense_motion
  /// Filled by remember(): the projections, for frames that are looked at more than once.
  std::vector<nn::KeysAndValues> decoder{};
  std::optional<nn::KeysAndValues> router{};
};

/// Boxes that one layer predicts.
struct LayerBoxes {
  torch::Tensor logits{};  // [B, N, classes]
  torch::Tensor codes{};   // [B, N, 10]
};

/// Numbers of M maps [B, M] as those of the X sensors that trust tells apart: [B, X], cameras by their mean.
torch::Tensor by_sensor(const torch::Tensor& by_map, std::int64_t sensors);

/// The CMT head with router and bias: keys to boxes. With X the keys' content and P their positions, layer by layer
///
///   state += attention(state + p, state + p, state);   state += attention(state + p, X + P, X; bias);   state += ffn
///
/// and boxes of every layer's state round the references. A detector has one, `detector->head()`; several looks at the
/// same frames take the keys' part once:
///
///   CmtHead head = detector->head();
///   const HeadMemory memory = head->remember(detector->encode(batch), batch);
///   const auto with = head->forward(memory, batch, {}, {});
///   const auto without = head->forward(memory, batch, {}, {.trust = TrustControl::kZero});
class CmtHeadImpl : public torch::nn::Module {
 public:
  explicit CmtHeadImpl(const DetectorOptions& options);
  void initialise(std::uint64_t seed, const std::string& prefix);
  void set_alarms(const AlarmOptions& alarms) { options_.alarms = alarms; }

  /// `positions`: embeddings of the keys when they are known from before; else they are computed.
  DetectorOutput forward(const KeyMaps& maps, const DetectorBatch& batch, const DenoisingQueries& denoising,
                         const ForwardOptions& options, const std::optional<torch::Tensor>& positions);
  /// The same from keys that are known; `forward(remember(maps, batch), ...)` has the bits of `forward(maps, ...)`.
  DetectorOutput forward(const HeadMemory& memory, const DetectorBatch& batch, const DenoisingQueries& denoising,
                         const ForwardOptions& options);
  /// Everything that depends on the keys alone, once for several passes over the same frames. In eval mode.
  HeadMemory remember(const KeyMaps& maps, const DetectorBatch& batch);

  torch::Tensor key_positions(const nn::SensorScene& scene, std::int64_t batch);
  /// References [B, Q, 3] in metres -> [B, Q, C], the cues with them where they are an input.
  torch::Tensor query_positions(const torch::Tensor& references, const DetectorBatch& batch);
  /// What the queries know before they look, [B, Q, C].
  torch::Tensor query_start(const torch::Tensor& query_position);
  /// The keys' content, [B, K, C]; zeros for sensors that delivered nothing.
  torch::Tensor memory_of(const KeyMaps& maps, const DetectorBatch& batch);
  /// How far the sensors of the frames agree at the references; undefined without dense heads. In eval mode.
  SensorAgreement agreement(const HeadMemory& memory, const DetectorBatch& batch);
  /// The references of the queries in metres, [Q, 3].
  torch::Tensor references() const;
  /// What a layer's heads make of its normalised state [B, N, C], round references [B, N, 3].
  LayerBoxes boxes_of(const torch::Tensor& state, const torch::Tensor& references, std::int64_t layer);

  nn::QueryRouter router{nullptr};
  nn::AttentionBias attention_bias{nullptr};
  nn::TransformerDecoder decoder{nullptr};

 private:
  struct Pass;
  TrustPolicy policy_of(const ForwardOptions& options) const;
  std::pair<torch::Tensor, torch::Tensor> dense_logits(const HeadMemory& memory, const DetectorBatch& batch);
  SensorAgreement agreement_if_asked(const HeadMemory& memory, const DetectorBatch& batch,
                                     const torch::Tensor& references, const ForwardOptions& options);
  DetectorOutput dense_output(const KeyMaps& maps, const DetectorBatch& batch, const ForwardOptions& options);
  HeadMemory memory_at(const KeyMaps& maps, const DetectorBatch& batch, const std::optional<torch::Tensor>& positions);
  torch::Tensor trust_of(const Pass& pass, const DetectorBatch& batch, const ForwardOptions& options);
  /// Outputs of a layer's heads as box codes round the references.
  torch::Tensor codes_of(const torch::Tensor& raw, const torch::Tensor& references) const;
  void predict(Pass& pass, std::int64_t layer, const torch::Tensor& state);
  nn::DecoderOutput decode_queries(Pass& pass, const DetectorBatch& batch, const ForwardOptions& options);
  ops::StructuredBias bias_of(Pass& pass, const DetectorBatch& batch, std::int64_t layer);

  DetectorOptions options_;
  torch::nn::Conv2d shared_conv_{nullptr};
  nn::BatchNorm2d shared_norm_{nullptr};
  std::shared_ptr<NormedConvolution> shared_layer_;
  torch::nn::Conv2d camera_projection_{nullptr};
  torch::nn::LayerNorm grid_norm_{nullptr}, camera_norm_{nullptr};
  std::shared_ptr<KeyPositionsImpl> positions_;
  torch::Tensor reference_points_{};  // learned: [Q, 3] in 0..1; fixed: metres
  std::shared_ptr<TaskHeadsImpl> heads_;
  torch::nn::Linear grid_classes_{nullptr}, camera_classes_{nullptr}, cue_input_{nullptr}, agreement_input_{nullptr},
      query_start_{nullptr};
};
TORCH_MODULE(CmtHead);

}  // namespace camber::detection
