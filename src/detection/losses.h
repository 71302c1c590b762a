#pragma once
#include "camber/detection/detector.h"

namespace camber::detection {

/// Focal loss of scores before the sigmoid, element by element: with p = sigmoid(x), t = 0 or 1,
/// t alpha (1 - p)^gamma softplus(-x) + (1 - t) (1 - alpha) p^gamma softplus(x).
torch::Tensor focal_loss(const torch::Tensor& logits, const torch::Tensor& targets, double alpha, double gamma);

/// The object of every query, int64 [L, B, Q], -1 for none: least cost, layer by layer and frame by frame.
torch::Tensor match_batch(const DetectorOutput& output, const DetectorBatch& batch, const DetectorOptions& options);

/// The losses of matched queries, [L] each, for logits [L, B, Q, C] and codes [L, B, Q, 10]. `object` [L, B, Q] holds
/// the object that a query stands for, `is_background` [B, Q] whose class it is not (undefined: nobody), `ignored`
/// [B, Q] who does not count (undefined: nobody). A true velocity that is not finite is unknown and does not count. Any
/// other number that is not finite, predicted or true, makes its layer's loss so: the guard of a training names it.
struct LayerLosses {
  torch::Tensor classes{}, boxes{};
};
struct QueryTargets {
  torch::Tensor object{}, background{}, ignored{};
};
LayerLosses query_losses(const torch::Tensor& logits, const torch::Tensor& codes, const QueryTargets& targets,
                         const DetectorBatch& batch, const DetectorOptions& options, double class_divisor,
                         double box_divisor);

/// Every part of the loss but the pull of the scales. With a group, of whose batch this is a share, counts that terms
/// are divided by are those of all ranks, and the terms of the ranks add up to those of the whole.
Losses detector_losses(const DetectorOutput& output, const DetectorBatch& batch, const DetectorOptions& options,
                       distributed::ProcessGroup* group = nullptr);

/// Focal loss on the cells of the grid and of the cameras: 1 for the class of each cell that holds an object's centre
/// (in the cameras also of objects beyond the space).
/// Sensors that are absent, or whose content is not this frame's (quality 0), are passed over.
struct DenseLosses {
  torch::Tensor grid{}, cameras{};
};
/// `objects`: of the whole batch, by which both are divided.
DenseLosses dense_losses(const DetectorOutput& output, const DetectorBatch& batch, const DetectorOptions& options,
                         double objects);

/// Box losses of heading and velocity (their code weights and smoothing) at the grid's cells that hold objects, divided
/// by `objects`; frames as above.
torch::Tensor dense_motion_loss(const DetectorOutput& output, const DetectorBatch& batch,
                                const DetectorOptions& options, double objects);

}  // namespace camber::detection
