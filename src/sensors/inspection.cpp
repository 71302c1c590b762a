#include "camber/sensors/inspection.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>

#include "camber/sensors/image.h"
#include "camber/sensors/points.h"
#include "camber/storage/file.h"
#include "camber/threads/tasks.h"
#include "sensors/missed.h"

namespace camber::sensors {
namespace {

constexpr std::size_t kListedProblems = 20;

// The bin of a value: the last edge that is not above it; -1 below the first.
std::int64_t bin_of(const std::vector<double>& edges, double value) {
  return std::upper_bound(edges.begin(), edges.end(), value) - edges.begin() - 1;
}

double distance_from_ego(const nuscenes::Dataset& dataset, nuscenes::Index sample,
                         const nuscenes::SampleAnnotation& annotation) {
  const nuscenes::Index row = dataset.key_frame(sample, dataset.reference_channel());
  if (row == nuscenes::kNone) return 0;
  const nuscenes::EgoPose& ego = dataset.tables().ego_pose[dataset.tables().sample_data[row].ego_pose];
  return std::hypot(annotation.translation[0] - ego.translation[0], annotation.translation[1] - ego.translation[1]);
}

void count_objects(const nuscenes::Dataset& dataset, const nuscenes::Split& split, const InspectionOptions& options,
                   Inspection& result) {
  const nuscenes::Tables& tables = dataset.tables();
  std::map<nuscenes::Index, CategoryCounts> counts;
  std::map<nuscenes::Index, std::set<nuscenes::Index>> instances;
  for (const nuscenes::Index sample : split.samples) {
    const auto annotations = tables.annotations_of(sample);
    result.samples_without_objects += annotations.empty();
    for (const nuscenes::Index row : annotations) {
      const nuscenes::SampleAnnotation& annotation = tables.sample_annotation[row];
      const nuscenes::Index category = tables.instance[annotation.instance].category;
      CategoryCounts& entry = counts[category];
      entry.by_distance.resize(options.distance_edges.size());
      entry.by_points.resize(options.point_edges.size());
      entry.by_visibility.resize(tables.visibility.size() + 1);
      ++entry.objects;
      ++result.objects;
      instances[category].insert(annotation.instance);
      const auto add = [](std::vector<std::int64_t>& bins, std::int64_t bin) {
        if (bin >= 0) ++bins[static_cast<std::size_t>(bin)];
      };
      add(entry.by_distance, bin_of(options.distance_edges, distance_from_ego(dataset, sample, annotation)));
      add(entry.by_points, bin_of(options.point_edges, annotation.lidar_points));
      add(entry.by_visibility, annotation.visibility == nuscenes::kNone
                                   ? static_cast<std::int64_t>(tables.visibility.size())
                                   : annotation.visibility);
      entry.without_velocity += std::isnan(dataset.velocity_of(annotation)[0]);
    }
  }
  for (auto& [category, entry] : counts) {
    entry.category = tables.category[category].name;
    entry.instances = static_cast<std::int64_t>(instances[category].size());
    result.categories.push_back(std::move(entry));
  }
  std::stable_sort(result.categories.begin(), result.categories.end(),
                   [](const CategoryCounts& a, const CategoryCounts& b) { return a.objects > b.objects; });
}

double median_interval(const nuscenes::Dataset& dataset, const nuscenes::Split& split) {
  std::vector<double> intervals;
  for (const nuscenes::Index row : split.samples) {
    const nuscenes::Sample& sample = dataset.tables().sample[row];
    if (sample.previous == nuscenes::kNone) continue;
    const nuscenes::Sample& previous = dataset.tables().sample[sample.previous];
    intervals.push_back(1e-6 * static_cast<double>(sample.timestamp - previous.timestamp));
  }
  if (intervals.empty()) return 0;
  const auto middle = intervals.begin() + static_cast<std::ptrdiff_t>(intervals.size() / 2);
  std::nth_element(intervals.begin(), middle, intervals.end());
  return *middle;
}

// The sample_data rows of a split in the order of their table.
std::vector<nuscenes::Index> rows_of(const nuscenes::Dataset& dataset, const nuscenes::Split& split) {
  const nuscenes::Tables& tables = dataset.tables();
  std::vector<bool> wanted(tables.sample.size());
  for (const nuscenes::Index sample : split.samples) wanted[static_cast<std::size_t>(sample)] = true;
  std::vector<nuscenes::Index> rows;
  for (std::size_t row = 0; row < tables.sample_data.size(); ++row)
    if (wanted[static_cast<std::size_t>(tables.sample_data[static_cast<nuscenes::Index>(row)].sample)])
      rows.push_back(static_cast<nuscenes::Index>(row));
  return rows;
}

// Empty when the file is good, else what is wrong with it. `missing` tells whether it is there at all.
std::string problem_of(const nuscenes::Dataset& dataset, const nuscenes::SampleData& data, FileCheck check,
                       bool& missing) {
  const std::filesystem::path path = dataset.root() / data.filename;
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  missing = static_cast<bool>(error);
  const std::string position = "sample_data '" + std::string(data.token) + "', " + path.string() + ": ";
  if (missing) return position + "missing";
  const nuscenes::Modality modality = dataset.sensor_of(data).modality;
  if (size == 0 && modality != nuscenes::Modality::kRadar) return position + "empty";
  if (check != FileCheck::kRead || !data.is_key_frame) return {};
  try {
    storage::check_inside(dataset.root(), path);
    std::int64_t left_out = 0;
    if (modality == nuscenes::Modality::kLidar) read_lidar_file(path, &left_out);
    if (left_out > 0) return position + std::to_string(left_out) + " points are not finite";
    if (modality == nuscenes::Modality::kCamera) {
      const auto transform = geometry::ImageTransform::fit_bottom(data.width, data.height, data.width, data.height);
      load_image(path, {data.width, data.height}, transform);
    }
  } catch (const std::exception& damage) {
    return position + damage.what();
  }
  return {};
}

void check_files(const nuscenes::Dataset& dataset, const std::vector<nuscenes::Index>& rows,
                 const InspectionOptions& options, Inspection& result,
                 std::map<std::string_view, SensorCounts>& sensors) {
  constexpr std::size_t kRowsPerTask = 64;
  std::mutex noting;
  std::map<std::size_t, std::string> problems;  // by position, so that the list does not depend on the threads
  threads::for_each_task((rows.size() + kRowsPerTask - 1) / kRowsPerTask, options.threads, [&](std::size_t task) {
    const std::size_t end = std::min(rows.size(), (task + 1) * kRowsPerTask);
    for (std::size_t i = task * kRowsPerTask; i < end; ++i) {
      const nuscenes::SampleData& data = dataset.tables().sample_data[rows[i]];
      bool missing = false;
      std::string problem = problem_of(dataset, data, options.files, missing);
      if (problem.empty()) continue;
      const std::lock_guard lock(noting);
      SensorCounts& sensor = sensors.at(dataset.sensor_of(data).channel);
      ++(missing ? sensor.missing : sensor.damaged);
      problems.emplace(i, std::move(problem));
      if (problems.size() > kListedProblems) problems.erase(std::prev(problems.end()));
    }
    const std::lock_guard lock(noting);
    if (options.progress) options.progress(static_cast<std::int64_t>(end - task * kRowsPerTask));
  });
  for (auto& [position, problem] : problems) result.problems.push_back(std::move(problem));
}

// What the tables say that no sensor can be: intrinsics that project nothing, scenes without a sample.
void check_tables(const nuscenes::Dataset& dataset, Inspection& result) {
  const nuscenes::Tables& tables = dataset.tables();
  std::int64_t cameras = 0, scenes = 0;
  std::string_view camera, scene;
  for (const nuscenes::CalibratedSensor& row : tables.calibrated_sensor)
    if (row.intrinsic && !geometry::can_project(*row.intrinsic) && cameras++ == 0) camera = row.token;
  for (const nuscenes::Scene& row : tables.scene)
    if (row.first_sample == nuscenes::kNone && scenes++ == 0) scene = row.name;
  std::int64_t boxes = 0;
  std::string_view box;
  for (const nuscenes::SampleAnnotation& row : tables.sample_annotation)
    if (!(row.size[0] > 0 && row.size[1] > 0 && row.size[2] > 0) && boxes++ == 0) box = row.token;
  if (boxes > 0)
    result.problems.push_back("sample_annotation: " + std::to_string(boxes) +
                              " rows have a size that is not above 0, the first is '" + std::string(box) + "'");
  if (cameras > 0)
    result.problems.push_back("calibrated_sensor: " + std::to_string(cameras) +
                              " rows have a camera_intrinsic that cannot be inverted, the first is '" +
                              std::string(camera) + "'");
  if (scenes > 0)
    result.problems.push_back("scene: " + std::to_string(scenes) + " rows have no sample, the first is '" +
                              std::string(scene) + "'");
}

void count_files(const nuscenes::Dataset& dataset, const nuscenes::Split& split, const InspectionOptions& options,
                 Inspection& result) {
  const nuscenes::Tables& tables = dataset.tables();
  std::map<std::string_view, SensorCounts> sensors;
  for (const nuscenes::Sensor& sensor : tables.sensor)
    sensors[sensor.channel] = {.channel = std::string(sensor.channel), .modality = sensor.modality};
  const std::vector<nuscenes::Index> rows = rows_of(dataset, split);
  for (const nuscenes::Index row : rows) {
    const nuscenes::SampleData& data = tables.sample_data[row];
    SensorCounts& sensor = sensors.at(dataset.sensor_of(data).channel);
    ++(data.is_key_frame ? sensor.key_frames : sensor.sweeps);
  }
  for (const nuscenes::Index sample : split.samples)
    for (auto& [channel, sensor] : sensors) sensor.absent += dataset.key_frame(sample, channel) == nuscenes::kNone;
  if (options.files != FileCheck::kSkip) check_files(dataset, rows, options, result, sensors);
  std::set<std::string_view> listed;
  for (const nuscenes::Sensor& sensor : tables.sensor)
    if (listed.insert(sensor.channel).second) result.sensors.push_back(sensors.at(sensor.channel));
}

}  // namespace

std::int64_t files_of(const nuscenes::Dataset& dataset, const nuscenes::Split& split) {
  return static_cast<std::int64_t>(rows_of(dataset, split).size());
}

Inspection inspect(const nuscenes::Dataset& dataset, const nuscenes::Split& split, const InspectionOptions& options) {
  const auto ascends = [](const std::vector<double>& edges) {
    return !edges.empty() && std::is_sorted(edges.begin(), edges.end(), std::less_equal<>());
  };
  if (!ascends(options.distance_edges) || !ascends(options.point_edges))
    throw std::invalid_argument("[inspect] distance_edges and point_edges must be ascending numbers");
  const nuscenes::Tables& tables = dataset.tables();
  Inspection result{.root = dataset.root().string(),
                    .version = dataset.version(),
                    .split = split.name,
                    .split_source = split.source,
                    .files = options.files,
                    .distance_edges = options.distance_edges,
                    .point_edges = options.point_edges};
  const auto add = [&result](const auto& table) {
    result.tables.emplace_back(table.name(), static_cast<std::int64_t>(table.size()));
  };
  add(tables.category), add(tables.attribute), add(tables.visibility), add(tables.instance), add(tables.sensor),
      add(tables.calibrated_sensor), add(tables.ego_pose), add(tables.log), add(tables.scene), add(tables.sample),
      add(tables.sample_data), add(tables.sample_annotation), add(tables.map);
  std::set<nuscenes::Index> scenes;
  for (const nuscenes::Index sample : split.samples) scenes.insert(tables.sample[sample].scene);
  result.scenes = static_cast<std::int64_t>(scenes.size());
  result.samples = static_cast<std::int64_t>(split.samples.size());
  result.median_interval = median_interval(dataset, split);
  for (const nuscenes::Visibility& visibility : tables.visibility)
    result.visibility_levels.emplace_back(visibility.level);
  count_objects(dataset, split, options, result);
  check_tables(dataset, result);
  count_files(dataset, split, options, result);
  result.missed = missed_by_detector(dataset, split, options, result);
  return result;
}

}  // namespace camber::sensors
