#pragma once
#include <optional>
#include <vector>

#include "camber/drawing/canvas.h"

namespace camber::drawing {

/// In pixels, the right and lower edges outside.
struct Rectangle {
  double left = 0, top = 0, right = 0, bottom = 0;

  bool overlaps(const Rectangle& other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
  bool inside(const Rectangle& other) const {
    return left >= other.left && top >= other.top && right <= other.right && bottom <= other.bottom;
  }
};

/// Where labels go so that none covers another or leaves its view.
///
///   LabelLayout labels({0, 0, 640, 360});
///   labels.avoid(name_strip);
///   for (const auto& object : by_score)                       // who comes first has the choice
///     if (const auto at = labels.place(object.bounds, width, height)) draw_label(*at, object);
class LabelLayout {
 public:
  explicit LabelLayout(const Rectangle& view) : view_(view) {}

  /// Nothing is placed there.
  void avoid(const Rectangle& taken) { taken_.push_back(taken); }
  /// The rectangle of a label for an object with these bounds: above it, below, beside, then further away, at most
  /// three heights of the label; nothing when all of them are taken. The rectangle is taken from then on.
  std::optional<Rectangle> place(const Rectangle& object, double width, double height);

 private:
  Rectangle view_;
  std::vector<Rectangle> taken_;
};

}  // namespace camber::drawing
