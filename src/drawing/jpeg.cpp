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

}  // namespace camber::drawing
