#pragma once
#include <cstdint>
#include <span>

#include "camber/data/delivery.h"
#include "camber/drawing/canvas.h"

namespace camber::data {

struct FramePictureOptions {
  double range = 26;                ///< metres from the middle of the bird's-eye view to its edge
  int bird_eye_pixels = 432;        ///< side of the bird's-eye view
  int picture_width = 360;          ///< of each camera
  int columns = 3;                  ///< cameras side by side
  bool boxes = true;                ///< true objects, one colour a class
  bool points_in_pictures = false;  ///< LiDAR returns above the ground as dots on the cameras
};

/// The colour of a category's boxes.
drawing::Colour category_colour(std::string_view category);

/// The points from above, forward upwards, with the true boxes and a tick at each front.
void draw_bird_eye(drawing::Canvas& canvas, int left, int top, int side, const Frame& frame,
                   const FramePictureOptions& options = {});
/// One camera's picture, enlarged, with the true boxes that it sees.
void draw_camera(drawing::Canvas& canvas, int left, int top, int width, const Frame& frame, std::size_t camera,
                 const FramePictureOptions& options = {});

/// The whole frame: every camera in the order of the rig, left to right and down, and the bird's-eye view beside them.
drawing::Canvas draw_frame(const Delivery& delivery, const FramePictureOptions& options = {});

/// Every fault of the table at one severity, on one key frame: rows of three cameras for the cameras' faults,
/// bird's-eye views for the LiDAR's, the clean frame first.
drawing::Canvas draw_fault_sheet(const Dataset& dataset, Index sample, std::span<const Index> pool,
                                 const FrameOptions& frames, int severity, std::uint64_t seed);

}  // namespace camber::data
