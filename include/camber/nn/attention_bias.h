#pragma once
#include <cstdint>
#include <optional>

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include "camber/nn/attention_bias_options.h"
#include "camber/nn/bounded_scale.h"
#include "camber/nn/query_projection.h"
#include "camber/ops/structured_bias.h"

namespace camber::nn {

/// Windows with their profile g(d), made once and shared by all layers and heads.
struct BiasWindows {
  ops::WindowIndex index;
  torch::Tensor profile;  // float [nnz]
};

/// Turns trust into a structured bias on the cross-attention's scores:
///
///   windows:  value = g(d) * clip(w * scale, +-c)   on the cells round the query, in the grid for w_lidar and in every
///                                                   camera that sees the point for w_camera; no entry elsewhere
///   segments: value = clip(w * segment_scale)       on all keys of the grid and of each camera
///   locality: windows hold g(d) * clip(locality_scale + w * scale, +-c), and without window_trust
///             g(d) * clip(locality_scale, +-c)
///
/// trust is [B, Q, X] with X = 2 (LiDAR, cameras), or 1 + V with per_camera, less the LiDAR in a scene without a grid
/// (and without cameras 1 will do); a scale a modality then has scale.shape = {1}. Trust lies in [-1, 1], which is
/// checked: then the bias stays within the scale, and a clip of the scale's max or more leaves every gradient alive. A
/// smaller clip is a wish: beyond it trust and scale have no gradient. With locality the sum reaches the clip before
/// trust reaches 1, and is held there: the bias of a window stays within the one bound that holds without it. Values
/// are ordinary differentiable functions of trust and scale on nnz numbers; the attention kernel knows nothing of
/// either.
///
/// State: the scales', and the float64 buffer "clip_in_force", which a schedule changes (-1: the scale's max). It is
/// saved, so that a loaded bias gives the values of the one that was saved. A file without it was written before it was
/// kept; it means the clip of the options.
///
///   AttentionBias bias(AttentionBiasOptions{.bev_window = 5, .camera_window = 15});
///   auto windows = bias->windows(project_queries(points, scene), scene);
///   ops::StructuredBias structured = bias->forward(trust, windows, scene, /*layer=*/0);
class AttentionBiasImpl : public torch::nn::Cloneable<AttentionBiasImpl> {
 public:
  explicit AttentionBiasImpl(AttentionBiasOptions options = {});
  void reset() override;
  void to(torch::Device device, torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Device device, bool non_blocking = false) override;

  /// The windows of placed queries. With object sizing, `boxes` [B, Q, 7] gives the sizes; without boxes (a first layer
  /// that has no prediction yet) they are the fixed ones.
  BiasWindows windows(const QueryProjection& projection, const SensorScene& scene,
                      const std::optional<torch::Tensor>& boxes = std::nullopt) const;

  ops::StructuredBias forward(const torch::Tensor& trust, const BiasWindows& windows, const SensorScene& scene,
                              std::int64_t layer);

  /// clip(w * scale, +-c), with locality clip(locality_scale + w * scale, +-c), per map, [Hb, B*Q, M]: the effective
  /// bias without the profile. The first `num_grids` maps are grids, the others cameras.
  torch::Tensor strength(const torch::Tensor& trust, std::int64_t num_maps, std::int64_t layer,
                         std::int64_t num_grids = 1);

  /// Takes the bounds of the scales and the clip for this epoch and step. train::ScaleProjector does it for a model.
  void apply_schedule(std::int64_t epoch, std::int64_t step);
  /// Takes the clip of options.clip_schedule for this epoch; true when it changed.
  bool apply_clip_schedule(std::int64_t epoch);
  /// The clip in force: the option, the schedule's, the file's, or the scale's max.
  double clip() const;
  /// The penalties of the scales, to add to the loss.
  torch::Tensor penalty();

  AttentionBiasOptions options;
  BoundedScale scale{nullptr};
  BoundedScale segment_scale{nullptr};   // null without segments
  BoundedScale locality_scale{nullptr};  // null without locality

 private:
  torch::Tensor clip_in_force_;  // float64 []
};

TORCH_MODULE(AttentionBias);

}  // namespace camber::nn
