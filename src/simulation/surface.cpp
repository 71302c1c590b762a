#include "simulation/surface.h"

#include <algorithm>

#include "simulation/noise.h"

namespace camber::simulation {
namespace {

constexpr Color kGlass{0.10F, 0.12F, 0.15F}, kRubber{0.06F, 0.06F, 0.06F}, kHeadLight{0.95F, 0.95F, 0.9F},
    kTailLight{0.7F, 0.1F, 0.08F};
constexpr int kBands = 2;  // of a cone; even, so that both colours cover the same area

bool is_vehicle(const Actor& actor) {
  return actor.kind <= ActorKind::kTruck;
}

// Windows are a strip round the cabin, the second solid of a vehicle.
bool is_window(const Actor& actor, int part, Vector point) {
  if (!is_vehicle(actor) || part != 1) return false;
  const Part& cabin = actor.parts[1];
  const float rise = (point.z - cabin.center[2]) / cabin.half[2];
  return rise > -0.75F && rise < 0.6F;
}

Look vehicle_look(const Actor& actor, int part, Vector point, Vector normal) {
  if (is_window(actor, part, point) && normal.z < 0.5F) return {kGlass, 0};
  if (part == 1) return {actor.first_color, 0};
  const auto length = static_cast<float>(actor.length), width = static_cast<float>(actor.width),
             height = static_cast<float>(actor.height);
  const float rise = point.z / height + 0.5F;
  if (std::abs(normal.x) > 0.5F) {
    const bool lamp = std::abs(point.y) > 0.26F * width && rise > 0.3F && rise < 0.46F;
    if (lamp) return normal.x > 0 ? Look{kHeadLight, 0.5F} : Look{kTailLight, 0.25F};
  }
  if (std::abs(normal.y) > 0.5F) {
    const float wheel = std::abs(std::abs(point.x) - 0.3F * length) / (0.18F * height), hub = (rise - 0.12F) / 0.18F;
    if (wheel * wheel + hub * hub < 1) return {kRubber, 0};
  }
  return {rise > 0.28F && rise < 0.36F ? actor.second_color : actor.first_color, 0};
}

// Trousers below, coat above, and a bag of the trousers' colour on the back: the front shows where it walks.
Color pedestrian_color(const Actor& actor, Vector point) {
  const float rise = point.z / static_cast<float>(actor.height) + 0.5F;
  if (rise < 0.46F) return actor.first_color;
  const bool bag = point.x < -0.2F * static_cast<float>(actor.length) && rise > 0.55F && rise < 0.8F;
  return bag ? actor.first_color : actor.second_color;
}

// Bands that begin with the light colour, where a pedestrian is dark.
Color cone_color(const Actor& actor, Vector point) {
  const float rise = std::clamp(point.z / static_cast<float>(actor.height) + 0.5F, 0.0F, 0.999F);
  return static_cast<int>(rise * kBands) % 2 == 0 ? actor.second_color : actor.first_color;
}

Color scaled(const Color& color, float factor) {
  return {color[0] * factor, color[1] * factor, color[2] * factor};
}

// An angle in [0, 4) without trigonometry: grows with the azimuth all the way round.
float diamond_angle(float x, float y) {
  const float sum = std::abs(x) + std::abs(y);
  const float share = y / sum;
  if (x < 0) return 2 - share;
  return y < 0 ? 4 + share : share;
}

}  // namespace

Look look_at(const Scene& scene, const Actor& actor, int part, Vector point, Vector normal) {
  Look look;
  switch (actor.kind) {
    case ActorKind::kCar:
    case ActorKind::kTruck:
      look = vehicle_look(actor, part, point, normal);
      break;
    case ActorKind::kPedestrian:
      look = {pedestrian_color(actor, point), 0};
      break;
    case ActorKind::kTrafficCone:
      look = {cone_color(actor, point), 0};
      break;
    case ActorKind::kBush:
      look = {actor.first_color, 0};
      break;
  }
  if (actor.camouflaged && is_vehicle(actor)) {
    // Glass, rubber and lamps would give a painted-over vehicle away.
    look.emission = 0;
    for (std::size_t i = 0; i < 3; ++i)
      look.albedo[i] = actor.first_color[i] + 0.15F * (look.albedo[i] - actor.first_color[i]);
  }
  const float grain =
      scene.texture->at(actor.texture_u + point.x + 0.6F * point.z, actor.texture_v + point.y + point.z);
  const float depth = actor.kind == ActorKind::kBush ? 1.2F : 0.35F;
  look.albedo = scaled(look.albedo, 1 + depth * (grain - 0.5F));
  return look;
}

Material material_at(const Actor& actor, int part, Vector point, float ordinary_drop_out) {
  if (actor.kind == ActorKind::kBush) return {actor.reflectivity, 0.3F};
  if (is_window(actor, part, point)) return {0.05F, 0.6F};
  return {actor.reflectivity, ordinary_drop_out};
}

Color ground_color(const Scene& scene, float along, float across, float footprint) {
  const float fade = std::clamp(1.6F - footprint, 0.0F, 1.0F);
  const float grain = scene.texture->at(0.5F * along, 0.5F * across);
  Color color = scaled(scene.ground.color, 1 + 0.9F * fade * (grain - 0.5F));
  // Dashed lane lines, 3.5 m apart.
  const float lane = (across - scene.ground.lane_offset) / 3.5F + 0.5F;
  const float aside = std::abs(lane - static_cast<float>(whole_below(lane)) - 0.5F) * 3.5F;
  const float dash = along / 6 - static_cast<float>(whole_below(along / 6));
  if (aside < 0.09F && std::abs(across) < 8 && dash < 0.5F) {
    const float share = 0.75F * std::min(1.0F, 0.4F / std::max(footprint, 0.05F));
    for (float& channel : color) channel += share * (0.85F - channel);
  }
  return color;
}

Color sky_color(const Scene& scene, Vector direction) {
  const float flat = std::sqrt(direction.x * direction.x + direction.y * direction.y);
  const float rise = direction.z / std::max(flat, 1e-6F);
  const float position = diamond_angle(direction.x, direction.y) * 18;
  const std::uint32_t word = mix_words(scene.ground.skyline_seed, static_cast<std::uint32_t>(position));
  const float height = 0.01F + 0.07F * static_cast<float>(word & 0xFF) / 255;
  if (rise < height) {
    const float gray = 0.25F + 0.4F * static_cast<float>((word >> 8) & 0xFF) / 255;
    const float warm = 0.12F * (static_cast<float>((word >> 16) & 0xFF) / 255 - 0.5F);
    return {gray + warm, gray, gray - warm};
  }
  return scaled(scene.ground.sky, 0.92F + 0.3F * std::min(rise, 0.5F));
}

}  // namespace camber::simulation
