#include "simulation/actor.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace camber::simulation {
namespace {

struct Size {
  double length, width, height, spread;
};

// Pedestrian and cone share one row on purpose: size must not tell them apart.
constexpr Size kCarSize{4.4, 1.9, 1.6, 0.08}, kTruckSize{8.0, 2.6, 3.0, 0.10}, kUprightSize{0.70, 0.70, 1.68, 0.10},
    kBushSize{1.3, 1.3, 1.4, 0.3};

const Size& size_of(ActorKind kind) {
  switch (kind) {
    case ActorKind::kCar:
      return kCarSize;
    case ActorKind::kTruck:
      return kTruckSize;
    case ActorKind::kBush:
      return kBushSize;
    default:
      return kUprightSize;
  }
}

double drawn_around(random::Stream& stream, double mean, double deviation) {
  return mean * (1 + deviation * std::clamp(stream.normal(), -2.2, 2.2));
}

void draw_size(Actor& actor, random::Stream stream) {
  const Size& size = size_of(actor.kind);
  actor.length = drawn_around(stream, size.length, size.spread);
  actor.width = drawn_around(stream, size.width, size.spread);
  actor.height = drawn_around(stream, size.height, size.spread);
}

Color from_hsv(double hue, double saturation, double value) {
  const auto channel = [&](double shift) {
    const double k = std::fmod(shift + hue * 6, 6.0);
    return static_cast<float>(value - value * saturation * std::max(0.0, std::min({k, 4 - k, 1.0})));
  };
  return {channel(5), channel(3), channel(1)};
}

float luminance(const Color& color) {
  return 0.3F * color[0] + 0.59F * color[1] + 0.11F * color[2];
}

Color blend(const Color& a, const Color& b, float share_of_b) {
  Color result{};
  for (std::size_t i = 0; i < 3; ++i) result[i] = a[i] + share_of_b * (b[i] - a[i]);
  return result;
}

// Two colours of one palette, far enough apart in brightness for a pattern to show. The darker one comes first:
// trousers below a light coat, a cone's dark band above a light one. What tells the two apart is where they are dark.
void draw_colors(Actor& actor, const GroundLook& ground, random::Stream stream) {
  if (actor.kind == ActorKind::kBush) {
    actor.first_color = from_hsv(stream.uniform(0.17, 0.38), stream.uniform(0.25, 0.55), stream.uniform(0.2, 0.5));
    actor.second_color = blend(actor.first_color, {0, 0, 0}, 0.5F);
    return;
  }
  actor.first_color = draw_color(stream);
  do {
    actor.second_color = draw_color(stream);
  } while (std::abs(luminance(actor.first_color) - luminance(actor.second_color)) < 0.3F);
  if (luminance(actor.first_color) > luminance(actor.second_color)) std::swap(actor.first_color, actor.second_color);
  if (!actor.camouflaged) return;
  const auto brightness = static_cast<float>(stream.uniform(0.9, 1.1));
  const Color background = blend({0, 0, 0}, ground.color, brightness);
  actor.first_color = blend(background, actor.first_color, 0.12F);
  actor.second_color = blend(background, actor.second_color, 0.12F);
}

Part part_of(const Actor& actor, PartShape shape, double x_low, double x_high, double width, double z_low,
             double z_high) {
  // Shares of the solid's extent, which is the label box less the margin.
  const double length = actor.length - 2 * kBoxMargin, height = actor.height - 2 * kBoxMargin;
  Part part{.shape = shape};
  part.center = {static_cast<float>((x_low + x_high) / 2 * length), 0,
                 static_cast<float>((z_low + z_high) / 2 * height)};
  part.half = {static_cast<float>((x_high - x_low) / 2 * length),
               static_cast<float>(width / 2 * (actor.width - 2 * kBoxMargin)),
               static_cast<float>((z_high - z_low) / 2 * height)};
  return part;
}

std::vector<Part> solids_of(const Actor& actor) {
  switch (actor.kind) {
    case ActorKind::kCar:
    case ActorKind::kTruck:
      return {part_of(actor, PartShape::kBox, -0.5, 0.5, 1, -0.5, 0.08),
              part_of(actor, PartShape::kBox, -0.42, 0.2, 0.9, 0.08, 0.5)};
    case ActorKind::kBush:
      return {part_of(actor, PartShape::kEllipsoid, -0.5, 0.5, 1, -0.5, 0.5)};
    default:
      return {part_of(actor, PartShape::kCylinder, -0.5, 0.5, 1, -0.5, 0.5)};
  }
}

}  // namespace

Color draw_color(random::Stream& stream) {
  const double hue = stream.uniform(), saturation = stream.uniform(0.1, 0.7), value = stream.uniform(0.15, 0.95);
  return from_hsv(hue, saturation, value);
}

Actor make_actor(ActorKind kind, const WorldOptions& options, const GroundLook& ground, const random::Stream& stream) {
  Actor actor{.kind = kind};
  actor.texture_seed = stream.at("texture").bits64();
  const random::Stream look(actor.texture_seed, "texture");
  draw_size(actor, stream.at("size"));
  if (actor.labelled()) {
    // One draw decides, so that no object is hidden from both sensors.
    const double draw = stream.at("handicap").uniform();
    actor.dark = draw < options.dark_share;
    actor.camouflaged = !actor.dark && draw < options.dark_share + options.camouflage_share;
  }
  draw_colors(actor, ground, look.at("color"));
  random::Stream position = look.at("place");
  actor.texture_u = static_cast<float>(position.uniform(0, 16));
  actor.texture_v = static_cast<float>(position.uniform(0, 16));
  random::Stream surface = look.at("reflectivity");
  actor.reflectivity = static_cast<float>(surface.uniform(0.15, 0.7));
  actor.parts = solids_of(actor);
  return actor;
}

}  // namespace camber::simulation
