#pragma once
#include <optional>
#include <string_view>

#include "camber/detection/detector_options.h"

namespace camber::detection::cmt {

/// The four published models: cmt_r50 (cmt_voxel0100_r50_800x320_cbgs), cmt_vov (cmt_voxel0075_vov_1600x640_cbgs),
/// cmt_lidar (cmt_lidar_voxel0075_cbgs) and cmt_camera (cmt_camera_vov_1600x640_cbgs); nothing for another name.
std::optional<DetectorOptions> preset(std::string_view name);

}  // namespace camber::detection::cmt
