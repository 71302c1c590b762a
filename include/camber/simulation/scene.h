#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "camber/config/field.h"
#include "camber/geometry/box.h"
#include "camber/random/stream.h"

namespace camber::simulation {

/// What stands in the simulated world. Shares of the classes are drawn per object; bushes carry no label.
struct WorldOptions {
  std::int64_t frames = 10;
  double frame_interval = 500;
  double radius = 24;
  std::int64_t min_objects = 4, max_objects = 11;
  std::int64_t max_bushes = 3;
  double car_share = 0.35, truck_share = 0.15, pedestrian_share = 0.28, cone_share = 0.22;
  double dark_share = 0.15;
  double camouflage_share = 0.13;
  double night_share = 0.15;
  double standing_share = 0.2;
  std::int64_t min_points = 2;
  double min_pixels = 8;
  double image_noise = 0.025;
  std::int64_t jpeg_quality = 90;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("frames", frames, "key frames per scene", config::Range{.min = 1, .max = 1000});
    visitor("frame_interval", frame_interval, "milliseconds between key frames", config::Range{.min = 20, .max = 5000});
    visitor("radius", radius, "metres round the car in which objects are placed", config::Range{.min = 10, .max = 100});
    visitor("min_objects", min_objects, "fewest labelled objects within the radius", config::Range{.min = 0});
    visitor("max_objects", max_objects, "most labelled objects within the radius", config::Range{.min = 0, .max = 200});
    visitor("max_bushes", max_bushes, "most unlabelled bushes within the radius", config::Range{.min = 0, .max = 50});
    visitor("car_share", car_share, "weight of cars", config::Range{.min = 0});
    visitor("truck_share", truck_share, "weight of trucks", config::Range{.min = 0});
    visitor("pedestrian_share", pedestrian_share, "weight of pedestrians", config::Range{.min = 0});
    visitor("cone_share", cone_share, "weight of traffic cones", config::Range{.min = 0});
    visitor("dark_share", dark_share, "share of objects that return 1 to 4 LiDAR points", config::Range{0, 1});
    visitor("camouflage_share", camouflage_share, "share of objects coloured like the ground", config::Range{0, 1});
    visitor("night_share", night_share, "share of scenes at night", config::Range{0, 1});
    visitor("standing_share", standing_share, "share of scenes in which the car stands", config::Range{0, 1});
    visitor("min_points", min_points, "LiDAR points from which an object is labelled", config::Range{.min = 1});
    visitor("min_pixels", min_pixels, "visible pixels from which it is labelled too", config::Range{.min = 1});
    visitor("image_noise", image_noise, "standard deviation of a pixel's noise, 1 = white", config::Range{0, 1});
    visitor("jpeg_quality", jpeg_quality, "quality of the JPEG files", config::Range{.min = 1, .max = 100});
  }
  /// Refuses shares that do not fit together and counts in the wrong order.
  void validate() const;
};

enum class ActorKind : std::uint8_t { kCar, kTruck, kPedestrian, kTrafficCone, kBush };

/// The nuScenes category of a labelled kind: "vehicle.car", "vehicle.truck", "human.pedestrian.adult",
/// "movable_object.trafficcone".
std::string_view category_of(ActorKind kind);

struct Pose {
  double x = 0, y = 0, yaw = 0;
};

/// A drive at constant speed along an arc (or straight line) on the ground, in seconds since the scene's start.
struct Path {
  Pose anchor{};
  double anchor_time = 0;
  double speed = 0;
  double yaw_rate = 0;

  Pose at(double seconds) const;
};

using Color = std::array<float, 3>;

enum class PartShape : std::uint8_t { kBox, kCylinder, kEllipsoid };

/// A solid in its actor's frame (x ahead, y left, z up, origin in the box's centre).
struct Part {
  PartShape shape = PartShape::kBox;
  std::array<float, 3> center{};
  std::array<float, 3> half{};
};

/// One object: its label box, the solids that the sensors meet, and what makes it look as it does.
///
/// The solids keep 5 cm off the label box's faces, so that range noise leaves most returns inside it. To the LiDAR a
/// pedestrian and a traffic cone are the same: one size distribution, one shape, one reflectivity distribution. To the
/// cameras a truck is a car that stands nearer: one body plan, one paint distribution. Pedestrians and cones draw
/// their two colours from the same distribution and show each on about half of their surface; only the pattern
/// (coat and trousers, or bands) tells them apart, and it needs many pixels.
struct Actor {
  ActorKind kind = ActorKind::kCar;
  double length = 0, width = 0, height = 0;
  Path path{};
  bool dark = false;         ///< 1 to 4 LiDAR points whatever its distance
  bool camouflaged = false;  ///< coloured like the ground
  std::uint64_t texture_seed = 0;

  Color first_color{}, second_color{};
  float texture_u = 0, texture_v = 0;  ///< where on the scene's noise its own texture begins, metres
  float reflectivity = 0;
  std::vector<Part> parts{};

  bool labelled() const { return kind != ActorKind::kBush; }
  geometry::Box box_at(double seconds) const;
};

/// A square of smooth noise in [0, 1] that repeats itself: the texture of ground, paint and leaves.
class NoiseTile {
 public:
  explicit NoiseTile(random::Stream stream);
  /// Bilinear, 16 samples a unit of u or v.
  float at(float u, float v) const;

 private:
  static constexpr int kSide = 256;
  std::vector<float> value_;
};

struct GroundLook {
  Color color{};
  float lane_offset = 0;  ///< metres from the car's first position to the first lane line
  Color sky{};
  std::uint64_t skyline_seed = 0;
};

/// Everything a sensor can meet in one scene, as a function of time.
struct Scene {
  Path ego{};
  std::vector<Actor> actors{};
  bool night = false;
  float light = 1;
  std::array<float, 3> sun{};  ///< towards the sun
  GroundLook ground{};
  std::shared_ptr<const NoiseTile> texture{};
  double duration = 0;
};

/// Draws a scene: the same stream gives the same scene, by day or by night. `lead` seconds before the first key frame
/// belong to it (earlier sweeps and delayed cameras). Every key frame has between min_objects and max_objects labelled
/// objects within the radius as far as space allows; nothing overlaps at any time.
Scene make_scene(const WorldOptions& options, double lead, bool night, const random::Stream& stream);

/// Whether scene `index` of a split is one at night: of any n scenes in a row n * share are, give or take one, so that
/// small splits have their nights too. `offset` in [0, 1) shifts the pattern.
bool is_night(double share, double offset, std::int64_t index);

/// Seconds since the scene's start at which key frame `frame` is taken.
inline double key_time(const WorldOptions& options, double lead, std::int64_t frame) {
  return lead + static_cast<double>(frame) * options.frame_interval * 1e-3;
}

}  // namespace camber::simulation
