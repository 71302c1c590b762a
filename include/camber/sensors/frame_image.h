#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "camber/drawing/canvas.h"
#include "camber/sensors/sensor_frame.h"

namespace camber::sensors {

struct FrameImageOptions {
  double range = 26;              ///< metres from the middle of the bird's-eye view to its edge
  int bird_eye_pixels = 432;      ///< side of the bird's-eye view
  int image_width = 360;          ///< of each camera
  int columns = 3;                ///< cameras side by side
  bool boxes = true;              ///< true objects, one colour a class
  bool points_in_images = false;  ///< LiDAR returns above the ground as dots on the cameras
};

/// The colour of a category's boxes.
drawing::Colour category_colour(std::string_view category);

/// The points from above, forward upwards, with the true boxes and a tick at each front.
void draw_bird_eye(drawing::Canvas& canvas, int left, int top, int side, const KeyFrame& frame,
                   const FrameImageOptions& options = {});
/// One camera's image, enlarged, with the true boxes that it sees.
void draw_camera(drawing::Canvas& canvas, int left, int top, int width, const KeyFrame& frame, std::size_t camera,
                 const FrameImageOptions& options = {});

/// A box on a view drawn by draw_bird_eye with the same numbers; the position of its highest corner, or nothing when
/// its centre lies outside.
std::optional<drawing::Position> draw_box_from_above(drawing::Canvas& canvas, int left, int top, int side,
                                                     const KeyFrame& frame, const geometry::Box& box,
                                                     const drawing::Stroke& stroke,
                                                     const FrameImageOptions& options = {});
/// The same on a camera drawn by draw_camera; nothing when the camera does not see the whole box before it.
std::optional<drawing::Position> draw_box_in_camera(drawing::Canvas& canvas, int left, int top, int width,
                                                    const geometry::Camera& camera, const geometry::Box& box,
                                                    const drawing::Stroke& stroke);
/// White words on a dark strip.
void draw_label(drawing::Canvas& canvas, int left, int top, const std::string& words);
/// The rows that a camera takes when it is drawn so wide.
int camera_height(const geometry::Camera& camera, int width);

/// The whole frame: every camera in the order of the rig, left to right and down, and the bird's-eye view beside them.
drawing::Canvas draw_frame(const SensorFrame& sensor_frame, const FrameImageOptions& options = {});

/// Every fault of the table at one severity, on one key frame: rows of three cameras for the cameras' faults,
/// bird's-eye views for the LiDAR's, the clean frame first.
drawing::Canvas draw_fault_sheet(const nuscenes::Dataset& dataset, nuscenes::Index sample,
                                 std::span<const nuscenes::Index> pool, const FrameOptions& frames, int severity,
                                 std::uint64_t seed);

}  // namespace camber::sensors
