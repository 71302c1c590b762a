#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <torch/types.h>

#include "camber/detection/detector_options.h"
#include "camber/nn/query_projection.h"
#include "camber/sensors/loader.h"

namespace camber::detection {

/// The true objects of one frame.
struct Targets {
  torch::Tensor boxes{};   // float [G, 9]: cx, cy, cz, length, width, height, yaw, vx, vy; velocities may be NaN
  torch::Tensor labels{};  // int64 [G], indices in DetectorOptions::classes
  torch::Tensor trust{};   // float [G, 2]: what the labels of trust say of LiDAR and cameras, in [-1, 1]
  /// Objects of the classes that are no targets because they lie outside of the space; cameras see them all the same.
  torch::Tensor outside_centres{};  // float [F, 3]
  torch::Tensor outside_labels{};   // int64 [F]
};

/// Where a frame's boxes belong.
struct FrameOrigin {
  nuscenes::Index sample = nuscenes::kNone;
  nuscenes::SensorPose reference{};                       // LiDAR -> ego -> global
  geometry::Matrix4 augmentation = geometry::kIdentity4;  // what was done to the frame's points
};

/// Frames as tensors. M = 1 + V maps: the grid, then V cameras in the rig's order.
struct DetectorBatch {
  std::int64_t size = 0;  // B
  nn::SensorScene scene{};

  /// float [N, 5]: x, y, z, intensity 0..1 (with encoder.kind = cmt as stored, 0..255), time lag; frame by frame.
  torch::Tensor points{};
  torch::Tensor point_offsets{};  // int64 [B + 1]: whose points they are
  /// Runs of cameras of one size, in the rig's order, each [B, n, 3, H, W] in 0..1, red first; with encoder.kind = cmt
  /// blue first, (byte - kCmtImageMean) / kCmtImageDeviation.
  std::vector<torch::Tensor> images{};
  /// Instead of points and images, with encoder.kind = features: [B, C, rows, columns], and as runs of cameras
  /// [B, n, C, rows, columns].
  torch::Tensor bev_features{};
  std::vector<torch::Tensor> camera_features{};

  torch::Tensor available{};  // bool [B, M]: which sensors say that they deliver
  torch::Tensor age{};        // float [B, M]: cues of staleness, 0.5 neutral
  torch::Tensor level{};      // float [B, M]: cues of level, 0 neutral
  /// float [B, 4]: what queries are told of the sensors' agreement; set by the head where it is their input.
  torch::Tensor agreement{};
  torch::Tensor quality{};  // float [B, M]: the true quality q, for oracle and for losses alone

  std::vector<Targets> targets{};      // [B]; empty without ground truth
  std::vector<FrameOrigin> origins{};  // [B]
};

/// Turns loaded samples into tensors. Objects are kept whose class is one of options.classes, whose centre lies in the
/// space and that have a LiDAR or radar point. All frames must have the same number of cameras with the same maps. Cues
/// and labels are given whole or not at all: without them they are neutral.
/// With encoder.kind = features and a folder in encoder.features, the maps are read from SAMPLE_TOKEN.safetensors
/// there: "bev" [C, rows, columns] and "cameras" [V, C, rows, columns].
///
///   DetectorBatch batch = collate(*loader.next(), options);
DetectorBatch collate(const sensors::Batch& batch, const DetectorOptions& options);
DetectorBatch collate(std::span<const sensors::LoadedSample> samples, const DetectorOptions& options);

/// One frame as the sensors delivered it, moved in; without cues they are neutral.
DetectorBatch collate(sensors::SensorFrame sensor_frame, std::vector<sensors::SensorCues> cues,
                      const DetectorOptions& options);

}  // namespace camber::detection
