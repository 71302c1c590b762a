#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "camber/geometry/transform.h"
#include "camber/nuscenes/rig.h"
#include "camber/random/stream.h"

namespace camber::nuscenes {

/// The car's pose, ego frame to global frame, when a sensor was read.
struct WrittenPose {
  geometry::Vector3 translation{};
  geometry::Quaternion rotation{};
};

/// Where an object is at a key frame, in the global frame.
struct WrittenBox {
  std::string object{};    ///< names the object within its scene: the same in every frame that shows it
  std::string category{};  ///< "vehicle.car"
  geometry::Vector3 center{};
  double width = 0, length = 0, height = 0;    ///< metres
  geometry::Quaternion rotation{};             ///< of the box in the global frame
  std::vector<std::string> attributes{};       ///< "vehicle.moving"
  int visibility = 4;                          ///< 1 to 4: up to 40, 60, 80, 100 per cent are seen
  std::optional<std::int64_t> lidar_points{};  ///< absent: counted among the key frame's points
};

/// What a table's row is called: its kind ("sample", "annotation", ...), a name (a channel, an object, a category) and
/// a number (of the frame, of the file of a channel). Tokens must differ wherever these do.
using TokenMaker = std::function<std::string(std::string_view kind, const std::string& name, std::uint64_t number)>;

struct DatasetWriterOptions {
  std::string version = "v1.0-own";  ///< the folder of the tables
  std::vector<RigSensor> sensors{};  ///< the rig; a scene may have its own calibration of the same channels
  std::string location = "unknown", vehicle = "unknown", date = "2000-01-01";  ///< of the log table
  /// Categories and attributes that stand in the tables whether or not a box has them, each with its description;
  /// those that boxes bring follow in the order of the scenes.
  std::vector<std::pair<std::string, std::string>> categories{}, attributes{};
  std::vector<std::string> logs{"log"};  ///< log files; a scene belongs to one of them
  int jpeg_quality = 95;
  TokenMaker tokens{};  ///< of what scenes share; absent: made of the version and the names

  void validate() const;
};

struct SceneDescription {
  std::string name{};  ///< "scene-0001"; unlike that of every other scene
  std::string description{};
  std::size_t log = 0;               ///< of DatasetWriterOptions::logs
  std::vector<RigSensor> sensors{};  ///< absent: the data set's
  TokenMaker tokens{};               ///< absent: made of the version, the scene's name and the rest
};

/// What was written.
struct WrittenCounts {
  std::int64_t scenes = 0, frames = 0, files = 0, points = 0, boxes = 0, objects = 0, bytes = 0;
};

class DatasetWriter;

/// One scene as it is written: key frame by key frame, in the order of time. Files appear as they come, rows stay in
/// memory until finish(). A scene is used by one thread; several scenes may be written side by side.
class SceneWriter {
 public:
  SceneWriter(SceneWriter&&) noexcept;
  ~SceneWriter();

  /// Begins a key frame; what follows belongs to it. Refuses a time that is not after the frame before.
  void begin_frame(std::int64_t timestamp);
  /// A LiDAR's points, [n, 5]: x, y, z in metres in its frame, intensity 0 to 255, ring. `ego_to_global` is the car's
  /// pose at that time. A sweep (key_frame = false) is an earlier reading that belongs to the frame.
  void add_points(const std::string& channel, std::int64_t timestamp, const WrittenPose& ego_to_global,
                  std::span<const float> points, bool key_frame = true);
  /// A camera's image, [height, width, 3] of red, green and blue, of the size that the rig states; kept as JPEG.
  void add_image(const std::string& channel, std::int64_t timestamp, const WrittenPose& ego_to_global,
                 std::span<const std::uint8_t> rgb, bool key_frame = true);
  /// The same from the bytes of a JPEG file, which are kept as they are.
  void add_jpeg(const std::string& channel, std::int64_t timestamp, const WrittenPose& ego_to_global,
                std::string_view jpeg, bool key_frame = true);
  /// An object of the key frame.
  void add_box(const WrittenBox& box);
  /// Hands the rows over to the data set. A scene that is destroyed without it leaves no row.
  void finish();

 private:
  friend class DatasetWriter;
  class Work;
  explicit SceneWriter(std::unique_ptr<Work> work);
  std::unique_ptr<Work> work_;
};

/// Writes a data set in the nuScenes v1.0 schema from arrays: what Dataset reads, and nuScenes' devkit too.
///
///   DatasetWriter writer("/data/own", {.sensors = rig.sensors});
///   SceneWriter scene = writer.scene({.name = "scene-0001"});
///   for (const Recorded& frame : recording) {
///     scene.begin_frame(frame.timestamp);
///     scene.add_points("LIDAR_TOP", frame.timestamp, frame.pose, frame.points);
///     scene.add_image("CAM_FRONT", frame.image_timestamp, frame.image_pose, frame.rgb);
///     scene.add_box({.object = "17", .category = "vehicle.car", .center = ..., .width = 1.9, .length = 4.5, .height
///     = 1.6});
///   }
///   scene.finish();
///   writer.finish({{"train", {"scene-0001"}}});
///
/// Everything is checked as it comes and refused in one sentence with the scene, the frame and the argument. The tables
/// appear as a whole at finish(): a folder without them is not a data set. A folder that was new is removed when the
/// writer is destroyed without it, and written anew by the next writer when the process was killed; while one writes, a
/// second is told who does (storage/output_folder.h). A camera that has nothing at a frame is left
/// out of it; the first LiDAR (without one, the first camera) must deliver at every frame.
class DatasetWriter {
 public:
  /// Refuses a folder that holds this version already, and a rig that Rig::validate refuses.
  DatasetWriter(std::filesystem::path out, DatasetWriterOptions options);
  ~DatasetWriter();

  /// Begins a scene; any number may be open, in any thread. Rows stand in the order of the scenes' names.
  SceneWriter scene(const SceneDescription& description);
  /// Writes the tables; `splits` are lists of scenes' names, none: no splits.json. `further` are files beside the
  /// tables, by name. Refuses a scene that was begun and not finished, a split that names an unknown scene, and a data
  /// set without a frame.
  WrittenCounts finish(const std::vector<std::pair<std::string, std::vector<std::string>>>& splits = {},
                       const std::map<std::string, std::string>& further = {});

  class Work;

 private:
  std::unique_ptr<Work> work_;
};

/// 32 hexadecimal digits in the manner of nuScenes: the stream's next two numbers.
std::string token_of(random::Stream stream);

}  // namespace camber::nuscenes
