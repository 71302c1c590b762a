#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "camber/nuscenes/dataset.h"
#include "camber/nuscenes/splits.h"
#include "camber/sensors/frame.h"

/// A data set looked over before use.
namespace camber::sensors {

enum class FileCheck {
  kSkip,   ///< the tables alone
  kExist,  ///< every file that they name must be there and not empty
  kRead,   ///< the key frames' LiDAR files and images are read and decoded as well
};

/// A detector as far as data can miss it.
struct DetectorView {
  FrameOptions frame{};                ///< how it loads a frame; frame.range is the space that it looks at
  std::vector<std::string> classes{};  ///< that it tells apart
  std::int64_t queries = 0;            ///< objects that it can find in a frame
};

struct InspectionOptions {
  FileCheck files = FileCheck::kExist;
  std::vector<double> distance_edges{0, 10, 20, 30, 40, 50};  ///< metres; one more bin beyond the last
  std::vector<double> point_edges{0, 1, 5, 20, 100};          ///< LiDAR points; the last bin is open
  int threads = 0;
  /// The class that a category belongs to, empty for none; absent: every category is a class.
  std::function<std::string(std::string_view category)> class_of{};
  std::optional<DetectorView> detector{};  ///< what this one would miss is said too
  /// Told now and then how many more files have been looked at.
  std::function<void(std::int64_t)> progress{};
};

/// The annotated objects of one category.
struct CategoryCounts {
  std::string category{};
  std::int64_t objects = 0, instances = 0;
  std::vector<std::int64_t> by_distance{};    ///< [edges]: from the ego vehicle, in the plane
  std::vector<std::int64_t> by_visibility{};  ///< [levels of the visibility table + 1]: the last is not stated
  std::vector<std::int64_t> by_points{};      ///< [edges]
  std::int64_t without_velocity = 0;
};

/// The files of one sensor.
struct SensorCounts {
  std::string channel{};
  nuscenes::Modality modality = nuscenes::Modality::kOther;
  std::int64_t key_frames = 0, sweeps = 0;
  std::int64_t absent = 0;  ///< samples without a key frame of this sensor
  std::int64_t missing = 0, damaged = 0;
};

struct Inspection {
  std::string root{}, version{}, split{}, split_source{};
  std::vector<std::pair<std::string, std::int64_t>> tables{};  ///< name, rows
  std::int64_t scenes = 0, samples = 0, objects = 0, samples_without_objects = 0;
  double median_interval = 0;  ///< seconds between the samples of a scene
  FileCheck files = FileCheck::kSkip;
  std::vector<double> distance_edges{}, point_edges{};
  std::vector<std::string> visibility_levels{};
  std::vector<CategoryCounts> categories{};  ///< by number of objects, descending
  std::vector<SensorCounts> sensors{};       ///< in the order of the sensor table
  std::vector<std::string> problems{};       ///< the first of the missing and damaged files, a sentence each
  /// What a detector that is trained on this would not learn or could not find, a sentence each; empty: nothing.
  std::vector<std::string> missed{};
};

/// How many files inspect() will look at.
std::int64_t files_of(const nuscenes::Dataset& dataset, const nuscenes::Split& split);

/// Counts objects and files of a split.
Inspection inspect(const nuscenes::Dataset& dataset, const nuscenes::Split& split,
                   const InspectionOptions& options = {});

std::string to_text(const Inspection& inspection);
std::string to_json(const Inspection& inspection);
/// One row a category.
std::string to_csv(const Inspection& inspection);

}  // namespace camber::sensors
