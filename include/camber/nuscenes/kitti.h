#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "camber/nuscenes/dataset_writer.h"

namespace camber::nuscenes {

struct KittiOptions {
  std::string version = "v1.0-kitti";  ///< the folder of the tables
  double val_share = 0.2;              ///< of the frames, where the folder has no ImageSets
  std::uint64_t seed = 0;              ///< of the choice of these frames
  int jpeg_quality = 95;
  int threads = 0;
  std::function<void(std::int64_t)> progress{};  ///< told of frames that are done
};

struct KittiImport {
  WrittenCounts counts{};
  std::map<std::string, std::int64_t> left_out{};  ///< labels of types that nuScenes has no class for, by type
  std::map<std::string, std::int64_t> splits{};    ///< frames of each
  std::int64_t without_labels = 0;                 ///< frames without a label file
};

/// Copies KITTI's object detection data (the folder with velodyne/, calib/ and, where they are, label_2/, image_2/ and
/// image_3/; or the one above it with training/) into the nuScenes schema.
///
///   lidar to camera i:  T_i = [I | K_i^-1 p_i] R0_rect Tr_velo_to_cam,   P_i = K_i [I | K_i^-1 p_i]
///   box centre:         inverse(R0_rect Tr_velo_to_cam) (x, y - h / 2, z),   heading along (cos ry, 0, -sin ry)
///
/// - Every frame is a scene of its own, as the frames of the object data are not in sequence: there are no velocities
///   and no sweeps. Channels are LIDAR_TOP, CAM_LEFT (image_2) and CAM_RIGHT (image_3); the ego frame is the LiDAR's,
///   1.73 m lower, on the ground.
/// - Car and Van become vehicle.car, Truck vehicle.truck, Pedestrian and Person_sitting human.pedestrian.adult, Cyclist
///   vehicle.bicycle with a rider; other types are left out and counted.
/// - Images become JPEG, reflectance 0 to 1 intensity 0 to 255; the ring of a point, which the files do not tell, is
///   its step of elevation between -24.8 and 2 degrees in 64.
/// - Splits are ImageSets/train.txt, val.txt and test.txt beside or above the folder, else a share drawn by the seed.
KittiImport import_kitti(const std::filesystem::path& folder, const std::filesystem::path& out,
                         const KittiOptions& options = {});

}  // namespace camber::nuscenes
