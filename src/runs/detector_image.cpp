#include <algorithm>
#include <cmath>
#include <cstdio>

#include <camber/runs/detector_image.h>

namespace camber::runs {
namespace {

using drawing::Canvas;
using drawing::Colour;
using drawing::Position;

constexpr int kGap = 2, kLegend = 16;
constexpr Colour kNight{16, 18, 22};

struct Shade {
  double red, green, blue;
};
constexpr Shade kLidar{255, 150, 30}, kBoth{255, 255, 255}, kCamera{60, 150, 255};

std::string caption(const detection::Detection& found, const detection::DetectorOptions& options) {
  char text[96];
  std::snprintf(text, sizeof text, "%s %.2f", options.classes[static_cast<std::size_t>(found.label)].c_str(),
                found.score);
  std::string words = text;
  if (found.trust.size() >= 2) {
    const double cameras = *std::max_element(found.trust.begin() + 1, found.trust.end());
    std::snprintf(text, sizeof text, " L%+.1f C%+.1f", found.trust[0], cameras);
    words += text;
  }
  return words;
}

void draw_legend(Canvas& canvas, int top) {
  const std::pair<const char*, std::vector<double>> entries[] = {
      {"LiDAR trusted", {1, -1}}, {"both alike", {1, 1}}, {"cameras trusted", {-1, 1}}};
  double left = 6;
  for (const auto& [words, trust] : entries) {
    canvas.fill_rectangle({left, top + 4.0}, 14, 7, trust_colour(trust));
    canvas.text({left + 18, top + 4.0}, words, drawing::kWhite);
    left += 30 + drawing::text_width(words);
  }
  canvas.text({left, top + 4.0}, "thick: found   thin: true", drawing::kWhite);
}

class FrameDrawer {
 public:
  FrameDrawer(Canvas& canvas, const FoundFrame& frame, const detection::DetectorOptions& options,
              const FoundImageOptions& image)
      : canvas_(canvas), frame_(frame), options_(options), image_(image) {}

  void from_above(int left, int top, int side) {
    const sensors::KeyFrame& seen = frame_.sample.sensor_frame.frame;
    sensors::draw_bird_eye(canvas_, left, top, side, seen, image_.frame);
    for_each_found([&](const detection::Detection& found, const drawing::Stroke& stroke) {
      return sensors::draw_box_from_above(canvas_, left, top, side, seen, found.box, stroke, image_.frame);
    });
  }

  void in_camera(int left, int top, int width, std::size_t index) {
    const sensors::KeyFrame& seen = frame_.sample.sensor_frame.frame;
    const sensors::CameraView& view = seen.cameras[index];
    sensors::draw_camera(canvas_, left, top, width, seen, index, image_.frame);
    sensors::draw_label(canvas_, left, top, view.camera.name);
    if (!view.image.pixels.empty()) {
      for_each_found([&](const detection::Detection& found, const drawing::Stroke& stroke) {
        return sensors::draw_box_in_camera(canvas_, left, top, width, view.camera, found.box, stroke);
      });
    }
  }

 private:
  template <class Draw>
  void for_each_found(const Draw& draw) {
    for (const detection::Detection& found : frame_.found) {
      if (found.score < image_.min_score) continue;
      const Colour colour = trust_colour(found.trust);
      if (const auto position = draw(found, drawing::Stroke{.colour = colour, .width = 2}))
        canvas_.text({position->x + 2, position->y - 9}, caption(found, options_), colour);
    }
  }

  Canvas& canvas_;
  const FoundFrame& frame_;
  const detection::DetectorOptions& options_;
  const FoundImageOptions& image_;
};

}  // namespace

Colour trust_colour(const std::vector<double>& trust) {
  if (trust.size() < 2) return drawing::kWhite;
  const double lidar = trust[0], camera = *std::max_element(trust.begin() + 1, trust.end());
  const double preference = std::clamp((lidar - camera) / 2, -1.0, 1.0);
  const double bright = 0.55 + 0.45 * std::clamp((std::max(lidar, camera) + 1) / 2, 0.0, 1.0);
  const Shade& end = preference > 0 ? kLidar : kCamera;
  const auto mix = [&](double from, double to) {
    return static_cast<std::uint8_t>(std::lround(bright * (from + std::abs(preference) * (to - from))));
  };
  return {mix(kBoth.red, end.red), mix(kBoth.green, end.green), mix(kBoth.blue, end.blue)};
}

Canvas draw_found(const FoundFrame& frame, const detection::DetectorOptions& options, const FoundImageOptions& image) {
  const auto& cameras = frame.sample.sensor_frame.frame.cameras;
  const int count = static_cast<int>(cameras.size()), wide = image.frame.image_width;
  const int columns = std::max(1, std::min(image.frame.columns, count)), rows = (count + columns - 1) / columns;
  int height = 0;
  for (const sensors::CameraView& view : cameras) height = std::max(height, sensors::camera_height(view.camera, wide));
  const int side = std::max(image.frame.bird_eye_pixels, rows * (height + kGap));
  const int left = count == 0 ? 0 : columns * (wide + kGap);
  Canvas canvas(left + side, side + kLegend, kNight);
  FrameDrawer drawer(canvas, frame, options, image);
  for (int i = 0; i < count; ++i)
    drawer.in_camera(i % columns * (wide + kGap), i / columns * (height + kGap), wide, static_cast<std::size_t>(i));
  drawer.from_above(left, 0, side);
  draw_legend(canvas, side);
  return canvas;
}

Canvas draw_strip(const std::vector<FoundFrame>& frames, const detection::DetectorOptions& options,
                  const FoundImageOptions& image) {
  const int side = image.frame.bird_eye_pixels;
  int height = 0;
  for (const FoundFrame& frame : frames)
    if (!frame.sample.sensor_frame.frame.cameras.empty())
      height = std::max(height, sensors::camera_height(frame.sample.sensor_frame.frame.cameras[0].camera, side) + kGap);
  const int count = std::max<int>(1, static_cast<int>(frames.size()));
  Canvas canvas(count * (side + kGap), side + height + kLegend, kNight);
  for (int i = 0; i < static_cast<int>(frames.size()); ++i) {
    const FoundFrame& frame = frames[static_cast<std::size_t>(i)];
    FrameDrawer drawer(canvas, frame, options, image);
    drawer.from_above(i * (side + kGap), 0, side);
    if (!frame.sample.sensor_frame.frame.cameras.empty()) drawer.in_camera(i * (side + kGap), side + kGap, side, 0);
  }
  draw_legend(canvas, side + height);
  return canvas;
}

}  // namespace camber::runs
