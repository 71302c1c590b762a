#include <stdexcept>

#include <fmt/format.h>

#include "camber/drawing/canvas.h"
#include "camber/drawing/jpeg.h"

namespace camber::drawing {
namespace {

// Text and thin lines stay clean at this quality; a third of the PNG's bytes.
constexpr int kDrawingQuality = 90;

}  // namespace

std::string encode_image(const Canvas& canvas, std::string_view name) {
  if (name.ends_with(".png")) return encode_png(canvas);
  if (!name.ends_with(".jpg") && !name.ends_with(".jpeg"))
    throw std::invalid_argument(
        fmt::format("[drawing] the name of an image must end in .png, .jpg or .jpeg, got '{}'", name));
  const auto bytes = encode_jpeg(canvas.pixels().data(), canvas.width(), canvas.height(), kDrawingQuality);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace camber::drawing
