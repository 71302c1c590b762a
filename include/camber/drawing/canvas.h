#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "camber/drawing/colour.h"

/// A raster image to draw on, with smooth edges, and its PNG.
///
///   Canvas canvas(640, 480, kWhite);
///   canvas.polygon(corners, {.colour = series_colour(0), .width = 2});
///   canvas.text({8, 8}, "car 0.91", kBlack);
///   storage::write_file("view.png", encode_png(canvas));
namespace camber::drawing {

/// In pixels, x to the right and y down; (0, 0) is the upper left corner of the upper left pixel.
struct Position {
  double x = 0;
  double y = 0;
};

struct Stroke {
  Colour colour = kBlack;
  double width = 1;
  double opacity = 1;
  double dash = 0;  ///< pixels of line and of gap in turn; 0: no gaps
};

class Canvas {
 public:
  /// Throws std::invalid_argument unless both sides lie between 1 and 32768.
  Canvas(int width, int height, Colour background = kWhite);

  int width() const { return width_; }
  int height() const { return height_; }
  /// RGB, three bytes a pixel, row by row.
  std::span<const std::uint8_t> pixels() const { return pixels_; }
  Colour pixel(int column, int row) const;

  /// Everything below is cut at the borders; coordinates that are not finite draw nothing.
  void set_pixel(int column, int row, Colour colour, double opacity = 1);
  void line(Position from, Position to, const Stroke& stroke);
  /// A line through all points, without the way back to the first.
  void path(std::span<const Position> points, const Stroke& stroke);
  /// The outline of a closed polygon.
  void polygon(std::span<const Position> corners, const Stroke& stroke);
  /// The inside of a closed polygon, by the even-odd rule.
  void fill_polygon(std::span<const Position> corners, Colour colour, double opacity = 1);
  void fill_rectangle(Position corner, double width, double height, Colour colour, double opacity = 1);
  void circle(Position centre, double radius, const Stroke& stroke);
  void fill_circle(Position centre, double radius, Colour colour, double opacity = 1);

  /// Printable ASCII, kTextHeight * size pixels high; other characters appear as a box. The position is the upper left
  /// corner of the first letter. Letters are dots of a 5x7 font at size 1, smooth strokes through these dots above it.
  void text(Position corner, std::string_view words, Colour colour, double size = 1);

  /// Copies an RGB image with its upper left corner at (column, row).
  void image(int column, int row, std::span<const std::uint8_t> rgb, int image_width, int image_height);

 private:
  void dots(Position corner, std::string_view words, Colour colour);
  void stroke_segment(Position from, Position to, const Stroke& stroke);
  template <class Coverage>
  void paint(double left, double top, double right, double bottom, Colour colour, double opacity, Coverage coverage);

  int width_, height_;
  std::vector<std::uint8_t> pixels_;
};

/// The width of words in pixels; kTextHeight * size is their height.
double text_width(std::string_view words, double size = 1);
inline constexpr int kTextHeight = 7;

/// The image as the bytes of a PNG file.
std::string encode_png(const Canvas& canvas);
/// The same for RGB bytes that are no canvas.
std::string encode_png(std::span<const std::uint8_t> rgb, int width, int height);

struct DecodedPng {
  int width = 0, height = 0;
  std::vector<std::uint8_t> rgb{};  ///< three bytes a pixel, row by row
};
/// Reads a PNG of any kind as RGB, on black where it is transparent. Bytes that are none, damaged ones and more than 64
/// megapixels are refused; `name` stands in the sentence.
DecodedPng decode_png(std::string_view bytes, const std::string& name);

/// The bytes of a PNG (.png) or JPEG (.jpg, .jpeg) file, by the ending of its name; another ending is refused.
std::string encode_image(const Canvas& canvas, std::string_view name);

}  // namespace camber::drawing
