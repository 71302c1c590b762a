#include <cmath>
#include <cstring>

#include "camber/drawing/canvas.h"
#include "camber/episodes/image_sets.h"
#include "camber/sensors/image.h"
#include "camber/sensors/points.h"
#include "fuzz/fuzzing.h"
#include "nuscenes/small_world.h"

namespace camber::tests {
namespace {

// ---- point files

void run_points(Bytes bytes) {
  const MemoryFile file(bytes);
  refuse_in_a_sentence([&] {
    std::int64_t left_out = 0;
    std::vector<sensors::LidarPoint> points = sensors::read_lidar_file(file.path(), &left_out);
    if ((points.size() + static_cast<std::size_t>(left_out)) * 20 != bytes.size())
      throw std::logic_error("another number of points");
    for (const sensors::LidarPoint& point : points)
      if (!(std::isfinite(point.x) && std::isfinite(point.y) && std::isfinite(point.z)))
        throw std::logic_error("a point that is not finite");
    if (left_out == 0 && !points.empty() && std::memcmp(&points.back(), bytes.data() + bytes.size() - 20, 20) != 0)
      throw std::logic_error("another point");
    sensors::keep_range(points, {});
    for (const sensors::LidarPoint& point : points)
      if (!sensors::PointRange{}.contains(point)) throw std::logic_error("a point out of range");
  });
}

std::vector<std::string> point_seeds() {
  const std::vector<std::uint8_t> bytes = make_lidar(40);
  return {std::string(bytes.begin(), bytes.end()), ""};
}

// ---- images: the first byte says at which scale.

void run_jpeg(Bytes bytes) {
  if (bytes.empty()) return;
  const double scale = 0.1 + (bytes[0] % 10) * 0.1;
  refuse_in_a_sentence([&] {
    const sensors::Image image = sensors::decode_jpeg(bytes.subspan(1), "fuzz", scale);
    const sensors::ImageSize size = sensors::jpeg_size(bytes.subspan(1), "fuzz");
    if (image.pixels.size() != static_cast<std::size_t>(3 * image.width * image.height) || image.width > size.width ||
        image.height > size.height)
      throw std::logic_error("an image of the wrong size");
    if (image.width * image.height < 100000)
      sensors::transform_image(image, size, geometry::ImageTransform::fit_bottom(size.width, size.height, 32, 16));
  });
}

std::vector<std::string> jpeg_seeds() {
  std::vector<std::string> seeds;
  for (const auto& [width, height] : {std::pair{24, 16}, {33, 47}}) {
    const std::vector<std::uint8_t> bytes = make_jpeg(width, height);
    seeds.push_back("\5" + std::string(bytes.begin(), bytes.end()));
  }
  return seeds;
}

// ---- PNG, as the two readers of it take it

void run_png(Bytes bytes) {
  const std::string text = text_of(bytes);
  refuse_in_a_sentence([&] {
    const drawing::DecodedPng image = drawing::decode_png(text, "fuzz");
    if (image.rgb.size() !=
        std::size_t{3} * static_cast<std::size_t>(image.width) * static_cast<std::size_t>(image.height))
      throw std::logic_error("an image of the wrong size");
  });
  refuse_in_a_sentence([&] {
    const sensors::Image image = episodes::decode_image(text, "fuzz");
    if (image.width * image.height < 100000) episodes::image_planes(image, {.size = 8});
  });
}

std::vector<std::string> png_seeds() {
  std::vector<std::string> seeds;
  for (const auto& [width, height] : {std::pair{5, 3}, {16, 16}}) {
    std::vector<std::uint8_t> rgb(static_cast<std::size_t>(3 * width * height));
    for (std::size_t i = 0; i < rgb.size(); ++i) rgb[i] = static_cast<std::uint8_t>(37 * i);
    seeds.push_back(drawing::encode_png(rgb, width, height));
  }
  return seeds;
}

}  // namespace

std::vector<FuzzTarget> sensor_targets() {
  return {{"points", run_points, point_seeds, binary_words},
          {"jpeg", run_jpeg, jpeg_seeds, binary_words},
          {"png", run_png, png_seeds, binary_words, Structure::kPng}};
}

}  // namespace camber::tests
