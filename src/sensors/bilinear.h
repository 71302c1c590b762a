#pragma once
#include "camber/sensors/image.h"

namespace camber::sensors {

/// The resized and cropped part of `decoded`, a version of a camera's image of size `source`, with the bytes that
/// OpenCV's bilinear resize gives; black where the resized image ends.
void resample_bilinear(const ImageView& decoded, ImageSize source, const geometry::ImageTransform& transform,
                       Image& result);

}  // namespace camber::sensors
