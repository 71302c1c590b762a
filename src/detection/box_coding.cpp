#include "camber/detection/box_coding.h"

namespace camber::detection {

torch::Tensor encode_boxes(const torch::Tensor& boxes, BoxCode code) {
  TORCH_CHECK_VALUE(boxes.size(-1) == 9, "[encode_boxes] boxes must be [..., 9], got ", boxes.sizes());
  const auto centre = boxes.narrow(-1, 0, 2), height = boxes.narrow(-1, 2, 1);
  const auto size = boxes.narrow(-1, 3, 3).log(), yaw = boxes.narrow(-1, 6, 1), velocity = boxes.narrow(-1, 7, 2);
  if (code == BoxCode::kCmt)
    return torch::cat({centre, size.narrow(-1, 0, 2), height, size.narrow(-1, 2, 1), yaw.sin(), yaw.cos(), velocity},
                      -1);
  return torch::cat({centre, height, size, yaw.sin(), yaw.cos(), velocity}, -1);
}

torch::Tensor decode_boxes(const torch::Tensor& codes, BoxCode code) {
  TORCH_CHECK_VALUE(codes.size(-1) == kCodeSize, "[decode_boxes] codes must be [..., 10], got ", codes.sizes());
  const auto part = [&](std::int64_t from, std::int64_t count) { return codes.narrow(-1, from, count); };
  const auto yaw = torch::atan2(part(6, 1), part(7, 1));
  if (code == BoxCode::kCmt)
    return torch::cat({part(0, 2), part(4, 1), part(2, 2).exp(), part(5, 1).exp(), yaw, part(8, 2)}, -1);
  return torch::cat({part(0, 3), part(3, 3).exp(), yaw, part(8, 2)}, -1);
}

}  // namespace camber::detection
