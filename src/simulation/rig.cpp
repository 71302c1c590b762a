#include "camber/simulation/rig.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>

namespace camber::simulation {
namespace {

constexpr double kDegree = LidarOptions::kDegree;

// Where the six cameras of the nuScenes car sit, and how long before the LiDAR's sweep each is read: the LiDAR turns
// past them one after the other.
struct CameraMount {
  const char* name;
  double x, y, z, yaw, delay;
};
constexpr CameraMount kMounts[] = {
    {"CAM_FRONT", 1.70, 0.016, 1.51, 0, 35.5},       {"CAM_FRONT_RIGHT", 1.55, -0.493, 1.50, -55, 27.6},
    {"CAM_FRONT_LEFT", 1.52, 0.495, 1.51, 55, 43.1}, {"CAM_BACK", 0.03, 0.003, 1.57, 180, 10.4},
    {"CAM_BACK_LEFT", 1.04, 0.484, 1.57, 110, 0.5},  {"CAM_BACK_RIGHT", 1.02, -0.481, 1.56, -110, 20.1},
};

bool is_back(const CameraMount& mount) {
  return std::string_view(mount.name) == "CAM_BACK";
}

std::vector<CameraOptions> cameras_of(double field_of_view, double back_field_of_view, std::int64_t width,
                                      std::int64_t height, double horizon) {
  std::vector<CameraOptions> cameras;
  for (const CameraMount& mount : kMounts)
    cameras.push_back({.name = mount.name,
                       .x = mount.x,
                       .y = mount.y,
                       .z = mount.z,
                       .yaw = mount.yaw,
                       .field_of_view = is_back(mount) ? back_field_of_view : field_of_view,
                       .width = width,
                       .height = height,
                       .horizon = horizon,
                       .delay = mount.delay});
  return cameras;
}

bool is_folder_name(const std::string& name) {
  return !name.empty() &&
         std::all_of(
             name.begin(), name.end(),
             [](unsigned char letter) { return std::isalnum(letter) != 0 || letter == '_' || letter == '-'; });
}

}  // namespace

geometry::Matrix3 CameraOptions::intrinsic() const {
  const double focal = static_cast<double>(width) / 2 / std::tan(field_of_view / 2 * kDegree);
  return {focal, 0, static_cast<double>(width) / 2, 0, focal, horizon * static_cast<double>(height), 0, 0, 1};
}

geometry::Quaternion CameraOptions::rotation() const {
  // A level camera that looks ahead: its right is the car's -y, its down the car's -z, its forward the car's x.
  constexpr geometry::Quaternion kLevel{0.5, -0.5, 0.5, -0.5};
  const geometry::Quaternion down{std::cos(pitch * kDegree / 2), 0, std::sin(pitch * kDegree / 2), 0};
  return geometry::Quaternion::from_yaw(yaw * kDegree) * down * kLevel;
}

geometry::RigidTransform CameraOptions::to_ego() const {
  return geometry::RigidTransform::from(rotation(), {x, y, z});
}

double LidarOptions::elevation(std::int64_t ring) const {
  if (beams == 1) return lowest * kDegree;
  return (lowest + (highest - lowest) * static_cast<double>(ring) / static_cast<double>(beams - 1)) * kDegree;
}

std::vector<CameraOptions> small_cameras() {
  return cameras_of(70, 110, 120, 48, 0.375);
}

std::vector<CameraOptions> reference_cameras() {
  return cameras_of(64.56, 89.35, 1600, 900, 0.546);
}

RigOptions RigOptions::reference() {
  RigOptions rig{.cameras = reference_cameras()};
  rig.lidar.beams = 32;
  rig.lidar.lowest = -30.67;
  rig.lidar.highest = 10.67;
  rig.lidar.azimuths = 1084;
  rig.lidar.max_range = 100;
  rig.samples_per_side = 1;
  return rig;
}

void RigOptions::validate() const {
  std::set<std::string> names{lidar.name};
  if (!is_folder_name(lidar.name))
    throw std::invalid_argument("[rig] lidar.name must be letters, digits, '_' or '-', got '" + lidar.name + "'");
  for (const CameraOptions& camera : cameras) {
    if (!is_folder_name(camera.name))
      throw std::invalid_argument("[rig] cameras.name must be letters, digits, '_' or '-', got '" + camera.name + "'");
    if (!names.insert(camera.name).second)
      throw std::invalid_argument("[rig] every sensor must have a name of its own, got '" + camera.name + "' twice");
  }
  if (lidar.highest < lidar.lowest)
    throw std::invalid_argument("[rig] lidar.highest must be at least lidar.lowest (" + std::to_string(lidar.lowest) +
                                "), got " + std::to_string(lidar.highest));
}

}  // namespace camber::simulation
