#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>

#include <camber/runs/detector_memory.h>
#include <fmt/format.h>

namespace camber::runs {
namespace {

constexpr double kFloat = 4;
// Copies of a feature map that a training step holds at the least: the map itself, its norm's input, its gradient.
constexpr double kMapCopies = 4;
constexpr double kImageCopies = 8;      // an image's first maps are wider than the image and a quarter of its area
constexpr double kParameterCopies = 4;  // value, gradient, two moments

double bytes_of_frame(const DetectorTrainingOptions& options, std::int64_t cameras) {
  const detection::DetectorOptions& detector = options.detector;
  const auto& space = detector.space;
  const double width = space.x_max - space.x_min, height = space.y_max - space.y_min;
  const auto cells = [&](double side) { return width / side * (height / side); };
  const double pixels =
      static_cast<double>(detector.encoder.image_width) * static_cast<double>(detector.encoder.image_height);
  const double images = static_cast<double>(cameras) * pixels * 3 * kFloat;
  const bool has_pillars = detector.encoder.kind == detection::EncoderKind::kSmall ||
                           detector.encoder.kind == detection::EncoderKind::kReference;
  const double pillars =
      has_pillars ? cells(space.pillar_cell) * static_cast<double>(detector.encoder.pillar_width) * kFloat : 0;
  const double grid = cells(space.cell) * static_cast<double>(detector.encoder.bev_channels) * kFloat;
  const auto& decoder = detector.head.decoder;
  const double queries = static_cast<double>(detector.head.num_queries) * static_cast<double>(decoder.num_layers) *
                         static_cast<double>(decoder.width) * kFloat;
  const double ahead = static_cast<double>(options.data.batches_ahead) * images;
  return ahead + kImageCopies * images + kMapCopies * (pillars + grid) + 12 * queries;
}

double bytes_of_parameters(const detection::DetectorOptions& detector) {
  const auto square = [](std::int64_t width) { return static_cast<double>(width) * static_cast<double>(width); };
  const auto& decoder = detector.head.decoder;
  const double layer = 8 * square(decoder.width) +
                       2 * static_cast<double>(decoder.width) * static_cast<double>(decoder.feedforward_width);
  const double maps = 9 * (square(detector.encoder.bev_channels) + square(detector.encoder.camera_channels));
  const double queries = 3 * static_cast<double>(detector.head.num_queries);
  return kParameterCopies * kFloat * (static_cast<double>(decoder.num_layers) * layer + maps + queries);
}

}  // namespace

double machine_gigabytes() {
  std::ifstream lines("/proc/meminfo");
  for (std::string line; std::getline(lines, line);) {
    long long kilobytes = 0;
    if (std::sscanf(line.c_str(), "MemTotal: %lld kB", &kilobytes) == 1) return static_cast<double>(kilobytes) / 1e6;
  }
  return 0;
}

double training_gigabytes(const DetectorTrainingOptions& options, std::int64_t cameras) {
  return 1e-9 * (bytes_of_parameters(options.detector) +
                 static_cast<double>(options.data.batch_size) * bytes_of_frame(options, cameras));
}

void check_training_memory(const DetectorTrainingOptions& options, std::int64_t cameras, double gigabytes) {
  const double needed = training_gigabytes(options, cameras);
  if (gigabytes <= 0 || needed <= gigabytes) return;
  const detection::DetectorOptions& detector = options.detector;
  throw std::invalid_argument(fmt::format(
      "[train] data.batch_size {} with cells of {} m, images of {} x {}, {} queries and {} layers needs about {:.0f} "
      "GB, "
      "this machine has {:.0f}",
      options.data.batch_size, detector.space.cell, detector.encoder.image_width, detector.encoder.image_height,
      detector.head.num_queries, detector.head.decoder.num_layers, needed, gigabytes));
}

}  // namespace camber::runs
