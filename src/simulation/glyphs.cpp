#include "camber/simulation/glyphs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <set>
#include <stdexcept>

#include "camber/random/noise_field.h"
#include "camber/random/stream.h"

namespace camber::simulation {
namespace {

struct Point {
  double x = 0, y = 0;
};

// A cubic curve in the unit square.
using Stroke = std::array<Point, 4>;

constexpr int kSegments = 12;  // straight pieces of a drawn curve

// The character itself: two to four strokes; each begins where the last one ended, on it, or anywhere.
std::vector<Stroke> character(random::Stream stream) {
  std::vector<Stroke> strokes(2 + stream.integer(3));
  const auto anywhere = [&stream] { return Point{stream.uniform(0.15, 0.85), stream.uniform(0.15, 0.85)}; };
  for (std::size_t i = 0; i < strokes.size(); ++i) {
    Stroke& stroke = strokes[i];
    stroke[0] = i > 0 && stream.chance(0.6) ? strokes[i - 1][1 + stream.integer(3)] : anywhere();
    do {
      stroke[3] = anywhere();
    } while (std::hypot(stroke[3].x - stroke[0].x, stroke[3].y - stroke[0].y) < 0.3);
    // Straight, or bent to a side by up to half of its length.
    const double bend = stream.chance(0.4) ? 0 : stream.uniform(-0.7, 0.7);
    const double dx = stroke[3].x - stroke[0].x, dy = stroke[3].y - stroke[0].y;
    for (const int k : {1, 2})
      stroke[static_cast<std::size_t>(k)] = {stroke[0].x + k / 3.0 * dx - bend * dy,
                                             stroke[0].y + k / 3.0 * dy + bend * dx};
  }
  return strokes;
}

// How one hand draws: slant, size, position, and every point of every stroke a little elsewhere.
std::vector<Stroke> drawn_by(std::vector<Stroke> strokes, random::Stream stream, double wobble) {
  const double angle = stream.normal(0, 2.4 * wobble), shear = stream.normal(0, 2.4 * wobble);
  const double width = std::exp(stream.normal(0, 2 * wobble)), height = std::exp(stream.normal(0, 2 * wobble));
  const Point shift{stream.normal(0, 0.8 * wobble), stream.normal(0, 0.8 * wobble)};
  for (Stroke& stroke : strokes)
    for (Point& point : stroke) {
      const double x = (point.x - 0.5) * width + shear * (point.y - 0.5), y = (point.y - 0.5) * height;
      point = {0.5 + std::cos(angle) * x - std::sin(angle) * y + shift.x + stream.normal(0, 0.7 * wobble),
               0.5 + std::sin(angle) * x + std::cos(angle) * y + shift.y + stream.normal(0, 0.7 * wobble)};
    }
  return strokes;
}

std::vector<Point> points_of(const Stroke& stroke) {
  std::vector<Point> points;
  for (int i = 0; i <= kSegments; ++i) {
    const double t = static_cast<double>(i) / kSegments, u = 1 - t;
    const double a = u * u * u, b = 3 * u * u * t, c = 3 * u * t * t, d = t * t * t;
    points.push_back({a * stroke[0].x + b * stroke[1].x + c * stroke[2].x + d * stroke[3].x,
                      a * stroke[0].y + b * stroke[1].y + c * stroke[2].y + d * stroke[3].y});
  }
  return points;
}

double squared_distance(Point p, Point a, Point b) {
  const double dx = b.x - a.x, dy = b.y - a.y, length = dx * dx + dy * dy;
  const double t = length > 0 ? std::clamp(((p.x - a.x) * dx + (p.y - a.y) * dy) / length, 0.0, 1.0) : 0;
  const double x = p.x - a.x - t * dx, y = p.y - a.y - t * dy;
  return x * x + y * y;
}

// Distance of every pixel's centre to the nearest stroke, in pixels.
std::vector<double> distances(const std::vector<Stroke>& strokes, std::int64_t size) {
  const auto pixels = static_cast<double>(size);
  std::vector<double> field(static_cast<std::size_t>(size * size), std::numeric_limits<double>::max());
  for (const Stroke& stroke : strokes) {
    const auto points = points_of(stroke);
    for (std::int64_t row = 0; row < size; ++row)
      for (std::int64_t column = 0; column < size; ++column) {
        const Point pixel{(static_cast<double>(column) + 0.5) / pixels, (static_cast<double>(row) + 0.5) / pixels};
        double& nearest = field[static_cast<std::size_t>(row * size + column)];
        for (std::size_t k = 0; k + 1 < points.size(); ++k)
          nearest = std::min(nearest, squared_distance(pixel, points[k], points[k + 1]));
      }
  }
  for (double& value : field) value = std::sqrt(value) * pixels;
  return field;
}

// What share of a pixel at this distance from an edge lies inside.
double coverage(double inside) {
  return std::clamp(inside + 0.5, 0.0, 1.0);
}

// The look of a domain: strokes of half width `pen` from the distance field.
std::vector<float> render_style(const std::vector<double>& field, std::int64_t size, double pen,
                                std::string_view domain, random::Stream stream) {
  const double direction = stream.uniform(0, std::numbers::pi), wavelength = stream.uniform(3.5, 6);
  const double kx = std::cos(direction) * 2 * std::numbers::pi / wavelength,
               ky = std::sin(direction) * 2 * std::numbers::pi / wavelength, phase = stream.uniform(0, 6.28);
  const random::NoiseField grain(stream.at("grain"));
  std::vector<float> image(field.size());
  for (std::size_t i = 0; i < field.size(); ++i) {
    const std::int64_t row = static_cast<std::int64_t>(i) / size, column = static_cast<std::int64_t>(i) % size;
    const auto x = static_cast<double>(column), y = static_cast<double>(row);
    const double ink = coverage(pen - field[i]);
    const auto words = grain.words(static_cast<std::uint32_t>(i));
    double value = ink;
    if (domain == "outline") value = coverage(0.55 - std::abs(field[i] - 1.5 * pen));
    if (domain == "inverted") value = 1 - ink;
    if (domain == "textured") {
      const double wave = 0.5 + 0.5 * std::sin(kx * x + ky * y + phase), hatch = 0.5 + 0.5 * std::sin(1.9 * (x - y));
      value = ink * (0.55 + 0.45 * hatch) + (1 - ink) * 0.35 * wave;
    }
    if (domain == "noisy") {
      const bool speck = random::NoiseField::uniform(words[1]) < 0.04F;
      value = speck ? 1 - ink : 0.15 + 0.6 * ink + 0.13 * static_cast<double>(random::NoiseField::normal(words[0]));
    }
    image[i] = static_cast<float>(std::clamp(value, 0.0, 1.0));
  }
  return image;
}

}  // namespace

std::vector<std::string> glyph_domains() {
  return {"ink", "outline", "inverted", "textured", "noisy"};
}

void GlyphOptions::validate() const {
  const auto known = glyph_domains();
  if (domains.empty()) throw std::invalid_argument("[glyphs] domains must name at least one domain, got none");
  std::set<std::string> seen;
  for (const std::string& name : domains) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw std::invalid_argument("[glyphs] domains must be any of ink, outline, inverted, textured, noisy, got '" +
                                  name + "'");
    if (!seen.insert(name).second)
      throw std::invalid_argument("[glyphs] a domain must be given once, got '" + name + "' twice");
  }
}

std::vector<float> draw_glyph(const GlyphOptions& options, std::uint64_t seed, std::int64_t class_index,
                              std::int64_t hand, std::string_view domain) {
  const random::Stream glyphs(seed, "glyphs");
  const auto of_class = glyphs.at("class").at(static_cast<std::uint64_t>(class_index));
  // A drawing of its own in every domain: the same hand never traces the same lines twice.
  auto of_hand = of_class.at(domain).at(static_cast<std::uint64_t>(hand));
  const auto strokes = drawn_by(character(of_class.at("strokes")), of_hand.at("hand"), options.wobble);
  const double pen = of_hand.uniform(0.03, 0.05) * static_cast<double>(options.size);
  return render_style(distances(strokes, options.size), options.size, pen, domain, of_hand.at("look"));
}

}  // namespace camber::simulation
