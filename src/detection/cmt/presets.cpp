#include "detection/cmt/presets.h"

namespace camber::detection::cmt {
namespace {

// What all four models share: range, limits of centres, box code.
DetectorOptions published() {
  DetectorOptions options;
  options.space = {.x_min = -54, .x_max = 54, .y_min = -54, .y_max = 54};
  options.encoder.kind = EncoderKind::kCmt;
  options.head.box_code = BoxCode::kCmt;
  options.head.centre_limits = {-61.2, -61.2, -10, 61.2, 61.2, 10};
  return options;
}

// The finer voxels and larger images of the other three.
DetectorOptions fine() {
  auto options = published();
  options.space.cell = 0.6;
  options.space.pillar_cell = 0.3;
  options.encoder.cmt.voxel = 0.075;
  options.encoder.cmt.backbone = ImageBackbone::kVovNet99;
  options.encoder.image_width = 1600;
  options.encoder.image_height = 640;
  return options;
}

DetectorOptions r50() {
  auto options = published();
  options.space.grid_cells = 128;
  return options;
}

DetectorOptions lidar() {
  auto options = fine();
  options.encoder.cmt.sensors = Sensors::kLidar;
  options.head.task_kernel = 3;
  return options;
}

DetectorOptions camera() {
  auto options = fine();
  // No key lies on the grid: one cell, which no query sees, stands for it.
  options.space.cell = 108;
  options.space.pillar_cell = 54;
  options.encoder.cmt.sensors = Sensors::kCameras;
  options.encoder.bev_channels = options.head.decoder.width;
  options.head.shared_convolution = false;
  return options;
}

}  // namespace

std::optional<DetectorOptions> preset(std::string_view name) {
  if (name == "cmt_r50") return r50();
  if (name == "cmt_vov") return fine();
  if (name == "cmt_lidar") return lidar();
  if (name == "cmt_camera") return camera();
  return std::nullopt;
}

}  // namespace camber::detection::cmt
