#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "camber/geometry/camera.h"

namespace camber::sensors {

enum class ChannelOrder { kRgb, kBgr };

/// An image that somebody else owns: bytes, three a pixel, `pitch` bytes from row to row (0: no gap).
struct ImageView {
  const std::uint8_t* data = nullptr;
  std::int64_t width = 0, height = 0;
  std::int64_t pitch = 0;
  ChannelOrder order = ChannelOrder::kRgb;

  const std::uint8_t* row(std::int64_t y) const { return data + (pitch == 0 ? 3 * width : pitch) * y; }
};

/// An image of bytes, red, green and blue of a pixel side by side, rows without a gap.
struct Image {
  std::int64_t width = 0, height = 0;
  std::vector<std::uint8_t> pixels{};  ///< [height, width, 3]

  ImageView view() const { return {.data = pixels.data(), .width = width, .height = height}; }
  const std::uint8_t* row(std::int64_t y) const { return pixels.data() + 3 * width * y; }
  std::uint8_t* row(std::int64_t y) { return pixels.data() + 3 * width * y; }
};

struct ImageSize {
  std::int64_t width = 0, height = 0;
  bool operator==(const ImageSize&) const = default;
};

/// The size that a JPEG's header states, without decoding it. `name` stands in the sentence when the bytes are none.
ImageSize jpeg_size(std::span<const std::uint8_t> bytes, const std::string& name);

/// Decodes a JPEG, at the smallest of the decoder's scales (n/8) that is at least `scale`: half the size costs a third
/// of the time. Bytes that are no JPEG, damaged or cut off, and images above 64 megapixels are refused.
Image decode_jpeg(std::span<const std::uint8_t> bytes, const std::string& name, double scale = 1);

/// The part of the decoded image that the network sees: a pixel of the result whose centre is (u', v') takes its
/// colour at (u, v) = (u' + crop) / resize of the camera's own image, mirrored first when `flip` is set, through a
/// bicubic filter as wide as the shrinking asks for. Where the camera's image ends, the result is black.
/// With transform.resampling = bilinear, the result has the bytes of OpenCV's cv2.resize with its default interpolation
/// to floor(source * resize) pixels, cropped and then mirrored.
/// `source` is the camera's own size, of which `decoded` may be a smaller version. It is read where it lies; an image
/// that is given away and that the transform leaves as it is comes back without a copy.
Image transform_image(const ImageView& decoded, ImageSize source, const geometry::ImageTransform& transform);
Image transform_image(Image decoded, ImageSize source, const geometry::ImageTransform& transform);

/// Reads the file, decodes it as small as the transform allows (whole for bilinear) and transforms it. An image whose
/// size is not `source` is refused: its calibration would not fit.
Image load_image(const std::filesystem::path& path, ImageSize source, const geometry::ImageTransform& transform);

}  // namespace camber::sensors
