#include "camber/nuscenes/kitti.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <mutex>
#include <numbers>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "camber/drawing/canvas.h"
#include "camber/drawing/jpeg.h"
#include "camber/storage/file.h"
#include "camber/threads/tasks.h"

namespace camber::nuscenes {
namespace {

namespace fs = std::filesystem;

constexpr double kLidarHeight = 1.73;                        // metres above the ground, as KITTI documents it
constexpr double kLowestRing = -24.8, kHighestRing = 2;      // degrees
constexpr std::int64_t kFirstFrame = 1'300'000'000'000'000;  // microseconds; frames follow ten seconds apart
constexpr std::int64_t kFrameSpacing = 10'000'000;
constexpr std::string_view kLidar = "LIDAR_TOP";

[[noreturn]] void refuse_file(const fs::path& file, const std::string& what) {
  throw std::invalid_argument("[import_kitti] " + file.string() + " must " + what);
}

// "NAME: numbers" lines of a calibration file.
std::map<std::string, std::vector<double>> read_calibration(const fs::path& file) {
  std::map<std::string, std::vector<double>> entries;
  std::istringstream text(storage::read_file(file));
  for (std::string line; std::getline(text, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    std::istringstream numbers(line.substr(colon + 1));
    std::vector<double>& values = entries[line.substr(0, colon)];
    for (double value = 0; numbers >> value;) values.push_back(value);
  }
  return entries;
}

// The calibration of one frame: LiDAR to the rectified frame of camera 0, and each camera in that frame.
struct KittiCalibration {
  geometry::RigidTransform lidar_to_rectified{};
  std::map<std::string, std::vector<double>> entries{};
  fs::path file{};

  explicit KittiCalibration(const fs::path& path) : entries(read_calibration(path)), file(path) {
    const std::vector<double>& r = numbers("R0_rect", 9);
    const std::vector<double>& v = numbers("Tr_velo_to_cam", 12);
    geometry::RigidTransform rectify, lidar_to_camera;
    std::copy(r.begin(), r.end(), rectify.rotation.begin());
    for (std::size_t row = 0; row < 3; ++row) {
      for (std::size_t column = 0; column < 3; ++column)
        lidar_to_camera.rotation[3 * row + column] = v[4 * row + column];
      lidar_to_camera.translation[row] = v[4 * row + 3];
    }
    lidar_to_rectified = rectify * lidar_to_camera;
  }

  const std::vector<double>& numbers(const std::string& name, std::size_t count) const {
    const auto found = entries.find(name);
    if (found == entries.end() || found->second.size() != count)
      refuse_file(file, "have a line '" + name + ":' with " + std::to_string(count) + " numbers");
    return found->second;
  }
};

// What KITTI's text rounds: a rotation again.
std::vector<double> rotation_numbers(const geometry::Matrix3& rotation) {
  const geometry::Quaternion q = geometry::Quaternion::from_matrix(rotation).normalized();
  return {q.w, q.x, q.y, q.z};
}

RigSensor lidar_sensor() {
  return {.channel = std::string(kLidar), .modality = Modality::kLidar, .translation = {0, 0, kLidarHeight}};
}

RigSensor camera_sensor(const KittiCalibration& calibration, const std::string& channel, const std::string& projection,
                        std::int64_t width, std::int64_t height) {
  const std::vector<double>& p = calibration.numbers(projection, 12);
  const double focal = p[0], focal_y = p[5], u = p[2], v = p[6];
  if (!(focal > 0 && focal_y > 0) || p[10] != 1 || p[1] != 0 || p[4] != 0)
    refuse_file(calibration.file, "have a pinhole camera in " + projection);
  // P = K [I | t]: the camera stands at -t of the rectified frame.
  const double z = p[11], x = (p[3] - u * z) / focal, y = (p[7] - v * z) / focal_y;
  const geometry::RigidTransform to_camera{.rotation = geometry::kIdentity3, .translation = {x, y, z}};
  const geometry::RigidTransform to_ego =
      lidar_sensor().to_ego() * (to_camera * calibration.lidar_to_rectified).inverse();
  return {.channel = channel,
          .modality = Modality::kCamera,
          .translation = {to_ego.translation.begin(), to_ego.translation.end()},
          .rotation = rotation_numbers(to_ego.rotation),
          .intrinsic = {focal, 0, u, 0, focal_y, v, 0, 0, 1},
          .width = width,
          .height = height};
}

struct KittiImage {
  std::string jpeg{};
  std::int64_t width = 0, height = 0;
};

std::optional<KittiImage> read_image(const fs::path& folder, const std::string& frame, int quality) {
  if (const fs::path png = folder / (frame + ".png"); fs::exists(png)) {
    const drawing::DecodedPng image = drawing::decode_png(storage::read_file(png), png.string());
    const auto jpeg = drawing::encode_jpeg(image.rgb.data(), image.width, image.height, quality);
    return KittiImage{{reinterpret_cast<const char*>(jpeg.data()), jpeg.size()}, image.width, image.height};
  }
  const fs::path file = folder / (frame + ".jpg");
  if (!fs::exists(file)) return std::nullopt;
  KittiImage image{.jpeg = storage::read_file(file)};
  std::tie(image.width, image.height) = drawing::jpeg_dimensions(
      {reinterpret_cast<const std::uint8_t*>(image.jpeg.data()), image.jpeg.size()}, file.string());
  return image;
}

// x, y, z, reflectance -> x, y, z, intensity, ring.
std::vector<float> read_velodyne(const fs::path& file) {
  const std::string bytes = storage::read_file(file);
  if (bytes.size() % 16 != 0)
    refuse_file(file, "hold 16 bytes a point, got " + std::to_string(bytes.size()) + " bytes");
  std::vector<float> points(bytes.size() / 16 * 5);
  for (std::size_t i = 0; i < bytes.size() / 16; ++i) {
    float p[4];
    std::memcpy(p, bytes.data() + 16 * i, 16);
    const double elevation = std::atan2(p[2], std::hypot(p[0], p[1])) * 180 / std::numbers::pi;
    const double share = (elevation - kLowestRing) / (kHighestRing - kLowestRing);
    const auto ring = static_cast<float>(std::round(std::clamp(share, 0.0, 1.0) * 63));
    const float values[5] = {p[0], p[1], p[2], std::clamp(p[3], 0.0F, 1.0F) * 255, ring};
    std::copy_n(values, 5, points.begin() + static_cast<std::ptrdiff_t>(5 * i));
  }
  return points;
}

struct KittiType {
  std::string_view type, category, attribute;
};
constexpr KittiType kTypes[] = {{"Car", "vehicle.car", ""},
                                {"Van", "vehicle.car", ""},
                                {"Truck", "vehicle.truck", ""},
                                {"Pedestrian", "human.pedestrian.adult", ""},
                                {"Person_sitting", "human.pedestrian.adult", "pedestrian.sitting_lying_down"},
                                {"Cyclist", "vehicle.bicycle", "cycle.with_rider"}};

WrittenBox box_of(const KittiType& type, int occlusion, std::span<const double> numbers, const std::string& object,
                  const geometry::RigidTransform& camera_to_ego) {
  const double height = numbers[0], width = numbers[1], length = numbers[2], turn = numbers[6];
  const geometry::Vector3 ahead = camera_to_ego.rotate({std::cos(turn), 0, -std::sin(turn)});
  constexpr int kVisibility[] = {4, 3, 1, 1};  // fully visible, partly, largely occluded, unknown
  WrittenBox box{.object = object,
                 .category = std::string(type.category),
                 .center = camera_to_ego.apply({numbers[3], numbers[4] - height / 2, numbers[5]}),
                 .width = width,
                 .length = length,
                 .height = height,
                 .rotation = geometry::Quaternion::from_yaw(std::atan2(ahead[1], ahead[0])),
                 .visibility = kVisibility[occlusion]};
  if (!type.attribute.empty()) box.attributes = {std::string(type.attribute)};
  return box;
}

// 0 for fully visible, 1 partly and 2 largely occluded, 3 unknown.
int occlusion_of(double number, const fs::path& file, std::size_t line) {
  for (int level = 0; level <= 3; ++level)
    if (number == level) return level;
  std::ostringstream got;
  got << number;
  refuse_file(file, "have an occlusion of 0, 1, 2 or 3 in line " + std::to_string(line) + ", got " + got.str());
}

// Type, truncation, occlusion, angle, four of the box in the image, then height, width, length, x, y, z, turn.
void add_labels(SceneWriter& scene, const fs::path& file, const geometry::RigidTransform& camera_to_ego,
                std::map<std::string, std::int64_t>& left_out) {
  std::istringstream text(storage::read_file(file));
  std::size_t number = 0;
  for (std::string line; std::getline(text, line); ++number) {
    std::istringstream fields(line);
    std::string type;
    if (!(fields >> type)) continue;
    std::vector<double> numbers;
    for (double value = 0; fields >> value;) numbers.push_back(value);
    if (numbers.size() < 14)
      refuse_file(file, "have a type and 14 numbers in line " + std::to_string(number + 1) + ", got " +
                            std::to_string(numbers.size()));
    const auto* known =
        std::find_if(std::begin(kTypes), std::end(kTypes), [&type](const KittiType& one) { return one.type == type; });
    if (known == std::end(kTypes))
      ++left_out[type];
    else
      scene.add_box(box_of(*known, occlusion_of(numbers[1], file, number + 1), std::span(numbers).subspan(7),
                           std::to_string(number), camera_to_ego));
  }
}

struct KittiCamera {
  fs::path folder{};
  std::string channel{}, projection{};
};

// The folders that there are, and the frames.
struct KittiFolder {
  fs::path root{};
  std::vector<KittiCamera> cameras{};
  std::vector<std::string> frames{};

  explicit KittiFolder(const fs::path& given) : root(fs::exists(given / "training") ? given / "training" : given) {
    if (!fs::is_directory(root / "velodyne") || !fs::is_directory(root / "calib"))
      throw std::invalid_argument("[import_kitti] DIR must hold velodyne/ and calib/ (or training/ with them), got '" +
                                  given.string() + "'");
    for (const auto& entry : fs::directory_iterator(root / "velodyne"))
      if (entry.path().extension() == ".bin") frames.push_back(entry.path().stem().string());
    std::sort(frames.begin(), frames.end());
    if (frames.empty()) refuse_file(root / "velodyne", "hold files FRAME.bin, got none");
    if (fs::is_directory(root / "image_2")) cameras.push_back({root / "image_2", "CAM_LEFT", "P2"});
    if (fs::is_directory(root / "image_3")) cameras.push_back({root / "image_3", "CAM_RIGHT", "P3"});
  }

  static std::string scene_name(const std::string& frame) { return "kitti-" + frame; }

  std::vector<RigSensor> sensors_of(const std::string& frame,
                                    const std::vector<std::optional<KittiImage>>& images) const {
    constexpr std::int64_t kUsualWidth = 1242, kUsualHeight = 375;  // of a camera that has no image here
    const KittiCalibration calibration(root / "calib" / (frame + ".txt"));
    std::vector<RigSensor> sensors{lidar_sensor()};
    for (std::size_t i = 0; i < cameras.size(); ++i)
      sensors.push_back(camera_sensor(calibration, cameras[i].channel, cameras[i].projection,
                                      images[i] ? images[i]->width : kUsualWidth,
                                      images[i] ? images[i]->height : kUsualHeight));
    return sensors;
  }

  std::vector<std::pair<std::string, std::vector<std::string>>> splits(const KittiOptions& options) const;
};

std::vector<std::pair<std::string, std::vector<std::string>>> KittiFolder::splits(const KittiOptions& options) const {
  std::vector<std::pair<std::string, std::vector<std::string>>> lists;
  for (const fs::path& sets : {root / "ImageSets", root.parent_path() / "ImageSets"}) {
    if (!fs::is_directory(sets)) continue;
    for (const char* name : {"train", "val", "test"}) {
      const fs::path file = sets / (std::string(name) + ".txt");
      if (!fs::exists(file)) continue;
      std::vector<std::string> names;
      std::istringstream text(storage::read_file(file));
      for (std::string frame; text >> frame;)
        if (std::binary_search(frames.begin(), frames.end(), frame)) names.push_back(scene_name(frame));
      if (!names.empty()) lists.emplace_back(name, std::move(names));
    }
    return lists;
  }
  const auto count = static_cast<std::int64_t>(frames.size());
  const std::vector<std::int64_t> order = random::Stream(options.seed, "import_kitti.splits").permutation(count);
  const auto val = std::llround(options.val_share * static_cast<double>(count));
  std::vector<bool> chosen(frames.size());
  for (std::int64_t i = 0; i < val; ++i) chosen[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])] = true;
  std::vector<std::string> train, held;
  for (std::size_t i = 0; i < frames.size(); ++i) (chosen[i] ? held : train).push_back(scene_name(frames[i]));
  if (!train.empty()) lists.emplace_back("train", std::move(train));
  if (!held.empty()) lists.emplace_back("val", std::move(held));
  return lists;
}

}  // namespace

KittiImport import_kitti(const fs::path& folder, const fs::path& out, const KittiOptions& options) {
  if (!(options.val_share >= 0 && options.val_share < 1))
    throw std::invalid_argument("[import_kitti] val_share must be at least 0 and below 1, got " +
                                std::to_string(options.val_share));
  const KittiFolder kitti(folder);
  DatasetWriter writer(out, {.version = options.version,
                             .sensors = kitti.sensors_of(kitti.frames.front(),
                                                         std::vector<std::optional<KittiImage>>(kitti.cameras.size())),
                             .location = "karlsruhe",
                             .vehicle = "kitti",
                             .date = "2011-09-26",
                             .logs = {"kitti"}});
  KittiImport result;
  std::mutex mutex;
  threads::for_each_task(kitti.frames.size(), threads::resolve_threads(options.threads), [&](std::size_t number) {
    const std::string& frame = kitti.frames[number];
    std::vector<std::optional<KittiImage>> images;
    images.reserve(kitti.cameras.size());
    for (const KittiCamera& camera : kitti.cameras)
      images.push_back(read_image(camera.folder, frame, options.jpeg_quality));
    const std::vector<RigSensor> sensors = kitti.sensors_of(frame, images);
    SceneWriter scene = writer.scene(
        {.name = KittiFolder::scene_name(frame), .description = "KITTI object frame " + frame, .sensors = sensors});
    const std::int64_t timestamp = kFirstFrame + static_cast<std::int64_t>(number) * kFrameSpacing;
    scene.begin_frame(timestamp);
    scene.add_points(std::string(kLidar), timestamp, {}, read_velodyne(kitti.root / "velodyne" / (frame + ".bin")));
    for (std::size_t i = 0; i < images.size(); ++i)
      if (images[i]) scene.add_jpeg(kitti.cameras[i].channel, timestamp, {}, images[i]->jpeg);
    std::map<std::string, std::int64_t> left_out;
    const fs::path labels = kitti.root / "label_2" / (frame + ".txt");
    const bool labelled = fs::exists(labels);
    if (labelled)
      add_labels(scene, labels,
                 sensors.front().to_ego() *
                     KittiCalibration(kitti.root / "calib" / (frame + ".txt")).lidar_to_rectified.inverse(),
                 left_out);
    scene.finish();
    const std::lock_guard lock(mutex);
    for (const auto& [type, count] : left_out) result.left_out[type] += count;
    if (!labelled) ++result.without_labels;
    if (options.progress) options.progress(1);
  });
  const auto splits = kitti.splits(options);
  for (const auto& [name, scenes] : splits) result.splits[name] = static_cast<std::int64_t>(scenes.size());
  result.counts = writer.finish(splits);
  return result;
}

}  // namespace camber::nuscenes
