#include "camber/sensors/image.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "camber/storage/file.h"
#include "sensors/bilinear.h"

namespace camber::sensors {
namespace {

// Bicubic kernel with a = -1/2 (Catmull-Rom), zero beyond 2.
double bicubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * kA;
  return 0;
}

// Which source pixels make one pixel of the result, and with what weight; no source pixel: black.
struct Taps {
  std::int64_t first = 0;
  std::vector<float> weights{};
};

// One axis: the centre of pixel i of the result lies at (i + 1/2 + crop) * step of the decoded image.
std::vector<Taps> taps_of(std::int64_t count, std::int64_t decoded, double crop, double step, bool flip) {
  const double width = std::max(1.0, step);
  std::vector<Taps> all(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const double position = static_cast<double>(flip ? count - 1 - i : i) + 0.5 + crop;
    const double center = position * step;
    if (!(center >= 0 && center < static_cast<double>(decoded))) continue;
    const auto low = std::max<std::int64_t>(0, static_cast<std::int64_t>(std::floor(center - 2 * width)));
    const auto high = std::min(decoded - 1, static_cast<std::int64_t>(std::floor(center + 2 * width)));
    Taps& taps = all[static_cast<std::size_t>(i)];
    taps.first = low;
    double sum = 0;
    for (std::int64_t j = low; j <= high; ++j) {
      const double weight = bicubic((static_cast<double>(j) + 0.5 - center) / width);
      taps.weights.push_back(static_cast<float>(weight));
      sum += weight;
    }
    for (float& weight : taps.weights) weight = static_cast<float>(weight / sum);
    // Taps of weight zero at both ends cost time and change nothing.
    while (taps.weights.size() > 1 && taps.weights.back() == 0) taps.weights.pop_back();
    while (taps.weights.size() > 1 && taps.weights.front() == 0) {
      taps.weights.erase(taps.weights.begin());
      ++taps.first;
    }
  }
  return all;
}

std::uint8_t to_byte(float value) {
  return static_cast<std::uint8_t>(std::clamp(value + 0.5F, 0.0F, 255.0F));
}

// One row of the decoded image, resampled along x.
void resample_row(const std::uint8_t* source, const std::vector<Taps>& columns, float* result) {
  for (const Taps& taps : columns) {
    float red = 0, green = 0, blue = 0;
    const std::uint8_t* pixel = source + 3 * taps.first;
    for (const float weight : taps.weights) {
      red += weight * pixel[0];
      green += weight * pixel[1];
      blue += weight * pixel[2];
      pixel += 3;
    }
    *result++ = red;
    *result++ = green;
    *result++ = blue;
  }
}

// Resamples along x, row by row as they are first needed, then along y. A row of the result that shrinks by `step`
// needs about 4 * step source rows: each is resampled once and kept until the result has passed it.
void resample(const ImageView& decoded, const std::vector<Taps>& rows, const std::vector<Taps>& columns,
              Image& result) {
  const auto row_length = static_cast<std::size_t>(3 * result.width);
  std::vector<std::vector<float>> kept(static_cast<std::size_t>(decoded.height));
  std::vector<float> sum(row_length);
  for (std::int64_t y = 0; y < result.height; ++y) {
    const Taps& taps = rows[static_cast<std::size_t>(y)];
    std::fill(sum.begin(), sum.end(), 0.0F);
    for (std::size_t t = 0; t < taps.weights.size(); ++t) {
      const auto source = static_cast<std::size_t>(taps.first) + t;
      if (kept[source].empty()) {
        kept[source].resize(row_length);
        resample_row(decoded.row(static_cast<std::int64_t>(source)), columns, kept[source].data());
      }
      for (std::size_t i = 0; i < row_length; ++i) sum[i] += taps.weights[t] * kept[source][i];
    }
    std::transform(sum.begin(), sum.end(), result.row(y), to_byte);
    for (auto passed = taps.first - 1; passed >= 0 && !kept[static_cast<std::size_t>(passed)].empty(); --passed)
      std::vector<float>().swap(kept[static_cast<std::size_t>(passed)]);
  }
}

// Every pixel is its own: nothing is resampled, cut or mirrored.
bool changes_nothing(const ImageView& decoded, ImageSize source, const geometry::ImageTransform& transform) {
  return transform.resize == 1 && transform.crop_x == 0 && transform.crop_y == 0 && !transform.flip &&
         decoded.width == source.width && decoded.height == source.height && transform.width == source.width &&
         transform.height == source.height;
}

}  // namespace

Image transform_image(const ImageView& decoded, ImageSize source, const geometry::ImageTransform& transform) {
  if (transform.width < 1 || transform.height < 1 || !(transform.resize > 0))
    throw std::invalid_argument("[transform_image] transform must have a size of at least 1 x 1 and a resize above 0");
  if (decoded.width < 1 || decoded.height < 1 || source.width < 1 || source.height < 1)
    throw std::invalid_argument("[transform_image] image must have at least 1 x 1 pixels");
  Image result{.width = transform.width, .height = transform.height};
  result.pixels.resize(static_cast<std::size_t>(3 * result.width * result.height));
  if (changes_nothing(decoded, source, transform)) {
    for (std::int64_t y = 0; y < result.height; ++y) std::copy_n(decoded.row(y), 3 * result.width, result.row(y));
  } else if (transform.resampling == geometry::Resampling::kBilinear) {
    resample_bilinear(decoded, source, transform, result);
  } else {
    const auto step = [&transform](std::int64_t small, std::int64_t full) {
      return static_cast<double>(small) / (static_cast<double>(full) * transform.resize);
    };
    const std::vector<Taps> columns =
        taps_of(result.width, decoded.width, transform.crop_x, step(decoded.width, source.width), transform.flip);
    const std::vector<Taps> rows =
        taps_of(result.height, decoded.height, transform.crop_y, step(decoded.height, source.height), false);
    resample(decoded, rows, columns, result);
  }
  // Here, because the network's image is the smaller one.
  if (decoded.order == ChannelOrder::kBgr)
    for (std::size_t i = 0; i < result.pixels.size(); i += 3) std::swap(result.pixels[i], result.pixels[i + 2]);
  return result;
}

Image transform_image(Image decoded, ImageSize source, const geometry::ImageTransform& transform) {
  if (!decoded.pixels.empty() && changes_nothing(decoded.view(), source, transform)) return decoded;
  return transform_image(decoded.view(), source, transform);
}

Image load_image(const std::filesystem::path& path, ImageSize source, const geometry::ImageTransform& transform) {
  const std::string content = storage::read_file(path);
  const std::span bytes(reinterpret_cast<const std::uint8_t*>(content.data()), content.size());
  const ImageSize size = jpeg_size(bytes, path.string());
  if (size != source)
    throw std::runtime_error("[load_image] " + path.string() + " must be " + std::to_string(source.width) + " x " +
                             std::to_string(source.height) + " pixels as the tables say, got " +
                             std::to_string(size.width) + " x " + std::to_string(size.height));
  // Four pixels at half the size are not the four of the whole image.
  const double scale = transform.resampling == geometry::Resampling::kBilinear ? 1 : transform.resize;
  return transform_image(decode_jpeg(bytes, path.string(), scale), source, transform);
}

}  // namespace camber::sensors
