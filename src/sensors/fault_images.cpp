#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "camber/random/noise_field.h"
#include "camber/sensors/fault_effects.h"

namespace camber::sensors {
namespace {

std::uint8_t byte_of(float value) {
  return static_cast<std::uint8_t>(std::clamp(value + 0.5F, 0.0F, 255.0F));
}

// Every byte times `light`, with normal noise.
void dim(Image& image, double light, double deviation, const random::Stream& stream) {
  const random::NoiseField noise(stream.at("pixels"));
  const auto factor = static_cast<float>(light), spread = static_cast<float>(255 * deviation);
  for (std::size_t pixel = 0; 3 * pixel < image.pixels.size(); ++pixel) {
    const auto words = noise.words(static_cast<std::uint32_t>(pixel));
    for (std::size_t i = 0; i < 3; ++i) {
      std::uint8_t& value = image.pixels[3 * pixel + i];
      value = byte_of(factor * static_cast<float>(value) + spread * random::NoiseField::normal(words[i]));
    }
  }
}

// A running mean over 2 * radius + 1 values along one line of pixels; beyond the ends the last value goes on.
void box_filter(const std::vector<float>& in, std::vector<float>& out, std::size_t radius) {
  const std::size_t count = in.size();
  const auto at = [&in, count](std::int64_t i) {
    return in[static_cast<std::size_t>(std::clamp<std::int64_t>(i, 0, static_cast<std::int64_t>(count) - 1))];
  };
  const auto reach = static_cast<std::int64_t>(radius);
  float sum = 0;
  for (std::int64_t i = -reach; i <= reach; ++i) sum += at(i);
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = sum / static_cast<float>(2 * radius + 1);
    sum += at(static_cast<std::int64_t>(i) + reach + 1) - at(static_cast<std::int64_t>(i) - reach);
  }
}

// Three box filters have the variance of the Gaussian they stand for: 3 * ((2r + 1)^2 - 1) / 12 = s^2; the last share
// of a pixel is blended in.
void filter_line(std::vector<float>& line, double deviation) {
  const double ideal = (std::sqrt(4 * deviation * deviation + 1) - 1) / 2;
  const auto radius = static_cast<std::size_t>(ideal);
  const auto share = static_cast<float>(ideal - static_cast<double>(radius));
  std::vector<float> narrow(line.size()), wide(line.size());
  for (int pass = 0; pass < 3; ++pass) {
    box_filter(line, narrow, radius);
    box_filter(line, wide, radius + 1);
    for (std::size_t i = 0; i < line.size(); ++i) line[i] = narrow[i] + share * (wide[i] - narrow[i]);
  }
}

void blur(Image& image, double deviation) {
  const auto filter = [&](std::int64_t lines, std::int64_t length, auto index) {
    std::vector<float> line(static_cast<std::size_t>(length));
    for (std::int64_t l = 0; l < lines; ++l) {
      for (std::size_t color = 0; color < 3; ++color) {
        for (std::int64_t i = 0; i < length; ++i) line[static_cast<std::size_t>(i)] = image.pixels[index(l, i) + color];
        filter_line(line, deviation);
        for (std::int64_t i = 0; i < length; ++i)
          image.pixels[index(l, i) + color] = byte_of(line[static_cast<std::size_t>(i)]);
      }
    }
  };
  const std::int64_t width = image.width;
  filter(
      image.height, width,
      [width](auto row, auto column) { return static_cast<std::size_t>(3 * (row * width + column)); });
  filter(width, image.height,
         [width](auto column, auto row) { return static_cast<std::size_t>(3 * (row * width + column)); });
}

// A drop is a small lens: it shows the image round it upside down and a little brighter.
void add_drop(Image& image, const Image& dry, double u, double v, double radius) {
  const auto clamp_row = [&](std::int64_t row) { return std::clamp<std::int64_t>(row, 0, image.height - 1); };
  const auto top = clamp_row(std::llround(v - radius)), bottom = clamp_row(std::llround(v + radius));
  for (std::int64_t row = top; row <= bottom; ++row) {
    const double height = static_cast<double>(row) - v;
    const double half = std::sqrt(std::max(0.0, radius * radius - height * height));
    const auto left = std::max<std::int64_t>(0, std::llround(u - half)),
               right = std::min<std::int64_t>(image.width - 1, std::llround(u + half));
    const std::uint8_t* shown = dry.row(clamp_row(std::llround(v - 3 * height)));
    for (std::int64_t column = left; column <= right; ++column)
      for (std::int64_t i = 0; i < 3; ++i)
        image.row(row)[3 * column + i] = byte_of(0.85F * static_cast<float>(shown[3 * column + i]) + 30);
  }
}

void rain(Image& image, double share, random::Stream stream) {
  const auto haze = static_cast<float>(1.5 * share);
  for (std::uint8_t& value : image.pixels)
    value = byte_of(static_cast<float>(value) + haze * (190 - static_cast<float>(value)));
  const Image dry = image;
  const auto width = static_cast<double>(image.width), height = static_cast<double>(image.height);
  for (double covered = 0; covered < share * width * height;) {
    const double radius = std::max(0.8, width * stream.uniform(0.01, 0.035));
    const double u = stream.uniform(0, width), v = stream.uniform(0, height);
    add_drop(image, dry, u, v, radius);
    covered += 3.14159265 * radius * radius;
  }
}

}  // namespace

void degrade_image(Image& image, const Fault& fault, const random::Stream& stream) {
  switch (fault.kind) {
    case FaultKind::kBlack:
      std::fill(image.pixels.begin(), image.pixels.end(), std::uint8_t{0});
      return;
    case FaultKind::kDark:
      return dim(image, fault.value(), 0.015, stream);
    case FaultKind::kNoise:
      return dim(image, 1, fault.value(), stream);
    case FaultKind::kBlur:
      return blur(image, fault.value() * static_cast<double>(image.width));
    case FaultKind::kRain:
      return rain(image, fault.value(), stream.at("drops"));
    default:
      return;
  }
}

double calibration_error(const Fault& fault, std::size_t camera, const random::Stream& scene) {
  const bool left = scene.at("calibration").at(camera).uniform() < 0.5;
  return (left ? 1 : -1) * fault.value() * 3.14159265358979323846 / 180;
}

void check_cameras(const Fault& fault, std::size_t count) {
  if (std::cmp_greater(fault.cameras, count))
    throw std::invalid_argument("[fault] '" + fault.text() + "': cameras must be at most " + std::to_string(count) +
                                ", the cameras of a frame, got " + std::to_string(fault.cameras));
}

std::vector<bool> cameras_hit(const Fault& fault, std::size_t count, const random::Stream& scene) {
  if (fault.counts_cameras() && fault.cameras == 0) return std::vector<bool>(count, true);
  check_cameras(fault, count);
  const auto share = static_cast<std::size_t>(std::ceil(fault.value() * static_cast<double>(count)));
  const std::size_t hit = fault.counts_cameras() ? static_cast<std::size_t>(fault.cameras)
                                                 : std::min(count, std::max<std::size_t>(1, share));
  const auto order = scene.at("cameras").permutation(static_cast<std::int64_t>(count));
  std::vector<bool> result(count, false);
  for (std::size_t i = 0; i < hit && i < count; ++i) result[static_cast<std::size_t>(order[i])] = true;
  return result;
}

}  // namespace camber::sensors
