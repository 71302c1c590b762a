#include <stdexcept>

#include <fmt/format.h>
#include <png.h>

#include "camber/drawing/canvas.h"

namespace camber::drawing {

std::string encode_png(const Canvas& canvas) {
  return encode_png(canvas.pixels(), canvas.width(), canvas.height());
}

std::string encode_png(std::span<const std::uint8_t> rgb, int width, int height) {
  if (width < 1 || height < 1 || rgb.size() != static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3)
    throw std::invalid_argument(fmt::format("[drawing] an RGB image of {} x {} must have three bytes a pixel, got {}",
                                            width, height, rgb.size()));
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string bytes(size, '\0');
  if (png_image_write_to_memory(&image, bytes.data(), &size, 0, rgb.data(), 0, nullptr) == 0)
    throw std::runtime_error(fmt::format("[drawing] PNG cannot be written: {}", image.message));
  bytes.resize(size);
  return bytes;
}

DecodedPng decode_png(std::string_view bytes, const std::string& name) {
  constexpr std::uint64_t kLargestImage = std::uint64_t{64} << 20;  // pixels
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  const auto refuse = [&](const std::string& what) {
    png_image_free(&image);
    throw std::runtime_error(fmt::format("[decode_png] {}: {}", name, what));
  };
  if (png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()) == 0)
    refuse(std::string("is not a PNG file: ") + image.message);
  if (std::uint64_t{image.width} * image.height > kLargestImage)
    refuse(fmt::format("must have at most 64 million pixels, got {} x {}", image.width, image.height));
  image.format = PNG_FORMAT_RGB;
  DecodedPng result{.width = static_cast<int>(image.width), .height = static_cast<int>(image.height)};
  result.rgb.resize(PNG_IMAGE_SIZE(image));
  const png_color black{};
  if (png_image_finish_read(&image, &black, result.rgb.data(), 0, nullptr) == 0)
    refuse(std::string("is a damaged PNG file: ") + image.message);
  return result;
}

}  // namespace camber::drawing
