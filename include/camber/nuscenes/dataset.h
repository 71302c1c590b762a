#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "camber/geometry/box.h"
#include "camber/geometry/transform.h"
#include "camber/nuscenes/tables.h"

namespace camber::nuscenes {

/// Where a sensor was when it delivered a file: sensor frame -> ego frame -> global frame.
struct SensorPose {
  geometry::RigidTransform sensor_to_ego{};
  geometry::RigidTransform ego_to_global{};
  geometry::RigidTransform sensor_to_global() const { return ego_to_global * sensor_to_ego; }
};

/// A data set in the nuScenes v1.0 schema, opened for reading: its tables, and the questions that need more than one of
/// them. Files of sensors are touched only when they are asked for.
///
///   const Dataset dataset("/data/nuscenes", "v1.0-mini");
///   const Index lidar = dataset.key_frame(sample, "LIDAR_TOP");
///   const auto points = read_lidar_file(dataset.path_of(dataset.tables().sample_data[lidar]));
class Dataset {
 public:
  /// Loads the tables; what is refused says load_tables.
  Dataset(std::filesystem::path root, std::string version, int threads = 0);

  const Tables& tables() const { return tables_; }
  const std::filesystem::path& root() const { return root_; }
  const std::string& version() const { return version_; }

  /// The file of a sensor, inside the data set's folder.
  /// Throws std::runtime_error where a symbolic link leads out of the data set.
  std::filesystem::path path_of(const SampleData& data) const;
  const Sensor& sensor_of(const SampleData& data) const {
    return tables_.sensor[tables_.calibrated_sensor[data.calibrated_sensor].sensor];
  }
  SensorPose pose_of(const SampleData& data) const;
  const CalibratedSensor& calibration_of(const SampleData& data) const {
    return tables_.calibrated_sensor[data.calibrated_sensor];
  }
  /// The category's name of an annotation, such as "vehicle.car".
  std::string_view category_of(const SampleAnnotation& annotation) const {
    return tables_.category[tables_.instance[annotation.instance].category].name;
  }

  /// The sample_data row of a channel at the sample's key frame; the last one of several; kNone when there is none.
  Index key_frame(Index sample, std::string_view channel) const;
  /// The channels of one modality in the order of the sensor table.
  std::vector<std::string> channels(Modality modality) const;
  /// The channel whose frame and ego pose stand for the sample: LIDAR_TOP where there is one, else the first LiDAR of
  /// the sensor table, else its first camera, else nothing.
  std::string reference_channel() const;

  /// The velocity of an annotated object in the global frame, m/s, as the devkit estimates it: the difference between
  /// the next and the previous annotation of the instance (or the one there is and this one) over the difference of
  /// 1e-6 * timestamp, each product rounded on its own. NaN for an instance seen once, and when the time between the
  /// two exceeds 1.5 s (3 s with a neighbour on both sides).
  geometry::Vector3 velocity_of(const SampleAnnotation& annotation) const;

  /// The annotation's box in the frame of a sensor; its pitch and roll in that frame are dropped.
  geometry::Box box_of(const SampleAnnotation& annotation, const SensorPose& sensor) const;

 private:
  std::filesystem::path root_;
  std::string version_;
  Tables tables_;
};

}  // namespace camber::nuscenes
