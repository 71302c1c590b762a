#include "nuscenes/table_rows.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>

#include "camber/json/fields.h"
#include "camber/nuscenes/paths.h"

namespace camber::nuscenes {
namespace {

using json::Value;
using json::ValueError;

using json::optional;
using json::read_fields;
using json::required;

template <class Row>
Index resolve_token(const Table<Row>& table, std::string_view token, std::string_view field) {
  const Index row = table.find(token);
  if (row == kNone)
    throw ValueError(std::string(field) + " '" + json::shown_text(token) + "' is not in " + table.name() + ".json");
  return row;
}

template <class Row>
Index resolve(const Table<Row>& table, Value value, std::string_view field) {
  return resolve_token(table, json::text(value, field), field);
}

// Fields of the commonest kinds: text that the table keeps, a link to a table not read yet, a row of one that is.
template <class Row>
auto keeps(RowContext<Row>& context, std::string_view name, std::string_view& text) {
  return [&context, name, &text](Value v) { text = context.keep(v, name); };
}

template <class Row>
auto keeps_link(RowContext<Row>& context, std::string_view name, std::string_view& link) {
  return [&context, name, &link](Value v) { link = context.keep_link(v, name); };
}

template <class Row>
auto required_row(const Table<Row>& table, std::string_view name, Index& row) {
  return required(
      name, [&table, name, &row](Value v) { row = resolve(table, v, name); });
}

geometry::Vector3 read_vector(Value value, std::string_view field) {
  geometry::Vector3 vector{};
  json::numbers(value, field, vector);
  return vector;
}

geometry::Quaternion read_rotation(Value value) {
  std::array<double, 4> parts{};
  json::numbers(value, "rotation", parts);
  return {parts[0], parts[1], parts[2], parts[3]};
}

// Poses must turn something; annotations may have any quaternion, as in the devkit.
geometry::Quaternion read_pose_rotation(Value value) {
  const geometry::Quaternion rotation = read_rotation(value);
  const double length = std::hypot(std::hypot(rotation.w, rotation.x), std::hypot(rotation.y, rotation.z));
  if (!(length > 1e-6 && length < 1e6)) throw ValueError("rotation must be a quaternion with a length above 0");
  return rotation;
}

// Microseconds; differences of two must not overflow.
std::int64_t read_timestamp(Value value) {
  constexpr std::int64_t kLatest = std::int64_t{1} << 62;
  const std::int64_t time = json::integer(value, "timestamp");
  if (time < 0 || time > kLatest)
    throw ValueError("timestamp must lie between 0 and 2^62 microseconds, got " + std::to_string(time));
  return time;
}

std::int32_t read_count(Value value, std::string_view field) {
  const std::int64_t count = json::integer(value, field);
  if (count < 0 || count > std::numeric_limits<std::int32_t>::max())
    throw ValueError(std::string(field) + " must lie between 0 and 2147483647, got " + std::to_string(count));
  return static_cast<std::int32_t>(count);
}

std::optional<geometry::Matrix3> read_intrinsic(Value value) {
  geometry::Matrix3 matrix{};
  std::size_t rows = 0;
  json::for_each_element(value, "camera_intrinsic", [&](Value row) {
    if (rows < 3)
      json::numbers(row, "a row of camera_intrinsic", std::span(matrix).subspan(3 * rows, 3));
    else
      json::skip(row);
    ++rows;
  });
  if (rows == 0) return std::nullopt;
  if (rows != 3) throw ValueError("camera_intrinsic must be empty or have 3 rows, got " + std::to_string(rows));
  return matrix;
}

// "v40-60" -> 0.5.
std::optional<double> share_of(std::string_view level) {
  if (level.empty() || level.front() != 'v') return std::nullopt;
  double low = 0, high = 0;
  const char* const end = level.data() + level.size();
  const auto first = std::from_chars(level.data() + 1, end, low);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '-') return std::nullopt;
  const auto second = std::from_chars(first.ptr + 1, end, high);
  if (second.ec != std::errc() || second.ptr != end || !(low >= 0 && high <= 100 && low <= high)) return std::nullopt;
  return (low + high) / 200;
}

Modality modality_of(std::string_view name) {
  if (name == "camera") return Modality::kCamera;
  if (name == "lidar") return Modality::kLidar;
  if (name == "radar") return Modality::kRadar;
  return Modality::kOther;
}

// Categories and attributes.
template <class Row>
void read_described_row(Value value, RowContext<Row>& context, Row& row) {
  read_fields(value, "a row", required("token", keeps(context, "token", row.token)),
              required("name", keeps(context, "name", row.name)),
              optional("description", keeps(context, "description", row.description)));
}

}  // namespace

void read_row(Value value, RowContext<Category>& context, Category& row) {
  read_described_row(value, context, row);
}

void read_row(Value value, RowContext<Attribute>& context, Attribute& row) {
  read_described_row(value, context, row);
}

void read_row(Value value, RowContext<Visibility>& context, Visibility& row) {
  read_fields(value, "a row", required("token", keeps(context, "token", row.token)),
              required("level", keeps(context, "level", row.level)),
              optional("description", keeps(context, "description", row.description)));
  row.share = share_of(row.level);
}

void read_row(Value value, RowContext<Instance>& context, Instance& row) {
  PendingLinks links;
  read_fields(value, "a row", required("token", keeps(context, "token", row.token)),
              required_row(context.tables.category, "category_token", row.category),
              optional("nbr_annotations", [&](Value v) { row.annotation_count = json::integer(v, "nbr_annotations"); }),
              optional("first_annotation_token", keeps_link(context, "first_annotation_token", links.first)),
              optional("last_annotation_token", keeps_link(context, "last_annotation_token", links.second)));
  context.chunk.links.push_back(links);
}

void read_row(Value value, RowContext<Sensor>& context, Sensor& row) {
  read_fields(value, "a row", required("token", keeps(context, "token", row.token)),
              required("channel", keeps(context, "channel", row.channel)),
              required(
                  "modality", [&](Value v) { row.modality = modality_of(json::text(v, "modality")); }));
}

void read_row(Value value, RowContext<CalibratedSensor>& context, CalibratedSensor& row) {
  read_fields(value, "a row", required("token", keeps(context, "token", row.token)),
              required_row(context.tables.sensor, "sensor_token", row.sensor),
              required("translation", [&](Value v) { row.translation = read_vector(v, "translation"); }),
              required("rotation", [&](Value v) { row.rotation = read_pose_rotation(v); }),
              required("camera_intrinsic", [&](Value v) { row.intrinsic = read_intrinsic(v); }));
  if (context.tables.sensor[row.sensor].modality == Modality::kCamera && !row.intrinsic)
    throw ValueError("camera_intrinsic of a camera must have 3 rows, got none");
}

void read_row(Value value, RowContext<EgoPose>& context, EgoPose& row) {
  read_fields(value, "a row", required("token", keeps(context, "token", row.token)),
              required(
                  "timestamp", [&](Value v) { row.timestamp = read_timestamp(v); }),
              required(
                  "translation", [&](Value v) { row.translation = read_vector(v, "translation"); }),
              required(
                  "rotation", [&](Value v) { row.rotation = read_pose_rotation(v); }));
}

void read_row(Value value, RowContext<Log>& context, Log& row) {
  read_fields(value, "a row", required("token", keeps(context, "token", row.token)),
              optional("logfile", keeps(context, "logfile", row.logfile)),
              optional("vehicle", keeps(context, "vehicle", row.vehicle)),
              optional("date_captured", keeps(context, "date_captured", row.date_captured)),
              optional("location", keeps(context, "location", row.location)));
}

void read_row(Value value, RowContext<Scene>& context, Scene& row) {
  PendingLinks links;
  read_fields(value, "a row", required("token", keeps(context, "token", row.token)),
              required("name", keeps(context, "name", row.name)),
              optional("description", keeps(context, "description", row.description)),
              required_row(context.tables.log, "log_token", row.log),
              optional("nbr_samples", [&](Value v) { row.sample_count = json::integer(v, "nbr_samples"); }),
              required("first_sample_token", keeps_link(context, "first_sample_token", links.first)),
              required("last_sample_token", keeps_link(context, "last_sample_token", links.second)));
  context.chunk.links.push_back(links);
}

void read_row(Value value, RowContext<Sample>& context, Sample& row) {
  PendingLinks links;
  read_fields(value, "a row", required("token", keeps(context, "token", row.token)),
              required("timestamp", [&](Value v) { row.timestamp = read_timestamp(v); }),
              required_row(context.tables.scene, "scene_token", row.scene),
              required("prev", keeps_link(context, "prev", links.first)),
              required("next", keeps_link(context, "next", links.second)));
  context.chunk.links.push_back(links);
}

void read_row(Value value, RowContext<SampleData>& context, SampleData& row) {
  const Tables& tables = context.tables;
  PendingLinks links;
  read_fields(value, "a row", required("token", keeps(context, "token", row.token)),
              required_row(tables.sample, "sample_token", row.sample),
              required_row(tables.ego_pose, "ego_pose_token", row.ego_pose),
              required_row(tables.calibrated_sensor, "calibrated_sensor_token", row.calibrated_sensor),
              required("timestamp", [&](Value v) { row.timestamp = read_timestamp(v); }),
              required("is_key_frame", [&](Value v) { row.is_key_frame = json::boolean(v, "is_key_frame"); }),
              required("filename", keeps(context, "filename", row.filename)),
              optional("width", [&](Value v) { row.width = read_count(v, "width"); }),
              optional("height", [&](Value v) { row.height = read_count(v, "height"); }),
              required("prev", keeps_link(context, "prev", links.first)),
              required("next", keeps_link(context, "next", links.second)));
  if (!stays_inside(row.filename))
    throw ValueError(
        "filename must stay inside the data set's folder (relative, at most 1024 bytes, no control characters), got '" +
        json::shown_text(row.filename) + "'");
  context.chunk.links.push_back(links);
}

void read_row(Value value, RowContext<SampleAnnotation>& context, SampleAnnotation& row) {
  const Tables& tables = context.tables;
  std::vector<Index>& attributes = context.chunk.attributes;
  PendingLinks links;
  read_fields(value, "a row", required("token", keeps(context, "token", row.token)),
              required_row(tables.sample, "sample_token", row.sample),
              required_row(tables.instance, "instance_token", row.instance),
              optional("visibility_token",
                       [&](Value v) {
                         const std::string_view token = json::text(v, "visibility_token");
                         row.visibility =
                             token.empty() ? kNone : resolve_token(tables.visibility, token, "visibility_token");
                       }),
              required("attribute_tokens",
                       [&](Value v) {
                         row.first_attribute = static_cast<std::uint32_t>(attributes.size());
                         json::for_each_element(v, "attribute_tokens", [&](Value token) {
                           attributes.push_back(resolve(tables.attribute, token, "attribute_tokens"));
                         });
                         row.attribute_count = static_cast<std::uint32_t>(attributes.size()) - row.first_attribute;
                       }),
              required("translation", [&](Value v) { row.translation = read_vector(v, "translation"); }),
              required("size", [&](Value v) { row.size = read_vector(v, "size"); }),
              required("rotation", [&](Value v) { row.rotation = read_rotation(v); }),
              required("num_lidar_pts", [&](Value v) { row.lidar_points = read_count(v, "num_lidar_pts"); }),
              required("num_radar_pts", [&](Value v) { row.radar_points = read_count(v, "num_radar_pts"); }),
              required("prev", keeps_link(context, "prev", links.first)),
              required("next", keeps_link(context, "next", links.second)));
  context.chunk.links.push_back(links);
}

void read_row(Value value, RowContext<Map>& context, Map& row) {
  read_fields(value, "a row", required("token", keeps(context, "token", row.token)),
              optional("category", keeps(context, "category", row.category)),
              required("filename", keeps(context, "filename", row.filename)), required("log_tokens", [&](Value v) {
                row.logs.clear();
                json::for_each_element(v, "log_tokens", [&](Value token) {
                  row.logs.push_back(resolve(context.tables.log, token, "log_tokens"));
                });
              }));
  if (!row.filename.empty() && !stays_inside(row.filename))
    throw ValueError(
        "filename must stay inside the data set's folder (relative, at most 1024 bytes, no control characters), got '" +
        json::shown_text(row.filename) + "'");
}

}  // namespace camber::nuscenes
