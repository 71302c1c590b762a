#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "camber/config/field.h"
#include "camber/geometry/transform.h"

namespace camber::simulation {

/// One pinhole camera of the simulated car. The car's frame is nuScenes' ego frame: x forward, y left, z up, origin on
/// the ground below the rear axle. The image's columns grow to the right, its rows downwards.
struct CameraOptions {
  std::string name = "CAM_FRONT";
  double x = 1.7, y = 0, z = 1.5;
  double yaw = 0;
  double pitch = 0;
  double field_of_view = 70;
  std::int64_t width = 120, height = 48;
  double horizon = 0.375;
  double delay = 0;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("name", name, "channel name, also the folder of its images");
    visitor("x", x, "metres forward of the rear axle");
    visitor("y", y, "metres to the left");
    visitor("z", z, "metres above the ground", config::Range{.min = 0.1, .max = 10});
    visitor("yaw", yaw, "where it looks, degrees to the left of straight ahead");
    visitor("pitch", pitch, "degrees downwards", config::Range{.min = -60, .max = 60});
    visitor("field_of_view", field_of_view, "horizontal field of view in degrees", config::Range{.min = 5, .max = 170});
    visitor("width", width, "image width in pixels", config::Range{.min = 8, .max = 8192});
    visitor("height", height, "image height in pixels", config::Range{.min = 8, .max = 8192});
    visitor("horizon", horizon, "row of the optical axis as a share of the height", config::Range{.min = 0, .max = 1});
    visitor("delay", delay, "milliseconds by which it is read before the LiDAR's sweep", config::Range{.min = 0});
  }

  /// fx = fy = width / 2 / tan(field_of_view / 2), cx = width / 2, cy = horizon * height.
  geometry::Matrix3 intrinsic() const;
  /// Camera frame (x right, y down, z forward) to the car's frame.
  geometry::Quaternion rotation() const;
  geometry::RigidTransform to_ego() const;
};

/// The spinning LiDAR. Its frame is nuScenes' (x right, y forward, z up) when yaw is -90. A sweep is taken at one
/// instant: the points are those of a scan whose motion was compensated.
struct LidarOptions {
  std::string name = "LIDAR_TOP";
  double x = 0.94, y = 0, z = 1.84;
  double yaw = -90;
  std::int64_t beams = 20;
  double lowest = -20, highest = 4;
  std::int64_t azimuths = 240;
  double range_noise = 0.03;
  double drop_out = 0.05;
  double max_range = 40;
  std::int64_t sweeps = 3;
  double sweep_interval = 50;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("name", name, "channel name, also the folder of its point clouds");
    visitor("x", x, "metres forward of the rear axle");
    visitor("y", y, "metres to the left");
    visitor("z", z, "metres above the ground", config::Range{.min = 0.1, .max = 10});
    visitor("yaw", yaw, "degrees; -90 gives nuScenes' frame with y forward");
    visitor("beams", beams, "number of rings", config::Range{.min = 1, .max = 255});
    visitor("lowest", lowest, "elevation of ring 0 in degrees", config::Range{.min = -80, .max = 80});
    visitor("highest", highest, "elevation of the last ring in degrees", config::Range{.min = -80, .max = 80});
    visitor("azimuths", azimuths, "rays per ring", config::Range{.min = 8, .max = 4096});
    visitor("range_noise", range_noise, "standard deviation of the range in metres", config::Range{.min = 0, .max = 1});
    visitor("drop_out", drop_out, "share of returns lost on ordinary surfaces", config::Range{.min = 0, .max = 0.9});
    visitor("max_range", max_range, "metres beyond which nothing returns", config::Range{.min = 5, .max = 300});
    visitor("sweeps", sweeps, "sweeps written per key frame, its own included", config::Range{.min = 1, .max = 10});
    visitor("sweep_interval", sweep_interval, "milliseconds between sweeps", config::Range{.min = 1, .max = 1000});
  }

  double elevation(std::int64_t ring) const;
  geometry::Quaternion rotation() const { return geometry::Quaternion::from_yaw(yaw * kDegree); }
  geometry::RigidTransform to_ego() const { return geometry::RigidTransform::from(rotation(), {x, y, z}); }

  static constexpr double kDegree = 0.017453292519943295;
};

/// Six cameras of 120 x 48 pixels, placed as on the nuScenes car.
std::vector<CameraOptions> small_cameras();
/// The same six with nuScenes' image size of 1600 x 900 and its focal lengths.
std::vector<CameraOptions> reference_cameras();

/// The sensors of the simulated car: any number of cameras, each with its own size, and one LiDAR.
///
///   RigOptions rig;                                // six small cameras, 20 beams
///   RigOptions large = RigOptions::reference();    // 1600 x 900 and 32 beams
struct RigOptions {
  std::vector<CameraOptions> cameras = small_cameras();
  LidarOptions lidar{};
  std::int64_t samples_per_side = 2;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("cameras", cameras, "the cameras, in the order in which the tables list them");
    visitor("lidar", lidar, "the LiDAR");
    visitor("samples_per_side", samples_per_side, "rays per pixel along each side", config::Range{.min = 1, .max = 8});
  }
  /// Refuses names that are empty, doubled or unfit for a folder, and a highest ring below the lowest.
  void validate() const;

  static RigOptions reference();
};

}  // namespace camber::simulation
