#pragma once
#include <array>
#include <cstdint>

#include <torch/types.h>

#include "camber/detection/detector_options.h"

namespace camber::detection::cmt {

/// Hard voxels as the original makes them on the CPU.
struct VoxelOptions {
  std::array<float, 3> low{}, size{};   // x, y, z; metres
  std::array<std::int64_t, 3> cells{};  // x, y, z: round(range / size)
  std::int64_t max_points = 10;         // of a voxel
  std::int64_t max_voxels = 160000;     // of a cloud

  static VoxelOptions of(const DetectorOptions& options, bool training);
};

/// V voxels with P points in all.
struct Voxels {
  torch::Tensor coordinates{};  // int32 [V, 4]: (cloud, z, y, x), cloud by cloud, in the order of their first points
  torch::Tensor counts{};       // int64 [V]: points of each that count
  torch::Tensor rows{};         // int64 [P]: rows of those points, voxel by voxel, in the order in which they came
};

/// index = floor((p - low) / size) in float along each axis, with the constants rounded to float: double arithmetic
/// puts some points into other voxels. A point outside of the cells, or not finite, is dropped; so is one whose voxel
/// is full, and one that would open a voxel beyond max_voxels (later points of voxels that exist still enter). points
/// float [N, 5], of which point_offsets int64 [B + 1] tells the clouds; `elements` int64 [E] says which clouds take
/// part, renumbered 0 .. E - 1.
///
///   const Voxels voxels = voxelise(points, offsets, torch::tensor({0}), VoxelOptions::of(options, false));
Voxels voxelise(const torch::Tensor& points, const torch::Tensor& point_offsets, const torch::Tensor& elements,
                const VoxelOptions& options);

/// The mean of each voxel's points, [V, 5] in `type`; the sums are taken in double.
torch::Tensor mean_of_voxels(const torch::Tensor& points, const Voxels& voxels, torch::ScalarType type);

}  // namespace camber::detection::cmt
