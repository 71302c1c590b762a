#include "camber/drawing/canvas.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include <fmt/format.h>

#include "drawing/font.h"

namespace camber::drawing {
namespace {

constexpr int kLargestSide = 32768;
constexpr int kRowSamples = 4;

bool finite(Position position) {
  return std::isfinite(position.x) && std::isfinite(position.y);
}

double distance_to_segment(double x, double y, Position from, Position to) {
  const double along_x = to.x - from.x, along_y = to.y - from.y;
  const double length = along_x * along_x + along_y * along_y;
  const double share =
      length > 0 ? std::clamp(((x - from.x) * along_x + (y - from.y) * along_y) / length, 0.0, 1.0) : 0;
  return std::hypot(x - from.x - share * along_x, y - from.y - share * along_y);
}

// How much of a pixel at this distance from the middle of a stroke is covered.
double stroke_coverage(double distance, double width) {
  // A hairline thinner than a pixel fades instead of breaking up.
  const double half = std::max(width, 1.0) / 2;
  return std::clamp(half + 0.5 - distance, 0.0, 1.0) * std::min(width, 1.0);
}

}  // namespace

Canvas::Canvas(int width, int height, Colour background) : width_(width), height_(height) {
  if (width < 1 || height < 1 || width > kLargestSide || height > kLargestSide)
    throw std::invalid_argument(
        fmt::format("[drawing] a canvas must measure 1 to {} pixels a side, got {} x {}", kLargestSide, width, height));
  pixels_.resize(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3);
  for (std::size_t i = 0; i < pixels_.size(); i += 3) {
    pixels_[i] = background.red;
    pixels_[i + 1] = background.green;
    pixels_[i + 2] = background.blue;
  }
}

Colour Canvas::pixel(int column, int row) const {
  const std::size_t at = (static_cast<std::size_t>(row) * width_ + column) * 3;
  return {pixels_.at(at), pixels_.at(at + 1), pixels_.at(at + 2)};
}

void Canvas::set_pixel(int column, int row, Colour colour, double opacity) {
  if (column < 0 || row < 0 || column >= width_ || row >= height_) return;
  const std::array<std::uint8_t, 3> above = {colour.red, colour.green, colour.blue};
  std::uint8_t* below = &pixels_[(static_cast<std::size_t>(row) * width_ + column) * 3];
  for (int channel = 0; channel < 3; ++channel)
    below[channel] =
        static_cast<std::uint8_t>(std::lround(below[channel] + (above[channel] - below[channel]) * opacity));
}

// Asks for the coverage at the middle of every pixel of a box and paints it.
template <class Coverage>
void Canvas::paint(double left, double top, double right, double bottom, Colour colour, double opacity,
                   Coverage coverage) {
  if (!std::isfinite(left) || !std::isfinite(top) || !std::isfinite(right) || !std::isfinite(bottom)) return;
  const int first_column = static_cast<int>(std::clamp(std::floor(left), 0.0, static_cast<double>(width_)));
  const int last_column = static_cast<int>(std::clamp(std::ceil(right), 0.0, static_cast<double>(width_)));
  const int first_row = static_cast<int>(std::clamp(std::floor(top), 0.0, static_cast<double>(height_)));
  const int last_row = static_cast<int>(std::clamp(std::ceil(bottom), 0.0, static_cast<double>(height_)));
  for (int row = first_row; row < last_row; ++row) {
    for (int column = first_column; column < last_column; ++column) {
      const double share = coverage(column + 0.5, row + 0.5);
      if (share > 0) set_pixel(column, row, colour, share * opacity);
    }
  }
}

void Canvas::line(Position from, Position to, const Stroke& stroke) {
  const double length = std::hypot(to.x - from.x, to.y - from.y);
  if (stroke.dash <= 0 || length < stroke.dash || !std::isfinite(length) || length > kLargestSide * 4.0)
    return stroke_segment(from, to, stroke);
  const auto at = [&](double along) {
    return Position{from.x + (to.x - from.x) * along / length, from.y + (to.y - from.y) * along / length};
  };
  for (double along = 0; along < length; along += 2 * stroke.dash)
    stroke_segment(at(along), at(std::min(along + stroke.dash, length)), stroke);
}

// Row by row, and of each row only what is near the line: a box around a long slanted line is mostly empty.
void Canvas::stroke_segment(Position from, Position to, const Stroke& stroke) {
  if (!finite(from) || !finite(to)) return;
  const double room = stroke.width / 2 + 1;
  const auto bound = [](double value, int side) { return std::clamp(value, 0.0, static_cast<double>(side)); };
  const int first = static_cast<int>(bound(std::floor(std::min(from.y, to.y) - room), height_));
  const int last = static_cast<int>(bound(std::ceil(std::max(from.y, to.y) + room), height_));
  for (int row = first; row < last; ++row) {
    double low = 0, high = 1;  // the part of the line that is near this row
    if (from.y != to.y) {
      const double one = (row - room - from.y) / (to.y - from.y), other = (row + 1 + room - from.y) / (to.y - from.y);
      low = std::clamp(std::min(one, other), 0.0, 1.0);
      high = std::clamp(std::max(one, other), 0.0, 1.0);
    }
    const double left = from.x + low * (to.x - from.x), right = from.x + high * (to.x - from.x);
    paint(std::min(left, right) - room, row, std::max(left, right) + room, row + 1, stroke.colour, stroke.opacity,
          [&](double x, double y) { return stroke_coverage(distance_to_segment(x, y, from, to), stroke.width); });
  }
}

void Canvas::path(std::span<const Position> points, const Stroke& stroke) {
  for (std::size_t i = 1; i < points.size(); ++i) line(points[i - 1], points[i], stroke);
}

void Canvas::polygon(std::span<const Position> corners, const Stroke& stroke) {
  path(corners, stroke);
  if (corners.size() > 2) line(corners.back(), corners.front(), stroke);
}

void Canvas::fill_polygon(std::span<const Position> corners, Colour colour, double opacity) {
  if (!std::all_of(corners.begin(), corners.end(), finite)) return;
  double top = height_, bottom = 0;
  for (const Position& corner : corners) {
    top = std::min(top, corner.y);
    bottom = std::max(bottom, corner.y);
  }
  std::vector<double> coverage(width_), crossings;
  const int last_row = static_cast<int>(std::min(std::ceil(bottom), static_cast<double>(height_)));
  for (int row = static_cast<int>(std::max(std::floor(top), 0.0)); row < last_row; ++row) {
    std::fill(coverage.begin(), coverage.end(), 0.0);
    for (int sample = 0; sample < kRowSamples; ++sample) {
      const double y = row + (sample + 0.5) / kRowSamples;
      crossings.clear();
      for (std::size_t i = 0; i < corners.size(); ++i) {
        const Position from = corners[i], to = corners[(i + 1) % corners.size()];
        if ((from.y <= y) != (to.y <= y))
          crossings.push_back(from.x + (y - from.y) / (to.y - from.y) * (to.x - from.x));
      }
      std::sort(crossings.begin(), crossings.end());
      for (std::size_t i = 0; i + 1 < crossings.size(); i += 2) {
        const double left = std::clamp(crossings[i], 0.0, static_cast<double>(width_));
        const double right = std::clamp(crossings[i + 1], 0.0, static_cast<double>(width_));
        for (int column = static_cast<int>(left); column < std::min(width_, static_cast<int>(std::ceil(right)));
             ++column)
          coverage[column] += std::max(0.0, std::min(right, column + 1.0) - std::max(left, column * 1.0)) / kRowSamples;
      }
    }
    for (int column = 0; column < width_; ++column)
      if (coverage[column] > 0) set_pixel(column, row, colour, coverage[column] * opacity);
  }
}

void Canvas::fill_rectangle(Position corner, double width, double height, Colour colour, double opacity) {
  const std::array<Position, 4> corners = {
      corner, {corner.x + width, corner.y}, {corner.x + width, corner.y + height}, {corner.x, corner.y + height}};
  fill_polygon(corners, colour, opacity);
}

void Canvas::circle(Position centre, double radius, const Stroke& stroke) {
  const double room = radius + stroke.width / 2 + 1;
  paint(centre.x - room, centre.y - room, centre.x + room, centre.y + room, stroke.colour, stroke.opacity,
        [&](double x, double y) {
          return stroke_coverage(std::fabs(std::hypot(x - centre.x, y - centre.y) - radius), stroke.width);
        });
}

void Canvas::fill_circle(Position centre, double radius, Colour colour, double opacity) {
  const double room = radius + 1;
  paint(centre.x - room, centre.y - room, centre.x + room, centre.y + room, colour, opacity, [&](double x, double y) {
    return std::clamp(radius + 0.5 - std::hypot(x - centre.x, y - centre.y), 0.0, 1.0);
  });
}

void Canvas::text(Position corner, std::string_view words, Colour colour, double size) {
  if (!finite(corner) || !(size > 0)) return;
  if (size == 1) return dots(corner, words, colour);
  const Stroke stroke{.colour = colour, .width = 0.95 * size};
  for (std::size_t letter = 0; letter < words.size(); ++letter) {
    const Glyph& glyph = glyph_of(words[letter]);
    const double left = corner.x + static_cast<double>(letter) * (kGlyphWidth + 1) * size;
    if (left > width_ || left + kGlyphWidth * size < 0 || corner.y > height_) continue;
    // Letters with a tail stand on the line with their body, as dots they have no room to.
    const double top = corner.y + (std::string_view("gpqy").find(words[letter]) == std::string_view::npos ? 0 : size);
    const auto ink = [&glyph](int row, int column) {
      return row >= 0 && row < kTextHeight && column >= 0 && column < kGlyphWidth && glyph[row][column] == '#';
    };
    const auto at = [&](int row, int column) {
      return Position{left + (column + 0.5) * size, top + (row + 0.5) * size};
    };
    for (int row = 0; row < kTextHeight; ++row)
      for (int column = 0; column < kGlyphWidth; ++column) {
        if (!ink(row, column)) continue;
        const bool right = ink(row, column + 1), below = ink(row + 1, column);
        if (right) line(at(row, column), at(row, column + 1), stroke);
        if (below) line(at(row, column), at(row + 1, column), stroke);
        // A diagonal only where no corner of straight strokes joins the two dots already.
        if (ink(row + 1, column + 1) && !right && !below) line(at(row, column), at(row + 1, column + 1), stroke);
        if (ink(row + 1, column - 1) && !below && !ink(row, column - 1))
          line(at(row, column), at(row + 1, column - 1), stroke);
        line(at(row, column), at(row, column), stroke);
      }
  }
}

void Canvas::dots(Position corner, std::string_view words, Colour colour) {
  // Text may begin far outside: keep the sum of integers small.
  const int left = static_cast<int>(std::lround(std::clamp(corner.x, -1e6, 1e6)));
  const int top = static_cast<int>(std::lround(std::clamp(corner.y, -1e6, 1e6)));
  for (std::size_t letter = 0; letter < words.size(); ++letter) {
    const Glyph& glyph = glyph_of(words[letter]);
    const int x = left + static_cast<int>(letter) * (kGlyphWidth + 1);
    for (int row = 0; row < kTextHeight; ++row)
      for (int column = 0; column < kGlyphWidth; ++column)
        if (glyph[row][column] == '#') set_pixel(x + column, top + row, colour);
  }
}

void Canvas::image(int column, int row, std::span<const std::uint8_t> rgb, int image_width, int image_height) {
  if (image_width < 0 || image_height < 0 ||
      rgb.size() != static_cast<std::size_t>(image_width) * static_cast<std::size_t>(image_height) * 3)
    throw std::invalid_argument(fmt::format("[drawing] an RGB image of {} x {} must have three bytes a pixel, got {}",
                                            image_width, image_height, rgb.size()));
  const int from = std::max(0, -column), to = std::min(image_width, width_ - column);
  for (int y = std::max(0, -row); y < std::min(image_height, height_ - row); ++y) {
    if (to <= from) return;
    const std::uint8_t* source = &rgb[(static_cast<std::size_t>(y) * image_width + from) * 3];
    std::copy_n(source, (to - from) * 3, &pixels_[(static_cast<std::size_t>(row + y) * width_ + column + from) * 3]);
  }
}

double text_width(std::string_view words, double size) {
  return words.empty() ? 0 : (static_cast<double>(words.size()) * (kGlyphWidth + 1) - 1) * size;
}

}  // namespace camber::drawing
