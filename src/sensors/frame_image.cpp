#include "camber/sensors/frame_image.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <string>

#include "sensors/frame_view.h"

namespace camber::sensors {
namespace {

using drawing::Canvas;
using drawing::Rectangle;

constexpr double kPanelGap = 4;

// Degrees to the left of straight ahead at which a camera looks; nothing is known of one that delivered nothing.
double direction_of(const KeyFrame& frame, const CameraView& view) {
  const geometry::Matrix4& m = view.camera.lidar_to_image;
  const geometry::Vector3 ahead = frame.reference.sensor_to_ego.rotate({m[8], m[9], m[10]});
  return std::atan2(ahead[1], ahead[0]) * 180 / std::numbers::pi;
}

double aspect_of(const CameraView& view) {
  return static_cast<double>(view.camera.width) / static_cast<double>(view.camera.height);
}

double drawn_width(const CameraView& view, const FrameImageOptions& options) {
  const auto own = static_cast<double>(view.camera.width);
  return own * std::max(1.0, std::ceil(options.min_camera_width / own));
}

// Where everything goes, from (0, 0): rows of cameras of one width, and the bird's-eye view as high as all of them.
struct FrameLayout {
  std::vector<Rectangle> cameras{};  // in the order of the frame
  Rectangle bird_eye{};
  double width = 0, height = 0;
};

FrameLayout layout_with(const KeyFrame& frame, const FrameImageOptions& options, std::size_t row_count) {
  FrameLayout layout;
  const std::size_t count = frame.cameras.size();
  layout.cameras.resize(count);
  const std::vector<std::size_t> order = viewing_order(frame, (count + row_count - 1) / row_count);
  double wide = 0;
  std::vector<std::span<const std::size_t>> rows;
  for (std::size_t row = 0; row < row_count && count > 0; ++row) {
    const std::size_t first = row * count / row_count, last = (row + 1) * count / row_count;
    rows.push_back(std::span(order).subspan(first, last - first));
    double width = kPanelGap * static_cast<double>(rows.back().size() - 1);
    for (const std::size_t camera : rows.back()) width += drawn_width(frame.cameras[camera], options);
    wide = std::max(wide, width);
  }
  double top = 0;
  for (const auto& row : rows) {
    double aspects = 0, left = 0;
    for (const std::size_t camera : row) aspects += aspect_of(frame.cameras[camera]);
    const double height = std::round((wide - kPanelGap * static_cast<double>(row.size() - 1)) / aspects);
    for (std::size_t i = 0; i < row.size(); ++i) {
      const double right = i + 1 == row.size() ? wide : left + std::round(height * aspect_of(frame.cameras[row[i]]));
      layout.cameras[row[i]] = {left, top, right, top + height};
      left = right + kPanelGap;
    }
    top += height + kPanelGap;
  }
  constexpr double kSideWithoutCameras = 900;
  layout.height = order.empty() ? kSideWithoutCameras : top - kPanelGap;
  const double left = order.empty() ? 0 : wide + kPanelGap;
  layout.bird_eye = {left, 0, left + layout.height, layout.height};
  layout.width = layout.bird_eye.right;
  return layout;
}

// As many rows as bring the whole nearest to three times as wide as high, a shape that pages and screens have room for.
FrameLayout layout_of(const KeyFrame& frame, const FrameImageOptions& options) {
  const std::size_t count = std::max<std::size_t>(1, frame.cameras.size());
  FrameLayout best;
  double least = 0;
  for (std::size_t rows = 1; rows <= count; ++rows) {
    FrameLayout layout = layout_with(frame, options, rows);
    const double distance = std::abs(std::log(layout.width / layout.height / 3));
    if (rows > 1 && distance >= least) continue;
    least = distance;
    best = std::move(layout);
  }
  return best;
}

Rectangle moved(const Rectangle& panel, double left, double top) {
  return {panel.left + left, panel.top + top, panel.right + left, panel.bottom + top};
}

void draw_title(Canvas& canvas, double left, double top, double width, const std::string& words, const Pen& pen) {
  canvas.fill_rectangle({left, top}, width, pen.strip(), kNight);
  canvas.text({left + 6 * pen.unit, top + 3 * pen.text()}, words, drawing::kWhite, pen.text());
}

void check_marked(std::span<const MarkedFrame> frames) {
  if (frames.empty()) throw std::invalid_argument("[draw_frames] frames must not be empty");
  for (const MarkedFrame& frame : frames)
    if (frame.frame == nullptr) throw std::invalid_argument("[draw_frames] every frame must be given");
}

}  // namespace

std::vector<std::size_t> viewing_order(const KeyFrame& frame, std::size_t columns) {
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t i = 0; i < frame.cameras.size(); ++i) {
    const double left = direction_of(frame, frame.cameras[i]), side = std::abs(left);
    const bool in_the_middle = side < 20 || side > 160;
    double rank = side <= 90 ? -left : 1000 + (left < 0 ? left + 360 : left);
    if (columns < 3) rank = in_the_middle ? side : 1000 + 2 * std::floor((side + 7) / 15) + (left > 0 ? 0 : 1);
    order.emplace_back(rank, i);
  }
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::size_t> cameras;
  cameras.reserve(order.size());
  for (const auto& [rank, camera] : order) cameras.push_back(camera);
  return cameras;
}

std::vector<BoxMark> true_boxes(const KeyFrame& frame) {
  std::vector<BoxMark> marks;
  marks.reserve(frame.objects.size());
  for (const FrameObject& object : frame.objects)
    marks.push_back({.box = object.box, .category = std::string(object.category)});
  return marks;
}

Canvas draw_frame(const MarkedFrame& frame, const FrameImageOptions& options) {
  return draw_frames({&frame, 1}, options);
}

Canvas draw_frames(std::span<const MarkedFrame> frames, const FrameImageOptions& options) {
  check_marked(frames);
  std::vector<FrameLayout> layouts;
  double width = 0, height = 0;
  for (const MarkedFrame& frame : frames) {
    layouts.push_back(layout_of(frame.frame->frame, options));
    width = std::max(width, layouts.back().width);
  }
  const Pen pen = Pen::for_width(width);
  for (std::size_t i = 0; i < frames.size(); ++i)
    height += layouts[i].height + (frames[i].title.empty() ? 0 : pen.strip()) + (i == 0 ? 0 : kPanelGap);
  const double legend = 1.4 * pen.strip();
  Canvas canvas(static_cast<int>(width), static_cast<int>(std::ceil(height + legend)), kNight);
  double top = 0;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const KeyFrame& frame = frames[i].frame->frame;
    if (!frames[i].title.empty()) {
      draw_title(canvas, 0, top, width, frames[i].title, pen);
      top += pen.strip();
    }
    top = std::round(top);
    for (std::size_t camera = 0; camera < frame.cameras.size(); ++camera)
      draw_camera(canvas, moved(layouts[i].cameras[camera], 0, top), frame, camera, frames[i].marks, options, pen);
    draw_bird_eye(canvas, moved(layouts[i].bird_eye, 0, top), frame, frames[i].marks, options, pen);
    top += layouts[i].height + kPanelGap;
  }
  draw_legend(canvas, {0, canvas.height() - legend, width, static_cast<double>(canvas.height())}, frames, options, pen);
  return canvas;
}

Canvas draw_strip(std::span<const MarkedFrame> frames, const FrameImageOptions& options) {
  check_marked(frames);
  constexpr std::size_t kColumns = 5;
  constexpr double kSide = 480;
  const Pen pen{.unit = 1};
  double camera = 0;
  for (const MarkedFrame& frame : frames)
    if (!frame.frame->frame.cameras.empty())
      camera = std::max(camera, kPanelGap + std::round(kSide / aspect_of(frame.frame->frame.cameras[0])));
  const std::size_t columns = std::min(kColumns, frames.size()), rows = (frames.size() + columns - 1) / columns;
  const double cell = pen.strip() + kSide + camera + kPanelGap, legend = 1.4 * pen.strip();
  const double width = static_cast<double>(columns) * (kSide + kPanelGap) - kPanelGap;
  Canvas canvas(static_cast<int>(width), static_cast<int>(static_cast<double>(rows) * cell + legend), kNight);
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const KeyFrame& frame = frames[i].frame->frame;
    const std::size_t row = i / columns;
    const double left = static_cast<double>(i % columns) * (kSide + kPanelGap);
    double top = static_cast<double>(row) * cell;
    draw_title(canvas, left, top, kSide, frames[i].title, pen);
    top = std::round(top + pen.strip());
    draw_bird_eye(canvas, {left, top, left + kSide, top + kSide}, frame, frames[i].marks, options, pen);
    if (frame.cameras.empty()) continue;
    const double below = top + kSide + kPanelGap, height = std::round(kSide / aspect_of(frame.cameras[0]));
    draw_camera(canvas, {left, below, left + kSide, below + height}, frame, 0, frames[i].marks, options, pen);
  }
  draw_legend(canvas, {0, canvas.height() - legend, width, static_cast<double>(canvas.height())}, frames, options, pen);
  return canvas;
}

Canvas draw_fault_sheet(const nuscenes::Dataset& dataset, nuscenes::Index sample, std::span<const nuscenes::Index> pool,
                        const FrameOptions& frames, int severity, std::uint64_t seed) {
  if (severity < 1 || severity > kSeverities)
    throw std::invalid_argument("[draw_fault_sheet] severity must be 1 to " + std::to_string(kSeverities) + ", got " +
                                std::to_string(severity));
  constexpr double kWidth = 400;
  constexpr std::size_t kCameras = 3, kColumns = 4;
  const auto load = [&](std::span<const Fault> faults) {
    return load_sensor_frame(dataset, sample, frames, faults, pool, random::Stream(seed, "faults"));
  };
  std::vector<SensorFrame> cameras, clouds;
  cameras.push_back(load({}));
  clouds.push_back(load({}));
  for (const FaultRow& row : fault_table()) {
    const Fault fault{.kind = row.kind, .severity = severity};
    (fault.is_lidar() ? clouds : cameras).push_back(load({&fault, 1}));
  }
  const auto name = [](const SensorFrame& d) { return d.faults.empty() ? std::string("clean") : d.faults[0].text(); };
  const std::size_t shown = std::min(kCameras, cameras[0].frame.cameras.size());
  const double height = shown == 0 ? 0 : std::round(kWidth / aspect_of(cameras[0].frame.cameras[0]));
  const Pen pen{.unit = 1};
  const double width = kCameras * (kWidth + kPanelGap) - kPanelGap;
  const double side = std::floor((width - (kColumns - 1) * kPanelGap) / kColumns);
  const double camera_row = shown == 0 ? 0 : height + kPanelGap + pen.strip(),
               cloud_row = side + kPanelGap + pen.strip();
  const std::size_t cloud_rows = (clouds.size() + kColumns - 1) / kColumns;
  const double clouds_top = static_cast<double>(cameras.size()) * camera_row;
  Canvas canvas(static_cast<int>(width), static_cast<int>(clouds_top + static_cast<double>(cloud_rows) * cloud_row),
                kNight);
  const std::vector<BoxMark> marks = true_boxes(cameras[0].frame);
  for (std::size_t row = 0; row < cameras.size() && shown > 0; ++row) {
    const double top = static_cast<double>(row) * camera_row;
    draw_title(canvas, 0, top, width, name(cameras[row]), pen);
    for (std::size_t i = 0; i < shown; ++i) {
      const double left = static_cast<double>(i) * (kWidth + kPanelGap), below = std::round(top + pen.strip());
      draw_camera(canvas, {left, below, left + kWidth, below + height}, cameras[row].frame, i, marks, {}, pen);
    }
  }
  for (std::size_t i = 0; i < clouds.size(); ++i) {
    const std::size_t row = i / kColumns;
    const double left = static_cast<double>(i % kColumns) * (side + kPanelGap);
    const double top = clouds_top + static_cast<double>(row) * cloud_row;
    draw_title(canvas, left, top, side, name(clouds[i]), pen);
    const double below = std::round(top + pen.strip());
    draw_bird_eye(canvas, {left, below, left + side, below + side}, clouds[i].frame, marks, {}, pen);
  }
  return canvas;
}

}  // namespace camber::sensors
