#include "camber/sensors/frame_image.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <string>

namespace camber::sensors {
namespace {

using drawing::Canvas;
using drawing::Colour;
using drawing::Position;

constexpr Colour kNight{16, 18, 22}, kPale{225, 225, 225};
// Corners of Box::corners(): the front face, then the back face.
constexpr std::array<std::array<std::size_t, 2>, 12> kEdges = {
    {{0, 1}, {1, 2}, {2, 3}, {3, 0}, {4, 5}, {5, 6}, {6, 7}, {7, 4}, {0, 4}, {1, 5}, {2, 6}, {3, 7}}};

// Nearest pixels: small images are looked at pixel by pixel.
void paste_enlarged(Canvas& canvas, int left, int top, int width, const Image& image) {
  const double scale = static_cast<double>(width) / static_cast<double>(image.width);
  const int height = static_cast<int>(std::lround(scale * static_cast<double>(image.height)));
  std::vector<std::uint8_t> enlarged(static_cast<std::size_t>(3 * width * height));
  for (int y = 0; y < height; ++y) {
    const auto row = std::min(image.height - 1, static_cast<std::int64_t>(y / scale));
    for (int x = 0; x < width; ++x) {
      const auto column = std::min(image.width - 1, static_cast<std::int64_t>(x / scale));
      std::copy_n(image.row(row) + 3 * column, 3, enlarged.begin() + 3 * (std::ptrdiff_t{y} * width + x));
    }
  }
  canvas.image(left, top, enlarged, width, height);
}

struct Placement {
  int left, top;
  double scale;
  Position at(const geometry::Projection& p) const { return {left + scale * p.u, top + scale * p.v}; }
};

void draw_points(Canvas& canvas, const Placement& placement, const KeyFrame& frame, const geometry::Camera& camera) {
  for (const LidarPoint& p : frame.points) {
    const geometry::Vector3 ego = frame.reference.sensor_to_ego.apply({p.x, p.y, p.z});
    const geometry::Projection seen = camera.project({p.x, p.y, p.z});
    if (ego[2] < 0.15 || p.time_lag > kKeySweepLag || !camera.sees(seen)) continue;
    const Position at = placement.at(seen);
    canvas.fill_circle(at, 1.2, {255, 0, 255});
  }
}

// Forward upwards, whatever the sensor's own axes are.
class ViewFromAbove {
 public:
  ViewFromAbove(int left, int top, int side, const KeyFrame& frame, double range)
      : middle_{left + side / 2.0, top + side / 2.0}, scale_(side / (2 * range)), range_(range), frame_(frame) {}
  geometry::Vector3 ego(const geometry::Vector3& p) const { return frame_.reference.sensor_to_ego.apply(p); }
  Position at_ego(const geometry::Vector3& p) const { return {middle_.x - scale_ * p[1], middle_.y - scale_ * p[0]}; }
  Position at(const geometry::Vector3& p) const { return at_ego(ego(p)); }
  bool holds(const geometry::Vector3& ego) const { return std::abs(ego[0]) < range_ && std::abs(ego[1]) < range_; }

 private:
  Position middle_;
  double scale_, range_;
  const KeyFrame& frame_;
};

Position highest(std::span<const Position> corners) {
  return *std::min_element(
      corners.begin(), corners.end(), [](const Position& a, const Position& b) { return a.y < b.y; });
}

}  // namespace

Colour category_colour(std::string_view category) {
  if (category.find("pedestrian") != std::string_view::npos) return drawing::series_colour(5);
  if (category.find("cone") != std::string_view::npos) return drawing::series_colour(2);
  if (category.find("truck") != std::string_view::npos) return drawing::series_colour(1);
  if (category.find("car") != std::string_view::npos) return drawing::series_colour(4);
  return drawing::series_colour(3);
}

void draw_label(Canvas& canvas, int left, int top, const std::string& words) {
  canvas.fill_rectangle({static_cast<double>(left), static_cast<double>(top)}, drawing::text_width(words) + 6.0, 12,
                        drawing::kBlack, 0.6);
  canvas.text({left + 3.0, top + 3.0}, words, drawing::kWhite);
}

int camera_height(const geometry::Camera& camera, int width) {
  return static_cast<int>(std::lround(static_cast<double>(width * camera.height) / static_cast<double>(camera.width)));
}

std::optional<Position> draw_box_from_above(Canvas& canvas, int left, int top, int side, const KeyFrame& frame,
                                            const geometry::Box& box, const drawing::Stroke& stroke,
                                            const FrameImageOptions& options) {
  const ViewFromAbove view(left, top, side, frame, options.range);
  if (!view.holds(view.ego(box.center))) return std::nullopt;
  const auto corners = box.corners();
  const Position outline[] = {view.at(corners[2]), view.at(corners[3]), view.at(corners[7]), view.at(corners[6])};
  canvas.polygon(outline, stroke);
  const Position front{(outline[0].x + outline[1].x) / 2, (outline[0].y + outline[1].y) / 2};
  canvas.line(view.at(box.center), front, stroke);
  return highest(outline);
}

std::optional<Position> draw_box_in_camera(Canvas& canvas, int left, int top, int width, const geometry::Camera& camera,
                                           const geometry::Box& box, const drawing::Stroke& stroke) {
  std::array<geometry::Projection, 8> corners{};
  const auto world = box.corners();
  bool before = true, inside = false;
  for (std::size_t i = 0; i < 8; ++i) {
    corners[i] = camera.project(world[i]);
    before = before && corners[i].depth > 0.3;
    inside = inside || camera.sees(corners[i]);
  }
  if (!before || !inside) return std::nullopt;
  const Placement placement{left, top, static_cast<double>(width) / static_cast<double>(camera.width)};
  std::array<Position, 8> drawn{};
  for (std::size_t i = 0; i < 8; ++i) {
    corners[i].u = std::clamp(corners[i].u, 0.0, static_cast<double>(camera.width));
    corners[i].v = std::clamp(corners[i].v, 0.0, static_cast<double>(camera.height));
    drawn[i] = placement.at(corners[i]);
  }
  for (const auto& [from, to] : kEdges) canvas.line(drawn[from], drawn[to], stroke);
  return highest(drawn);
}

void draw_bird_eye(Canvas& canvas, int left, int top, int side, const KeyFrame& frame,
                   const FrameImageOptions& options) {
  canvas.fill_rectangle({static_cast<double>(left), static_cast<double>(top)}, side, side, kNight);
  const ViewFromAbove view(left, top, side, frame, options.range);
  for (const LidarPoint& p : frame.points) {
    const geometry::Vector3 ego = view.ego({p.x, p.y, p.z});
    if (!view.holds(ego)) continue;
    const Position at = view.at_ego(ego);
    const auto bright = static_cast<std::uint8_t>(std::clamp(130 + 60 * ego[2], 60.0, 255.0));
    const Colour colour = ego[2] < 0.15 ? Colour{78, 82, 70} : Colour{bright, bright, bright};
    canvas.set_pixel(static_cast<int>(at.x), static_cast<int>(at.y), colour);
  }
  if (options.boxes)
    for (const FrameObject& object : frame.objects)
      draw_box_from_above(canvas, left, top, side, frame, object.box,
                          {.colour = category_colour(object.category), .width = 1.2}, options);
  canvas.fill_rectangle({left + side / 2.0 - 2, top + side / 2.0 - 4}, 4, 8, kPale);
}

void draw_camera(Canvas& canvas, int left, int top, int width, const KeyFrame& frame, std::size_t index,
                 const FrameImageOptions& options) {
  const CameraView& view = frame.cameras[index];
  const double scale = static_cast<double>(width) / static_cast<double>(view.camera.width);
  const int height = camera_height(view.camera, width);
  if (view.image.pixels.empty()) {
    canvas.fill_rectangle({static_cast<double>(left), static_cast<double>(top)}, width, height, {60, 60, 60});
    draw_label(canvas, left + width / 2 - 20, top + height / 2 - 6, "off");
    return;
  }
  paste_enlarged(canvas, left, top, width, view.image);
  const Placement placement{left, top, scale};
  if (options.points_in_images) draw_points(canvas, placement, frame, view.camera);
  if (options.boxes)
    for (const FrameObject& object : frame.objects)
      draw_box_in_camera(canvas, left, top, width, view.camera, object.box,
                         {.colour = category_colour(object.category), .width = 1.2});
}

Canvas draw_frame(const SensorFrame& sensor_frame, const FrameImageOptions& options) {
  const KeyFrame& frame = sensor_frame.frame;
  const auto cameras = static_cast<int>(frame.cameras.size());
  const int columns = std::max(1, std::min(options.columns, cameras)), rows = (cameras + columns - 1) / columns;
  int height = 0;
  for (const CameraView& view : frame.cameras)
    height = std::max(height, camera_height(view.camera, options.image_width));
  const int side = options.bird_eye_pixels, left = cameras == 0 ? 0 : columns * (options.image_width + 2);
  Canvas canvas(left + side, std::max(side, rows * (height + 2)), kNight);
  for (int i = 0; i < cameras; ++i) {
    const int x = i % columns * (options.image_width + 2), y = i / columns * (height + 2);
    draw_camera(canvas, x, y, options.image_width, frame, static_cast<std::size_t>(i), options);
    draw_label(canvas, x, y, frame.cameras[static_cast<std::size_t>(i)].camera.name);
  }
  draw_bird_eye(canvas, left, 0, side, frame, options);
  return canvas;
}

Canvas draw_fault_sheet(const nuscenes::Dataset& dataset, nuscenes::Index sample, std::span<const nuscenes::Index> pool,
                        const FrameOptions& frames, int severity, std::uint64_t seed) {
  if (severity < 1 || severity > kSeverities)
    throw std::invalid_argument("[draw_fault_sheet] severity must be 1 to " + std::to_string(kSeverities) + ", got " +
                                std::to_string(severity));
  constexpr int kWidth = 240, kCameras = 3, kSide = 178, kColumns = 4;
  std::vector<SensorFrame> cameras, clouds;
  const Fault nothing{};
  const auto load = [&](const Fault* fault) {
    return load_sensor_frame(dataset, sample, frames, {fault == nullptr ? &nothing : fault, fault == nullptr ? 0U : 1U},
                             pool, random::Stream(seed, "faults"));
  };
  cameras.push_back(load(nullptr));
  clouds.push_back(load(nullptr));
  for (const FaultRow& row : fault_table()) {
    const Fault fault{.kind = row.kind, .severity = severity};
    (fault.is_lidar() ? clouds : cameras).push_back(load(&fault));
  }
  const auto name = [](const SensorFrame& d) { return d.faults.empty() ? std::string("clean") : d.faults[0].text(); };
  const auto shown = std::min<std::size_t>(kCameras, cameras[0].frame.cameras.size());
  const double shape =
      shown == 0 ? 0 : 1 / (static_cast<double>(frames.image_width) / static_cast<double>(frames.image_height));
  const int height = static_cast<int>(kWidth * shape);
  const int camera_rows = static_cast<int>(cameras.size()),
            cloud_rows = (static_cast<int>(clouds.size()) + kColumns - 1) / kColumns;
  Canvas canvas(kCameras * (kWidth + 2), camera_rows * (height + 2) + cloud_rows * (kSide + 2), kNight);
  for (int row = 0; row < camera_rows; ++row) {
    const SensorFrame& sensor_frame = cameras[static_cast<std::size_t>(row)];
    for (std::size_t i = 0; i < shown; ++i)
      draw_camera(canvas, static_cast<int>(i) * (kWidth + 2), row * (height + 2), kWidth, sensor_frame.frame, i);
    draw_label(canvas, 0, row * (height + 2), name(sensor_frame));
  }
  for (std::size_t i = 0; i < clouds.size(); ++i) {
    const int x = static_cast<int>(i) % kColumns * (kSide + 3);
    const int y = camera_rows * (height + 2) + static_cast<int>(i) / kColumns * (kSide + 2);
    draw_bird_eye(canvas, x, y, kSide, clouds[i].frame);
    draw_label(canvas, x, y, name(clouds[i]));
  }
  return canvas;
}

}  // namespace camber::sensors
