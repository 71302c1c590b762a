#include "camber/drawing/jpeg.h"

#include <memory>
#include <stdexcept>

#include <turbojpeg.h>

#include "camber/sensors/image.h"

namespace camber::sensors {
namespace {

struct DestroyDecoder {
  void operator()(void* decoder) const { tjDestroy(decoder); }
};
using Decoder = std::unique_ptr<void, DestroyDecoder>;

Decoder make_decoder() {
  Decoder decoder(tjInitDecompress());
  if (!decoder) throw std::runtime_error("[decode_jpeg] the JPEG decoder cannot be started");
  return decoder;
}

[[noreturn]] void refuse(const std::string& name, const std::string& what) {
  throw std::runtime_error("[decode_jpeg] " + name + ": " + what);
}

// The decoder's smallest scale that is not below the one asked for.
tjscalingfactor scale_at_least(double scale) {
  int count = 0;
  const tjscalingfactor* factors = tjGetScalingFactors(&count);
  tjscalingfactor best{1, 1};
  for (int i = 0; i < count; ++i) {
    const double value = static_cast<double>(factors[i].num) / factors[i].denom;
    if (value >= scale && value < static_cast<double>(best.num) / best.denom) best = factors[i];
  }
  return best;
}

}  // namespace

ImageSize jpeg_size(std::span<const std::uint8_t> bytes, const std::string& name) {
  const auto [width, height] = drawing::jpeg_dimensions(bytes, name);
  return {width, height};
}

Image decode_jpeg(std::span<const std::uint8_t> bytes, const std::string& name, double scale) {
  const Decoder decoder = make_decoder();
  const ImageSize size = jpeg_size(bytes, name);
  const tjscalingfactor factor = scale_at_least(scale);
  Image image{.width = TJSCALED(static_cast<int>(size.width), factor),
              .height = TJSCALED(static_cast<int>(size.height), factor)};
  image.pixels.resize(static_cast<std::size_t>(3 * image.width * image.height));
  // A warning of the decoder means damaged data that it painted over: refused, like an error. Few scans are enough for
  // any camera; a file of thousands is an attack on the reader's time.
  const int flags = TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS;
  if (tjDecompress2(decoder.get(), bytes.data(), bytes.size(), image.pixels.data(), static_cast<int>(image.width), 0,
                    static_cast<int>(image.height), TJPF_RGB, flags) != 0)
    refuse(name, std::string("is a damaged JPEG file: ") + tjGetErrorStr2(decoder.get()));
  return image;
}

}  // namespace camber::sensors
