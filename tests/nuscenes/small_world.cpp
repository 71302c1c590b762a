#include "nuscenes/small_world.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include <turbojpeg.h>

namespace camber::tests {
namespace {

std::string quoted(const std::string& text) {
  return '"' + text + '"';
}

// Rows as "field: value" pairs, values as JSON text.
using Row = std::vector<std::pair<std::string, std::string>>;

std::string table_of(const std::vector<Row>& rows) {
  std::string text = "[\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text += "{\n";
    for (std::size_t j = 0; j < rows[i].size(); ++j)
      text += quoted(rows[i][j].first) + ": " + rows[i][j].second + (j + 1 < rows[i].size() ? ",\n" : "\n");
    text += i + 1 < rows.size() ? "},\n" : "}\n";
  }
  return text + "]";
}

constexpr std::int64_t kStart = 1532402927647951, kStep = 512345;  // microseconds

std::string sample_token(int scene, int sample, int samples) {
  return sample < 0 || sample >= samples ? "" : "sample-" + std::to_string(scene) + "-" + std::to_string(sample);
}

struct TestSensor {
  const char *channel, *modality;
  int width, height;
};
constexpr TestSensor kSensors[] = {
    {"LIDAR_TOP", "lidar", 0, 0}, {"CAM_FRONT", "camera", 160, 90}, {"CAM_BACK", "camera", 96, 64}};

// The LiDAR delivers twice a sample: a sweep, then the key frame.
void add_sample_data(std::vector<Row>& rows, std::vector<Row>& poses, int scene, int sample, int samples) {
  for (const TestSensor& sensor : kSensors) {
    const bool lidar = std::strcmp(sensor.modality, "lidar") == 0;
    for (int part = lidar ? 0 : 1; part < 2; ++part) {
      const bool key = part == 1;
      const auto token = [&](int number) {
        const int count = lidar ? 2 * samples : samples;
        if (number < 0 || number >= count) return std::string();
        return "data-" + std::to_string(scene) + "-" + sensor.channel + "-" + std::to_string(number);
      };
      const int number = lidar ? 2 * sample + part : sample;
      const std::int64_t time =
          kStart + std::int64_t{10000000} * scene + std::int64_t{kStep} * sample - (key ? 0 : kStep / 2);
      const std::string pose = "pose-" + token(number);
      poses.push_back({{"token", quoted(pose)},
                       {"timestamp", std::to_string(time)},
                       {"translation", "[" + std::to_string(100 + sample + 0.5 * part) + ", 200.0, 0.0]"},
                       {"rotation", "[1.0, 0.0, 0.0, 0.0]"}});
      rows.push_back({{"token", quoted(token(number))},
                      {"sample_token", quoted(sample_token(scene, sample, samples))},
                      {"ego_pose_token", quoted(pose)},
                      {"calibrated_sensor_token", quoted(std::string("calibration-") + sensor.channel)},
                      {"timestamp", std::to_string(time)},
                      {"fileformat", lidar ? "\"pcd\"" : "\"jpg\""},
                      {"is_key_frame", key ? "true" : "false"},
                      {"height", std::to_string(sensor.height)},
                      {"width", std::to_string(sensor.width)},
                      {"filename", quoted((key ? "samples/" : "sweeps/") + std::string(sensor.channel) + "/" +
                                          token(number) + (lidar ? ".pcd.bin" : ".jpg"))},
                      {"prev", quoted(token(number - 1))},
                      {"next", quoted(token(number + 1))}});
    }
  }
}

void add_annotations(std::vector<Row>& rows, int scene, int sample, int samples) {
  constexpr const char* kAttributes[] = {"[\"attribute-moving\"]", "[]", "[\"attribute-standing\"]"};
  for (int object = 0; object < 3; ++object) {
    const auto token = [&](int s) {
      return s < 0 || s >= samples || object == 1
                 ? std::string()
                 : "annotation-" + std::to_string(scene) + "-" + std::to_string(object) + "-" + std::to_string(s);
    };
    if (object == 1 && sample > 0) continue;  // seen once
    rows.push_back({{"token", quoted(object == 1 ? "annotation-" + std::to_string(scene) + "-1-0" : token(sample))},
                    {"sample_token", quoted(sample_token(scene, sample, samples))},
                    {"instance_token", quoted("instance-" + std::to_string(scene) + "-" + std::to_string(object))},
                    {"visibility_token", quoted(std::to_string(object + 1))},
                    {"attribute_tokens", kAttributes[object]},
                    {"translation", "[" + std::to_string(110 + object * 5 + sample) + ".0, 205.0, 1.0]"},
                    {"size", "[2.0, 4.0, 1.5]"},
                    {"rotation", "[0.7071067811865476, 0.0, 0.0, 0.7071067811865476]"},
                    {"prev", quoted(token(sample - 1))},
                    {"next", quoted(token(sample + 1))},
                    {"num_lidar_pts", std::to_string(object * 7)},
                    {"num_radar_pts", "1"}});
  }
}

void add_fixed_tables(TableTexts& tables) {
  tables["category"] = table_of({{{"token", "\"category-car\""}, {"name", "\"vehicle.car\""}},
                                 {{"token", "\"category-cone\""}, {"name", "\"movable_object.trafficcone\""}},
                                 {{"token", "\"category-adult\""}, {"name", "\"human.pedestrian.adult\""}}});
  tables["attribute"] = table_of({{{"token", "\"attribute-moving\""}, {"name", "\"vehicle.moving\""}},
                                  {{"token", "\"attribute-standing\""}, {"name", "\"pedestrian.standing\""}}});
  tables["visibility"] = table_of({{{"token", "\"1\""}, {"level", "\"v0-40\""}},
                                   {{"token", "\"2\""}, {"level", "\"v40-60\""}},
                                   {{"token", "\"3\""}, {"level", "\"v60-80\""}},
                                   {{"token", "\"4\""}, {"level", "\"v80-100\""}}});
  tables["log"] = table_of({{{"token", "\"log\""}, {"location", "\"small town\""}}});
  tables["map"] = table_of({{{"token", "\"map\""}, {"log_tokens", "[\"log\"]"}, {"filename", "\"maps/small.png\""}}});
  std::vector<Row> sensors, calibrations;
  for (const TestSensor& sensor : kSensors) {
    const std::string channel = sensor.channel;
    const bool camera = sensor.width > 0;
    sensors.push_back(
        {{"token", quoted("sensor-" + channel)}, {"channel", quoted(channel)}, {"modality", quoted(sensor.modality)}});
    calibrations.push_back(
        {{"token", quoted("calibration-" + channel)},
         {"sensor_token", quoted("sensor-" + channel)},
         {"translation", "[1.0, 0.0, 1.5]"},
         {"rotation", camera ? "[0.5, -0.5, 0.5, -0.5]" : "[1.0, 0.0, 0.0, 0.0]"},
         {"camera_intrinsic", camera ? "[[100.0, 0.0, 80.0], [0.0, 100.0, 45.0], [0.0, 0.0, 1.0]]" : "[]"}});
  }
  tables["sensor"] = table_of(sensors);
  tables["calibrated_sensor"] = table_of(calibrations);
}

}  // namespace

TableTexts small_tables(int scene_count, int samples) {
  TableTexts tables;
  add_fixed_tables(tables);
  std::vector<Row> scenes, sample_rows, data, poses, annotations, instances;
  constexpr const char* kCategories[] = {"category-car", "category-cone", "category-adult"};
  for (int scene = 0; scene < scene_count; ++scene) {
    scenes.push_back({{"token", quoted("scene-" + std::to_string(scene))},
                      {"log_token", "\"log\""},
                      {"nbr_samples", std::to_string(samples)},
                      {"first_sample_token", quoted(sample_token(scene, 0, samples))},
                      {"last_sample_token", quoted(sample_token(scene, samples - 1, samples))},
                      {"name", quoted("small-" + std::to_string(scene))},
                      {"description", "\"a \\\"small\\\" scene, \\u00e9\""}});
    for (int object = 0; object < 3; ++object) {
      const std::string prefix = "annotation-" + std::to_string(scene) + "-" + std::to_string(object) + "-";
      instances.push_back({{"token", quoted("instance-" + std::to_string(scene) + "-" + std::to_string(object))},
                           {"category_token", quoted(kCategories[object])},
                           {"nbr_annotations", object == 1 ? "1" : std::to_string(samples)},
                           {"first_annotation_token", quoted(prefix + "0")},
                           {"last_annotation_token", quoted(prefix + std::to_string(object == 1 ? 0 : samples - 1))}});
    }
    for (int sample = 0; sample < samples; ++sample) {
      sample_rows.push_back(
          {{"token", quoted(sample_token(scene, sample, samples))},
           {"timestamp", std::to_string(kStart + std::int64_t{10000000} * scene + std::int64_t{kStep} * sample)},
           {"prev", quoted(sample_token(scene, sample - 1, samples))},
           {"next", quoted(sample_token(scene, sample + 1, samples))},
           {"scene_token", quoted("scene-" + std::to_string(scene))}});
      add_sample_data(data, poses, scene, sample, samples);
      add_annotations(annotations, scene, sample, samples);
    }
  }
  tables["scene"] = table_of(scenes);
  tables["sample"] = table_of(sample_rows);
  tables["sample_data"] = table_of(data);
  tables["ego_pose"] = table_of(poses);
  tables["sample_annotation"] = table_of(annotations);
  tables["instance"] = table_of(instances);
  return tables;
}

TemporaryFolder::TemporaryFolder(const std::filesystem::path& inside) {
  std::string name = (inside / "camber-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

void write_bytes(const std::filesystem::path& path, const std::vector<std::uint8_t>& bytes) {
  write_text(path, std::string(bytes.begin(), bytes.end()));
}

void write_small_world(const std::filesystem::path& root, const TableTexts& tables, bool files) {
  for (const auto& [name, text] : tables) write_text(root / kSmallVersion / (name + ".json"), text);
  if (!files) return;
  std::map<std::string, std::vector<std::uint8_t>> jpegs;
  for (const TestSensor& sensor : kSensors)
    if (sensor.width > 0) jpegs[sensor.channel] = make_jpeg(sensor.width, sensor.height);
  for (int scene = 0; scene < kSmallScenes; ++scene) {
    const std::string prefix = "data-" + std::to_string(scene) + "-";
    for (int i = 0; i < 2 * kSmallSamples; ++i)
      write_bytes(root / (i % 2 == 1 ? "samples" : "sweeps") / "LIDAR_TOP" /
                      (prefix + "LIDAR_TOP-" + std::to_string(i) + ".pcd.bin"),
                  make_lidar(100));
    for (const auto& [channel, bytes] : jpegs)
      for (int i = 0; i < kSmallSamples; ++i)
        write_bytes(root / "samples" / channel / (prefix + channel + "-" + std::to_string(i) + ".jpg"), bytes);
  }
}

std::vector<std::uint8_t> make_jpeg(int width, int height) {
  std::vector<std::uint8_t> pixels;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < 3; ++c)
        pixels.push_back(static_cast<std::uint8_t>(c == 0 ? 255 * x / width : c == 1 ? 255 * y / height : 128));
  unsigned char* jpeg = nullptr;
  unsigned long size = 0;
  tjhandle encoder = tjInitCompress();
  const int error = tjCompress2(encoder, pixels.data(), width, 0, height, TJPF_RGB, &jpeg, &size, TJSAMP_444, 95, 0);
  tjDestroy(encoder);
  if (error != 0) throw std::runtime_error("no JPEG made");
  std::vector<std::uint8_t> bytes(jpeg, jpeg + size);
  tjFree(jpeg);
  return bytes;
}

std::vector<std::uint8_t> make_lidar(int count) {
  std::vector<float> values;
  for (int i = 0; i < count; ++i) {
    const double angle = 6.283185307179586 * i / count;
    for (const double value : {10 * std::cos(angle), 10 * std::sin(angle), -1.0, i % 256 * 1.0, i % 32 * 1.0})
      values.push_back(static_cast<float>(value));
  }
  std::vector<std::uint8_t> bytes(4 * values.size());
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::filesystem::path real_data() {
  const char* data = std::getenv("CAMBER_DATA");
  const char* source = std::getenv("CAMBER_SOURCE");
  const std::filesystem::path base = source == nullptr ? "." : source;
  return base / (data == nullptr || *data == '\0' ? "../shared/data" : data);
}

}  // namespace camber::tests
