#pragma once
#include <cstdint>

#include <torch/types.h>

#include "camber/detection/detector_options.h"

namespace camber::detection {

/// Numbers of a box code.
inline constexpr std::int64_t kCodeSize = 10;
/// The index of the heading's sine; its cosine and the velocity follow.
inline constexpr std::int64_t kHeadingIndex = 6;
/// The index of vx; vy is the last.
inline constexpr std::int64_t kVelocityIndex = 8;

/// Boxes [..., 9] = (cx, cy, cz, length, width, height, yaw, vx, vy) as codes [..., 10]: (cx, cy, cz, log l, log w,
/// log h, sin yaw, cos yaw, vx, vy), or in CMT's order (cx, cy, log l, log w, cz, log h, ...). Metres are not scaled.
torch::Tensor encode_boxes(const torch::Tensor& boxes, BoxCode code);
/// The inverse; yaw = atan2(sin, cos).
torch::Tensor decode_boxes(const torch::Tensor& codes, BoxCode code);
/// The index of cz in a code; cx and cy are always 0 and 1.
inline constexpr std::int64_t height_index(BoxCode code) {
  return code == BoxCode::kCmt ? 4 : 2;
}

}  // namespace camber::detection
