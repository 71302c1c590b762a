#include "camber/drawing/jpeg.h"

#include <memory>
#include <stdexcept>
#include <string>

#include <turbojpeg.h>

namespace camber::drawing {

std::vector<std::uint8_t> encode_jpeg(const std::uint8_t* rgb, std::int64_t width, std::int64_t height, int quality) {
  if (width < 1 || height < 1 || width > 65500 || height > 65500)
    throw std::invalid_argument("[encode_jpeg] image must be 1 to 65500 pixels a side, got " + std::to_string(width) +
                                " x " + std::to_string(height));
  if (quality < 1 || quality > 100)
    throw std::invalid_argument("[encode_jpeg] quality must be 1 to 100, got " + std::to_string(quality));
  thread_local const std::unique_ptr<void, int (*)(tjhandle)> kCompressor(tjInitCompress(), tjDestroy);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  const int failed = tjCompress2(kCompressor.get(), rgb, static_cast<int>(width), 0, static_cast<int>(height), TJPF_RGB,
                                 &buffer, &size, TJSAMP_444, quality, TJFLAG_ACCURATEDCT);
  const std::unique_ptr<unsigned char, void (*)(unsigned char*)> owner(buffer, tjFree);
  if (failed != 0)
    throw std::runtime_error(std::string("[encode_jpeg] the image could not be written: ") +
                             tjGetErrorStr2(kCompressor.get()));
  return {buffer, buffer + size};
}

std::pair<std::int64_t, std::int64_t> jpeg_dimensions(std::span<const std::uint8_t> bytes, const std::string& name) {
  constexpr std::int64_t kLargestImage = std::int64_t{64} << 20;  // pixels
  thread_local const std::unique_ptr<void, int (*)(tjhandle)> kDecoder(tjInitDecompress(), tjDestroy);
  const auto refuse = [&name](const std::string& what) {
    throw std::runtime_error("[decode_jpeg] " + name + ": " + what);
  };
  int width = 0, height = 0, subsampling = 0, colours = 0;
  if (bytes.size() < 4 || bytes[0] != 0xFF || bytes[1] != 0xD8) refuse("is not a JPEG file");
  if (tjDecompressHeader3(kDecoder.get(), bytes.data(), bytes.size(), &width, &height, &subsampling, &colours) != 0)
    refuse(std::string("is a damaged JPEG file: ") + tjGetErrorStr2(kDecoder.get()));
  if (width < 1 || height < 1 || std::int64_t{width} * height > kLargestImage)
    refuse("must have between 1 and 64 million pixels, got " + std::to_string(width) + " x " + std::to_string(height));
  return {width, height};
}

}  // namespace camber::drawing
