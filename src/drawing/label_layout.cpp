#include "camber/drawing/label_layout.h"

#include <algorithm>
#include <array>

namespace camber::drawing {

std::optional<Rectangle> LabelLayout::place(const Rectangle& object, double width, double height) {
  constexpr int kFurthest = 3;
  const auto free = [this](const Rectangle& label) {
    return label.inside(view_) &&
           std::none_of(
               taken_.begin(), taken_.end(), [&](const Rectangle& other) { return other.overlaps(label); });
  };
  const auto shifted_inside = [this, width](double left) {
    return std::clamp(left, view_.left, std::max(view_.left, view_.right - width));
  };
  for (int away = 0; away <= kFurthest; ++away) {
    const double above = object.top - (away + 1) * height, below = object.bottom + away * height;
    const double middle = (object.top + object.bottom - height) / 2;
    const double starts = shifted_inside(object.left), ends = shifted_inside(object.right - width);
    const std::array<Position, 7> corners = {{{starts, above},
                                              {ends, above},
                                              {starts, below},
                                              {ends, below},
                                              {object.right + away * height, middle},
                                              {object.left - width - away * height, middle},
                                              {starts, object.top + away * height}}};
    for (const Position& corner : corners) {
      const Rectangle label{corner.x, corner.y, corner.x + width, corner.y + height};
      if (!free(label)) continue;
      taken_.push_back(label);
      return label;
    }
  }
  return std::nullopt;
}

}  // namespace camber::drawing
