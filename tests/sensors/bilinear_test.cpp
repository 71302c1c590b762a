#include <gtest/gtest.h>

#include "camber/sensors/image.h"

/// Bilinear resampling against checksums of what OpenCV 5.0's cv2.resize makes of the same bytes.
namespace camber::sensors {
namespace {

// Bytes without a pattern: the upper eight bits of splitmix64.
Image noise(std::int64_t width, std::int64_t height) {
  Image image{.width = width, .height = height};
  const auto seed = static_cast<std::uint64_t>(width * 1000003 + height);
  for (std::uint64_t i = 1; i <= static_cast<std::uint64_t>(3 * width * height); ++i) {
    std::uint64_t z = seed + i * 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    image.pixels.push_back(static_cast<std::uint8_t>((z ^ (z >> 31)) >> 56));
  }
  return image;
}

std::uint64_t checksum(const Image& image) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const std::uint8_t byte : image.pixels) hash = (hash ^ byte) * 0x100000001b3ULL;
  return hash;
}

geometry::ImageTransform whole(const Image& source, double resize) {
  geometry::ImageTransform transform{.resize = resize, .resampling = geometry::Resampling::kBilinear};
  transform.width = transform.resized(source.width);
  transform.height = transform.resized(source.height);
  return transform;
}

TEST(Bilinear, GivesTheBytesOfOpenCv) {
  struct Case {
    std::int64_t width, height;
    double resize;
    std::uint64_t checksum;
  };
  constexpr Case kCases[] = {
      {160, 90, 0.5, 0x0a1a49ac6489ab2eULL},   {160, 90, 0.1, 0x00801a6bd68722ccULL},
      {160, 90, 0.47, 0xb2537dd73418738bULL},  {160, 90, 0.5321, 0xab2bd4e40e507c50ULL},
      {160, 90, 0.625, 0x5bd38eec2b8a7708ULL}, {160, 90, 1.0, 0xe81a087275964353ULL},
      {160, 90, 1.37, 0x65c794e82752802aULL},  {53, 37, 0.6, 0x0eb4006c485e8fabULL},
      {31, 20, 2.0, 0xbb184d34faebc645ULL},    {64, 64, 0.25, 0xc56fc41b0c0439c1ULL},
      {19, 17, 0.97, 0x14d67eb38879ded5ULL},   {7, 5, 3.3, 0xd1c9b2faa09836dcULL},
      {2, 2, 0.5, 0x88c46b195ffaa5d9ULL},      {1, 1, 4.0, 0xa3fdd1e7070dd335ULL},
      {101, 77, 0.5, 0xdf34dcba33989434ULL},
  };
  for (const Case& one : kCases) {
    const Image source = noise(one.width, one.height);
    const Image resized = transform_image(source, {one.width, one.height}, whole(source, one.resize));
    EXPECT_EQ(checksum(resized), one.checksum) << one.width << " x " << one.height << " times " << one.resize;
  }
}

// Crop and mirror only choose among the pixels of the resized image; beyond them it is black.
TEST(Bilinear, CropsAndMirrorsTheResizedImage) {
  const Image source = noise(53, 37);
  for (const double resize : {0.5, 0.6, 1.0, 1.7}) {
    const Image resized = transform_image(source, {53, 37}, whole(source, resize));
    for (const bool flip : {false, true}) {
      geometry::ImageTransform part = whole(source, resize);
      part.crop_x = -3;
      part.crop_y = 5;
      part.width = resized.width + 7;
      part.flip = flip;
      const Image result = transform_image(source, {53, 37}, part);
      for (std::int64_t y = 0; y < result.height; ++y) {
        for (std::int64_t x = 0; x < result.width; ++x) {
          const std::int64_t from_x = (flip ? result.width - 1 - x : x) - 3, from_y = y + 5;
          const bool inside = from_x >= 0 && from_x < resized.width && from_y < resized.height;
          for (std::int64_t i = 0; i < 3; ++i)
            ASSERT_EQ(result.row(y)[3 * x + i], inside ? resized.row(from_y)[3 * from_x + i] : 0);
        }
      }
    }
  }
}

TEST(Bilinear, ReadsOtherOrdersAndPitches) {
  const Image source = noise(40, 30);
  std::vector<std::uint8_t> padded;
  for (std::int64_t y = 0; y < 30; ++y) {
    for (std::int64_t x = 0; x < 40; ++x)
      for (const std::int64_t i : {2, 1, 0}) padded.push_back(source.row(y)[3 * x + i]);
    padded.resize(padded.size() + 11);
  }
  const ImageView view{.data = padded.data(), .width = 40, .height = 30, .pitch = 131, .order = ChannelOrder::kBgr};
  for (const double resize : {0.5, 0.37})
    EXPECT_EQ(transform_image(view, {40, 30}, whole(source, resize)).pixels,
              transform_image(source, {40, 30}, whole(source, resize)).pixels);
}

// CMT multiplies calibrations by the resize in single precision; the size in pixels follows the exact one.
TEST(Bilinear, MatrixHoldsTheResizeInSinglePrecision) {
  using geometry::ImageTransform;
  const auto transform = ImageTransform::fit_bottom(1600, 900, 160, 64, geometry::Resampling::kBilinear);
  EXPECT_EQ(transform.matrix()[0], static_cast<double>(0.1F));
  EXPECT_EQ(transform.matrix()[5], -26);
  EXPECT_EQ(transform.resized(1600), 160);
  EXPECT_EQ(ImageTransform::fit_bottom(1600, 900, 160, 64).matrix()[0], 0.1);
}

}  // namespace
}  // namespace camber::sensors
