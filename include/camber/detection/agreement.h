#pragma once
#include <cstdint>
#include <limits>
#include <vector>

#include <torch/types.h>

#include "camber/nn/query_projection.h"

namespace camber::detection {

/// Below it no cell of a map says that there is an object.
constexpr double kObjectHeat = 0.03;
/// Fewer places that both sensors see say nothing.
constexpr std::int64_t kFewestPlaces = 3;
constexpr double kNotKnown = std::numeric_limits<double>::quiet_NaN();

/// How far the LiDAR and the cameras see the same objects, in -1 .. 1; NaN: not known.
///
/// Content cannot say which of two sensors is wrong; it can say whether they disagree. At each reference point p and
/// for each class c, with heat = sigmoid of the dense heads' logits,
///
///   l_pc = largest heat of the 3 x 3 cells round p in the grid,    v_pc = the same over all cameras that see p,
///   r_c  = correlation of l_pc and v_pc over the points that both see,    agreement = mean of r_c over the classes
///
/// that either map shows somewhere (a heat of kObjectHeat). A class that one map shows and the other, being constant,
/// does not at all has r_c = 0. The agreement is not known where a sensor is absent, where fewer than kFewestPlaces
/// points are seen by both, where neither map shows an object (there is nothing to agree about) and where a logit is
/// not a number. It is a function of one frame; no gradient flows through it.
struct SensorAgreement {
  torch::Tensor frame{};     // double [B]
  torch::Tensor by_class{};  // double [B, C]
  torch::Tensor cameras{};   // double [B, V]: the same of each camera alone, over the points that it sees

  bool defined() const { return frame.defined(); }
  /// What a router is told of it, [B, 4]: mean, least and largest over the classes, and 1; all 0 where it is not known.
  torch::Tensor numbers() const;
};

/// Of heat maps [B, keys of the grid, C] and [B, keys of the cameras, C] at the places of a projection, as
/// nn::project_queries(references, scene, available) has it; all on the host or on one device.
///
///   const auto placed = nn::project_queries(references, batch.scene, batch.available);
///   const SensorAgreement agreement = agreement_of(output.grid_logits, output.camera_logits, placed, batch.scene);
SensorAgreement agreement_of(const torch::Tensor& grid_logits, const torch::Tensor& camera_logits,
                             const nn::QueryProjection& places, const nn::SensorScene& scene);

/// The mean of what is known of the last frames: the newest, and those before it; NaN when nothing is.
double smoothed(const std::vector<double>& earlier, double newest);

}  // namespace camber::detection
