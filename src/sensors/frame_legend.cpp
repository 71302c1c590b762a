#include <algorithm>
#include <array>

#include "sensors/frame_view.h"

namespace camber::sensors {
namespace {

using drawing::Canvas;
using drawing::Colour;

struct ClassColour {
  std::string_view part;  // of the category's name
  std::string_view name;
  Colour colour;
};

// The first that fits counts: "vehicle.construction" before "vehicle.car", "motorcycle" before "cycle".
constexpr std::array<ClassColour, 10> kClasses = {{{"pedestrian", "pedestrian", {90, 200, 255}},
                                                   {"cone", "traffic cone", {60, 225, 130}},
                                                   {"construction", "construction vehicle", {205, 165, 100}},
                                                   {"trailer", "trailer", {190, 130, 255}},
                                                   {"truck", "truck", {255, 100, 70}},
                                                   {"bus", "bus", {255, 130, 190}},
                                                   {"barrier", "barrier", {150, 170, 220}},
                                                   {"motorcycle", "motorcycle", {40, 215, 205}},
                                                   {"bicycle", "bicycle", {170, 250, 90}},
                                                   {"car", "car", {255, 184, 28}}}};
constexpr Colour kOther{200, 200, 200};

const ClassColour* class_of(std::string_view category) {
  const auto found = std::find_if(kClasses.begin(), kClasses.end(), [&](const ClassColour& one) {
    return category.find(one.part) != std::string_view::npos;
  });
  return found == kClasses.end() ? nullptr : &*found;
}

// Entries from left to right; what has no room is left out.
class LegendWriter {
 public:
  LegendWriter(Canvas& canvas, const drawing::Rectangle& panel, const Pen& pen)
      : canvas_(canvas), panel_(panel), pen_(pen), left_(panel.left + 6 * pen.unit) {}

  double middle() const { return (panel_.top + panel_.bottom) / 2; }
  // Reserves a swatch before the words; its left end, or nothing when the entry does not fit.
  std::optional<double> entry(double swatch, std::string_view words) {
    const double gap = swatch > 0 ? 5 * pen_.unit : 0;
    const double width = swatch + gap + drawing::text_width(words, pen_.text());
    if (left_ + width > panel_.right) return std::nullopt;
    const double start = left_;
    canvas_.text({start + swatch + gap, middle() - drawing::kTextHeight * pen_.text() / 2}, words, {215, 220, 226},
                 pen_.text());
    left_ += width + 14 * pen_.unit;
    return start;
  }

 private:
  Canvas& canvas_;
  const drawing::Rectangle& panel_;
  const Pen& pen_;
  double left_;
};

}  // namespace

Colour category_colour(std::string_view category) {
  const ClassColour* known = class_of(category);
  return known == nullptr ? kOther : known->colour;
}

void draw_legend(Canvas& canvas, const drawing::Rectangle& panel, std::span<const MarkedFrame> frames,
                 const FrameImageOptions& options, const Pen& pen) {
  bool found = false, truth = false, trust = false, others = false;
  std::array<bool, kClasses.size()> there{};
  for (const MarkedFrame& frame : frames)
    for (const BoxMark& mark : frame.marks) {
      (mark.found ? found : truth) = true;
      trust = trust || mark.trust.size() >= 2;
      const ClassColour* known = class_of(mark.category);
      if (known == nullptr)
        others = true;
      else
        there[static_cast<std::size_t>(known - kClasses.data())] = true;
    }
  LegendWriter legend(canvas, panel, pen);
  const double size = 8 * pen.unit, line = 22 * pen.unit;
  const auto swatch = [&](std::string_view name, Colour colour) {
    if (const auto left = legend.entry(size, name))
      canvas.fill_rectangle({*left, legend.middle() - size / 2}, size, size, colour);
  };
  for (std::size_t i = 0; i < kClasses.size(); ++i)
    if (there[i]) swatch(kClasses[i].name, kClasses[i].colour);
  if (others) swatch("other", kOther);
  const auto sample = [&](std::string_view words, const drawing::Stroke& stroke) {
    if (const auto left = legend.entry(line, words))
      canvas.line({*left, legend.middle()}, {*left + line, legend.middle()}, stroke);
  };
  if (found) sample("found", {.colour = drawing::kWhite, .width = 1.7 * pen.unit});
  if (found && truth) sample("true", {.colour = drawing::kWhite, .width = 1.1 * pen.unit, .dash = 4 * pen.unit});
  if (trust)
    if (const auto left = legend.entry(15 * pen.unit, "trust: LiDAR above, cameras below; full 1, empty -1"))
      draw_gauge(canvas,
                 {*left, legend.middle() - 4.5 * pen.unit, *left + 15 * pen.unit, legend.middle() + 4.5 * pen.unit},
                 std::array<double, 2>{0.5, -0.5});
  if (options.points_in_images)
    if (const auto left = legend.entry(60 * pen.unit, "depth of points, 0 to 50 m"))
      for (double x = 0; x < 60 * pen.unit; ++x)
        canvas.fill_rectangle({*left + x, legend.middle() - size / 2}, 1, size, depth_colour(x / (60 * pen.unit)));
}

}  // namespace camber::sensors
