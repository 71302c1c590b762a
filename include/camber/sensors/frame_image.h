#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "camber/drawing/canvas.h"
#include "camber/sensors/sensor_frame.h"

namespace camber::sensors {

struct FrameImageOptions {
  double range = 26;              ///< metres from the middle of the bird's-eye view to its edge
  int min_camera_width = 480;     ///< pixels; smaller images are enlarged by a whole factor to reach it
  bool points_in_images = false;  ///< LiDAR returns above the ground as dots on the cameras, coloured by depth
};

/// A box to draw, in the frame of the LiDAR. True boxes are thin, found ones thick.
struct BoxMark {
  geometry::Box box{};
  std::string category{};  ///< of nuScenes ("vehicle.car") or a class ("car"); chooses the colour
  bool found = false;
  std::string words{};          ///< of its label; empty: none
  std::vector<double> trust{};  ///< in LiDAR and cameras, each in [-1, 1]: a gauge beside the label; empty: none
};

/// A frame to draw with its boxes.
struct MarkedFrame {
  const SensorFrame* frame = nullptr;
  std::vector<BoxMark> marks{};
  std::string title{};  ///< on a strip above it; empty: no strip
};

/// The frame's true objects.
std::vector<BoxMark> true_boxes(const KeyFrame& frame);

/// One colour for each class of nuScenes, by the category or the class's name; grey for others.
drawing::Colour category_colour(std::string_view category);

/// The order in which cameras are shown in so many columns: in three and more as one would look round, the front ones
/// from left to right, then the rear ones; in two the middle ones first, then a row for each pair of sides.
std::vector<std::size_t> viewing_order(const KeyFrame& frame, std::size_t columns);

/// The frame with all its cameras at the size of their images (rows of cameras of different sizes are scaled to the
/// same width) and the bird's-eye view beside them, as high as they are; a legend of what is drawn below. Load the
/// frame with FrameOptions::for_drawing().
drawing::Canvas draw_frame(const MarkedFrame& frame, const FrameImageOptions& options = {});
/// Several so, one below the other, with one legend: a frame with and without a fault.
drawing::Canvas draw_frames(std::span<const MarkedFrame> frames, const FrameImageOptions& options = {});
/// Frames of a scene, five a row: the bird's-eye view and the first camera of each.
drawing::Canvas draw_strip(std::span<const MarkedFrame> frames, const FrameImageOptions& options = {});

/// Every fault of the table at one severity, on one key frame: rows of three cameras for the cameras' faults,
/// bird's-eye views for the LiDAR's, the clean frame first.
drawing::Canvas draw_fault_sheet(const nuscenes::Dataset& dataset, nuscenes::Index sample,
                                 std::span<const nuscenes::Index> pool, const FrameOptions& frames, int severity,
                                 std::uint64_t seed);

}  // namespace camber::sensors
