#include "sensors/frame_view.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

namespace camber::sensors {
namespace {

using drawing::Canvas;
using drawing::Colour;
using drawing::Position;
using drawing::Rectangle;

// Corners of Box::corners(): the front face, then the back face.
constexpr std::array<std::array<std::size_t, 2>, 12> kEdges = {
    {{0, 1}, {1, 2}, {2, 3}, {3, 0}, {4, 5}, {5, 6}, {6, 7}, {7, 4}, {0, 4}, {1, 5}, {2, 6}, {3, 7}}};
constexpr double kGroundHeight = 0.15;  // metres in the ego frame; returns below are the ground's
constexpr double kFarDepth = 50;        // metres; the end of the colours of depth

double width_of(const Rectangle& panel) {
  return panel.right - panel.left;
}

double height_of(const Rectangle& panel) {
  return panel.bottom - panel.top;
}

Colour mixed(Colour from, Colour to, double share) {
  const auto mix = [share](std::uint8_t a, std::uint8_t b) {
    return static_cast<std::uint8_t>(std::lround(a + (b - a) * share));
  };
  return {mix(from.red, to.red), mix(from.green, to.green), mix(from.blue, to.blue)};
}

// The part of a line inside the panel, by Liang and Barsky.
bool clip(Position& from, Position& to, const Rectangle& panel) {
  double low = 0, high = 1;
  const double dx = to.x - from.x, dy = to.y - from.y;
  const std::array<std::array<double, 2>, 4> sides = {
      {{-dx, from.x - panel.left}, {dx, panel.right - from.x}, {-dy, from.y - panel.top}, {dy, panel.bottom - from.y}}};
  for (const auto& [slope, room] : sides) {
    if (slope == 0 && room < 0) return false;
    if (slope < 0) low = std::max(low, room / slope);
    if (slope > 0) high = std::min(high, room / slope);
  }
  if (!(low < high)) return false;
  const Position start = from;
  from = {start.x + low * dx, start.y + low * dy};
  to = {start.x + high * dx, start.y + high * dy};
  return true;
}

// Draws boxes of a view and gathers the bounds of each, for its label.
class BoxPainter {
 public:
  BoxPainter(Canvas& canvas, const Rectangle& panel, const Pen& pen, bool any_found)
      : canvas_(canvas), panel_(panel), pen_(pen), any_found_(any_found) {}

  void begin(const BoxMark& mark) {
    colour_ = category_colour(mark.category);
    stroke_ = {.colour = colour_, .width = (mark.found || !any_found_ ? 1.7 : 1.1) * pen_.unit};
    if (any_found_ && !mark.found) stroke_.dash = 4 * pen_.unit;
    bounds_ = {panel_.right, panel_.bottom, panel_.left, panel_.top};
  }

  void line(Position from, Position to) {
    if (!clip(from, to, panel_)) return;
    canvas_.line(from, to, {.colour = drawing::kBlack, .width = stroke_.width + 1.6 * pen_.unit, .opacity = 0.45});
    segments_.push_back({from, to});
    for (const Position& end : {from, to}) {
      bounds_.left = std::min(bounds_.left, end.x);
      bounds_.top = std::min(bounds_.top, end.y);
      bounds_.right = std::max(bounds_.right, end.x);
      bounds_.bottom = std::max(bounds_.bottom, end.y);
    }
  }

  // The dark casing of all lines lies below all of them. The bounds of what was drawn, if anything was.
  std::optional<Rectangle> end() {
    for (const auto& [from, to] : segments_) canvas_.line(from, to, stroke_);
    const bool drawn = !segments_.empty();
    segments_.clear();
    if (!drawn) return std::nullopt;
    return bounds_;
  }

 private:
  Canvas& canvas_;
  const Rectangle& panel_;
  const Pen& pen_;
  bool any_found_;
  Colour colour_{};
  drawing::Stroke stroke_{};
  Rectangle bounds_{};
  std::vector<std::array<Position, 2>> segments_;
};

void draw_mark_label(Canvas& canvas, const Rectangle& at, const BoxMark& mark, const Pen& pen) {
  canvas.fill_rectangle({at.left, at.top}, width_of(at), height_of(at), drawing::kBlack, 0.68);
  canvas.fill_rectangle({at.left, at.top}, 2.5 * pen.unit, height_of(at), category_colour(mark.category));
  const double text_top = at.top + (height_of(at) - drawing::kTextHeight * pen.text()) / 2;
  canvas.text({at.left + 5 * pen.unit, text_top}, mark.words, drawing::kWhite, pen.text());
  if (mark.trust.size() < 2) return;
  draw_gauge(canvas,
             {at.right - 18 * pen.unit, at.top + 2.5 * pen.unit, at.right - 3 * pen.unit, at.bottom - 2.5 * pen.unit},
             mark.trust);
}

// Labels of found boxes in the order of the marks, which is that of their scores.
void draw_labels(Canvas& canvas, const std::vector<std::pair<const BoxMark*, Rectangle>>& drawn,
                 drawing::LabelLayout& layout, const Pen& pen) {
  for (const auto& [mark, bounds] : drawn) {
    if (mark->words.empty()) continue;
    const double gauge = mark->trust.size() < 2 ? 0 : 19 * pen.unit;
    const double width = drawing::text_width(mark->words, pen.text()) + 9 * pen.unit + gauge;
    const double height = (drawing::kTextHeight + 4) * pen.text();
    if (const auto at = layout.place(bounds, width, height)) draw_mark_label(canvas, *at, *mark, pen);
  }
}

// What a view of any kind does with its boxes: `draw` says where a box's lines run; labels keep off `words`.
template <class Draw>
void draw_marks(Canvas& canvas, const Rectangle& panel, std::span<const BoxMark> marks,
                std::span<const Rectangle> words, const Pen& pen, const Draw& draw) {
  const bool any_found = std::any_of(marks.begin(), marks.end(), [](const BoxMark& mark) { return mark.found; });
  BoxPainter painter(canvas, panel, pen, any_found);
  std::vector<std::pair<const BoxMark*, Rectangle>> drawn;
  for (const bool found : {true, false})  // true ones last: a dashed line on a found box stays visible
    for (const BoxMark& mark : marks) {
      if (mark.found != found) continue;
      painter.begin(mark);
      draw(painter, mark.box);
      if (const auto bounds = painter.end()) drawn.emplace_back(&mark, *bounds);
    }
  drawing::LabelLayout layout(panel);
  for (const Rectangle& taken : words) layout.avoid(taken);
  draw_labels(canvas, drawn, layout, pen);
}

void paste_scaled(Canvas& canvas, const Rectangle& panel, const Image& image) {
  const auto width = static_cast<std::int64_t>(std::lround(width_of(panel)));
  const auto height = static_cast<std::int64_t>(std::lround(height_of(panel)));
  geometry::ImageTransform transform{
      .resize = static_cast<double>(width) / static_cast<double>(image.width), .width = width, .height = height};
  // Rounding may leave the last row without a pixel of its own: a hair more.
  if (static_cast<double>(image.height) * transform.resize < static_cast<double>(height))
    transform.resize = static_cast<double>(height) / static_cast<double>(image.height);
  const Image scaled = transform_image(image.view(), {image.width, image.height}, transform);
  canvas.image(static_cast<int>(panel.left), static_cast<int>(panel.top), scaled.pixels, static_cast<int>(width),
               static_cast<int>(height));
}

void draw_points(Canvas& canvas, const Rectangle& panel, const KeyFrame& frame, const geometry::Camera& camera,
                 const Pen& pen) {
  const double scale = width_of(panel) / static_cast<double>(camera.width);
  for (const LidarPoint& p : frame.points) {
    const geometry::Projection seen = camera.project({p.x, p.y, p.z});
    if (p.time_lag > kKeySweepLag || !camera.sees(seen)) continue;
    if (frame.reference.sensor_to_ego.apply({p.x, p.y, p.z})[2] < kGroundHeight) continue;
    canvas.fill_circle({panel.left + scale * seen.u, panel.top + scale * seen.v}, 1.1 * pen.unit,
                       depth_colour(seen.depth / kFarDepth), 0.75);
  }
}

// Edges are cut where they pass behind the camera, so that a box beside the car is drawn as far as it is seen.
void draw_box_edges(BoxPainter& painter, const Rectangle& panel, const geometry::Camera& camera,
                    const geometry::Box& box) {
  constexpr double kNear = 0.2;
  const double scale = width_of(panel) / static_cast<double>(camera.width);
  const auto corners = box.corners();
  for (const auto& [first, second] : kEdges) {
    geometry::Vector3 from = corners[first], to = corners[second];
    const double depth_from = camera.project(from).depth, depth_to = camera.project(to).depth;
    if (depth_from < kNear && depth_to < kNear) continue;
    if (depth_from < kNear || depth_to < kNear) {
      const double share = (kNear - depth_from) / (depth_to - depth_from);
      geometry::Vector3& behind = depth_from < kNear ? from : to;
      geometry::Vector3 cut{};
      for (std::size_t axis = 0; axis < 3; ++axis)
        cut[axis] = corners[first][axis] + share * (corners[second][axis] - corners[first][axis]);
      behind = cut;
    }
    const geometry::Projection a = camera.project(from), b = camera.project(to);
    painter.line({panel.left + scale * a.u, panel.top + scale * a.v},
                 {panel.left + scale * b.u, panel.top + scale * b.v});
  }
}

// Forward upwards, whatever the sensor's own axes are.
class ViewFromAbove {
 public:
  ViewFromAbove(const Rectangle& panel, const KeyFrame& frame, double range)
      : middle_{(panel.left + panel.right) / 2, (panel.top + panel.bottom) / 2},
        scale_(std::min(width_of(panel), height_of(panel)) / (2 * range)),
        half_{width_of(panel) / 2 / scale_, height_of(panel) / 2 / scale_},
        frame_(frame) {}
  double scale() const { return scale_; }
  Position middle() const { return middle_; }
  geometry::Vector3 ego(const geometry::Vector3& p) const { return frame_.reference.sensor_to_ego.apply(p); }
  Position at_ego(const geometry::Vector3& p) const { return {middle_.x - scale_ * p[1], middle_.y - scale_ * p[0]}; }
  Position at(const geometry::Vector3& p) const { return at_ego(ego(p)); }
  bool holds(const geometry::Vector3& ego) const { return std::abs(ego[1]) < half_.x && std::abs(ego[0]) < half_.y; }

 private:
  Position middle_;
  double scale_;
  Position half_;  // metres to the left and ahead
  const KeyFrame& frame_;
};

// Circles round the car with their distances; where those stand.
std::vector<Rectangle> draw_rings(Canvas& canvas, const Rectangle& panel, const ViewFromAbove& view, double range,
                                  const Pen& pen) {
  std::vector<Rectangle> taken;
  const double step = range > 60 ? 20 : 10;
  for (double radius = step; radius < range; radius += step) {
    canvas.circle(view.middle(), radius * view.scale(),
                  {.colour = {70, 78, 88}, .width = 0.8 * pen.unit, .opacity = 0.8});
    const std::string words = std::to_string(static_cast<int>(radius)) + " m";
    const Position at{view.middle().x + 3 * pen.unit, view.middle().y - radius * view.scale() + 3 * pen.unit};
    if (at.y <= panel.top) continue;
    const double size = 0.85 * pen.text();
    canvas.text(at, words, {120, 130, 142}, size);
    taken.push_back({at.x, at.y, at.x + drawing::text_width(words, size), at.y + drawing::kTextHeight * size});
  }
  return taken;
}

void draw_ego(Canvas& canvas, const ViewFromAbove& view) {
  // A car of ordinary size about the middle of the ego frame, which is its rear axle.
  const std::array<Position, 5> outline = {view.at_ego({3.6, 0, 0}), view.at_ego({2.9, -0.9, 0}),
                                           view.at_ego({-0.9, -0.9, 0}), view.at_ego({-0.9, 0.9, 0}),
                                           view.at_ego({2.9, 0.9, 0})};
  canvas.fill_polygon(outline, {225, 228, 232}, 0.9);
}

}  // namespace

Pen Pen::for_width(double canvas_width) {
  return {.unit = std::clamp(canvas_width / 1700, 0.8, 3.0)};
}

Colour depth_colour(double share) {
  constexpr std::array<Colour, 5> kStops = {
      {{255, 235, 80}, {120, 210, 90}, {40, 170, 150}, {70, 130, 215}, {110, 90, 210}}};
  const double at = std::clamp(share, 0.0, 1.0) * (kStops.size() - 1);
  const auto index = std::min(static_cast<std::size_t>(at), kStops.size() - 2);
  return mixed(kStops[index], kStops[index + 1], at - static_cast<double>(index));
}

void draw_gauge(Canvas& canvas, const Rectangle& panel, std::span<const double> trust) {
  const std::array<double, 2> parts = {trust[0], *std::max_element(trust.begin() + 1, trust.end())};
  const double bar = height_of(panel) * 0.42, gap = height_of(panel) - 2 * bar;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const double top = panel.top + static_cast<double>(i) * (bar + gap);
    canvas.fill_rectangle({panel.left, top}, width_of(panel), bar, {110, 112, 116});
    const double share = std::clamp((parts[i] + 1) / 2, 0.0, 1.0);
    canvas.fill_rectangle({panel.left, top}, width_of(panel) * share, bar, drawing::kWhite);
  }
}

Rectangle name_strip(const Rectangle& panel, std::string_view words, const Pen& pen) {
  return {panel.left, panel.top, panel.left + drawing::text_width(words, pen.text()) + 8 * pen.unit,
          panel.top + (drawing::kTextHeight + 5) * pen.text()};
}

void draw_name(Canvas& canvas, const Rectangle& panel, std::string_view words, const Pen& pen) {
  const Rectangle strip = name_strip(panel, words, pen);
  canvas.fill_rectangle({strip.left, strip.top}, width_of(strip), height_of(strip), drawing::kBlack, 0.6);
  canvas.text({strip.left + 4 * pen.unit, strip.top + 2.5 * pen.text()}, words, drawing::kWhite, pen.text());
}

void draw_camera(Canvas& canvas, const Rectangle& panel, const KeyFrame& frame, std::size_t index,
                 std::span<const BoxMark> marks, const FrameImageOptions& options, const Pen& pen) {
  const CameraView& view = frame.cameras[index];
  if (view.image.pixels.empty()) {
    canvas.fill_rectangle({panel.left, panel.top}, width_of(panel), height_of(panel), {44, 47, 52});
    draw_name(canvas, panel, view.camera.name + ": off", pen);
    return;
  }
  paste_scaled(canvas, panel, view.image);
  if (options.points_in_images) draw_points(canvas, panel, frame, view.camera, pen);
  const Rectangle name = name_strip(panel, view.camera.name, pen);
  draw_marks(canvas, panel, marks, std::span(&name, 1), pen,
             [&](BoxPainter& painter, const geometry::Box& box) { draw_box_edges(painter, panel, view.camera, box); });
  draw_name(canvas, panel, view.camera.name, pen);  // over the boxes, whose lines would cross it out
}

void draw_bird_eye(Canvas& canvas, const Rectangle& panel, const KeyFrame& frame, std::span<const BoxMark> marks,
                   const FrameImageOptions& options, const Pen& pen) {
  canvas.fill_rectangle({panel.left, panel.top}, width_of(panel), height_of(panel), kNight);
  const ViewFromAbove view(panel, frame, options.range);
  const std::vector<Rectangle> distances = draw_rings(canvas, panel, view, options.range, pen);
  for (const LidarPoint& p : frame.points) {
    const geometry::Vector3 ego = view.ego({p.x, p.y, p.z});
    if (!view.holds(ego)) continue;
    const Position at = view.at_ego(ego);
    constexpr Colour kGround{66, 74, 84}, kLow{86, 112, 140}, kHigh{228, 236, 244};
    const bool ground = ego[2] < kGroundHeight;
    const Colour colour = ground ? kGround : mixed(kLow, kHigh, std::clamp(ego[2] / 3, 0.0, 1.0));
    canvas.fill_circle(at, std::max(0.5, 0.55 * pen.unit), colour, ground ? 0.7 : 0.9);
  }
  draw_ego(canvas, view);
  draw_marks(canvas, panel, marks, distances, pen, [&](BoxPainter& painter, const geometry::Box& box) {
    if (!view.holds(view.ego(box.center))) return;
    const auto corners = box.corners();
    const Position outline[] = {view.at(corners[2]), view.at(corners[3]), view.at(corners[7]), view.at(corners[6])};
    for (std::size_t i = 0; i < 4; ++i) painter.line(outline[i], outline[(i + 1) % 4]);
    const Position front{(outline[0].x + outline[1].x) / 2, (outline[0].y + outline[1].y) / 2};
    painter.line(view.at(box.center), front);
  });
}

}  // namespace camber::sensors
