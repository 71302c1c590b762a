#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "camber/geometry/transform.h"
#include "camber/nuscenes/table.h"

/// The tables of a data set in the nuScenes v1.0 schema, read in one streaming pass a file and joined by token.
namespace camber::nuscenes {

/// What a sensor is; other modalities than these are kept and never looked at.
enum class Modality : std::uint8_t { kCamera, kLidar, kRadar, kOther };

struct Category {
  std::string_view token{}, name{}, description{};
};

struct Attribute {
  std::string_view token{}, name{}, description{};
};

/// How much of an object the cameras see, as a range of per cent: level "v40-60".
struct Visibility {
  std::string_view token{}, level{}, description{};
  /// The middle of the range as a share, 0.5 for "v40-60"; nothing when the level is written otherwise.
  std::optional<double> share{};
};

struct Instance {
  std::string_view token{};
  Index category = kNone;
  Index first_annotation = kNone, last_annotation = kNone;
  std::int64_t annotation_count = 0;
};

struct Sensor {
  std::string_view token{}, channel{};
  Modality modality = Modality::kOther;
};

struct CalibratedSensor {
  std::string_view token{};
  Index sensor = kNone;
  geometry::Vector3 translation{};  ///< sensor to ego
  geometry::Quaternion rotation{};
  std::optional<geometry::Matrix3> intrinsic{};  ///< cameras only
};

struct EgoPose {
  std::string_view token{};
  std::int64_t timestamp = 0;       ///< microseconds
  geometry::Vector3 translation{};  ///< ego to global
  geometry::Quaternion rotation{};
};

struct Log {
  std::string_view token{}, logfile{}, vehicle{}, date_captured{}, location{};
};

struct Scene {
  std::string_view token{}, name{}, description{};
  Index log = kNone;
  Index first_sample = kNone, last_sample = kNone;
  std::int64_t sample_count = 0;
};

struct Sample {
  std::string_view token{};
  std::int64_t timestamp = 0;
  Index scene = kNone;
  Index previous = kNone, next = kNone;
};

/// One file of one sensor: a key frame's or a sweep's.
struct SampleData {
  std::string_view token{}, filename{};
  std::int64_t timestamp = 0;
  Index sample = kNone, ego_pose = kNone, calibrated_sensor = kNone;
  Index previous = kNone, next = kNone;
  std::int32_t width = 0, height = 0;
  bool is_key_frame = false;
};

struct SampleAnnotation {
  std::string_view token{};
  Index sample = kNone, instance = kNone, visibility = kNone;
  Index previous = kNone, next = kNone;
  std::uint32_t first_attribute = 0, attribute_count = 0;  ///< see Tables::attributes_of
  std::int32_t lidar_points = 0, radar_points = 0;
  geometry::Vector3 translation{};  ///< global
  geometry::Vector3 size{};         ///< width, length, height
  geometry::Quaternion rotation{};
};

struct Map {
  std::string_view token{}, category{}, filename{};
  std::vector<Index> logs{};
};

/// All thirteen tables. Tokens are resolved to row numbers; text points into the tables' own store, so that a Tables
/// can be moved but not copied. A reader of the tables (and a writer of tests) needs nothing else.
///
///   const Tables tables = load_tables("/data/nuscenes", "v1.0-mini");
///   for (const Index row : tables.annotations_of(tables.sample.find(token))) { ... tables.sample_annotation[row] ... }
struct Tables {
  Table<Category> category{"category"};
  Table<Attribute> attribute{"attribute"};
  Table<Visibility> visibility{"visibility"};
  Table<Instance> instance{"instance"};
  Table<Sensor> sensor{"sensor"};
  Table<CalibratedSensor> calibrated_sensor{"calibrated_sensor"};
  Table<EgoPose> ego_pose{"ego_pose"};
  Table<Log> log{"log"};
  Table<Scene> scene{"scene"};
  Table<Sample> sample{"sample"};
  Table<SampleData> sample_data{"sample_data"};
  Table<SampleAnnotation> sample_annotation{"sample_annotation"};
  Table<Map> map{"map"};

  Tables() = default;
  Tables(const Tables&) = delete;
  Tables& operator=(const Tables&) = delete;
  Tables(Tables&&) = default;
  Tables& operator=(Tables&&) = default;

  /// The annotations of a sample in the order of their table.
  std::span<const Index> annotations_of(Index sample) const;
  /// The key frame's files of a sample, every sensor's, in the order of their table.
  std::span<const Index> key_frames_of(Index sample) const;
  /// The attributes of an annotation.
  std::span<const Index> attributes_of(const SampleAnnotation& annotation) const;

  /// Filled by load_tables: the text of all rows and the lists behind the three functions above.
  TextStore text{};
  std::vector<Index> annotations_by_sample{}, key_frames_by_sample{}, attributes{};
  std::vector<std::uint32_t> annotation_offsets{}, key_frame_offsets{};
};

/// Reads <root>/<version>/*.json. A missing or damaged file, a token that stands nowhere or twice, and a file name that
/// leaves the data set's folder are refused in a sentence with table, token and path. `threads` 0: as many as the
/// machine has; the result does not depend on it.
Tables load_tables(const std::filesystem::path& root, const std::string& version, int threads = 0);

}  // namespace camber::nuscenes
