#pragma once
#include <span>
#include <string_view>

#include "camber/drawing/label_layout.h"
#include "camber/sensors/frame_image.h"

/// One view of a frame on a canvas: a camera, or the points from above.
namespace camber::sensors {

constexpr drawing::Colour kNight{16, 18, 22};

/// Sizes of lines and letters, in pixels for a canvas of this width: what is shown smaller on a screen is drawn larger.
struct Pen {
  double unit = 1;
  double text() const { return 1.25 * unit; }
  double strip() const { return (drawing::kTextHeight + 6) * text(); }

  static Pen for_width(double canvas_width);
};

/// One camera's image, as large as the panel, with its name, the points where they are asked for, and the boxes.
void draw_camera(drawing::Canvas& canvas, const drawing::Rectangle& panel, const KeyFrame& frame, std::size_t camera,
                 std::span<const BoxMark> marks, const FrameImageOptions& options, const Pen& pen);

/// The points from above, forward upwards, coloured by height, and the boxes with a line to each front.
void draw_bird_eye(drawing::Canvas& canvas, const drawing::Rectangle& panel, const KeyFrame& frame,
                   std::span<const BoxMark> marks, const FrameImageOptions& options, const Pen& pen);

/// White words on a dark strip in the panel's upper left corner, and what the strip covers.
void draw_name(drawing::Canvas& canvas, const drawing::Rectangle& panel, std::string_view words, const Pen& pen);
drawing::Rectangle name_strip(const drawing::Rectangle& panel, std::string_view words, const Pen& pen);

/// What the colours, lines and gauges mean, for the categories that the frames have.
void draw_legend(drawing::Canvas& canvas, const drawing::Rectangle& panel, std::span<const MarkedFrame> frames,
                 const FrameImageOptions& options, const Pen& pen);

/// Two bars, LiDAR above cameras: full for trust 1, empty for -1.
void draw_gauge(drawing::Canvas& canvas, const drawing::Rectangle& panel, std::span<const double> trust);

/// Near is yellow, far is blue.
drawing::Colour depth_colour(double share);

}  // namespace camber::sensors
