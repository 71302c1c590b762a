#include "camber/nuscenes/kitti.h"

#include <cmath>
#include <cstdio>

#include <gtest/gtest.h>

#include "camber/drawing/canvas.h"
#include "camber/geometry/camera.h"
#include "camber/nuscenes/splits.h"
#include "camber/storage/file.h"
#include "nuscenes/small_world.h"

namespace camber::nuscenes {
namespace {

using geometry::Vector3;
using tests::message_of;

// A camera frame that looks along the LiDAR's x axis, slightly turned by R0_rect, as KITTI's are.
constexpr double kTurn = 0.01;
const geometry::RigidTransform kVelodyneToCamera{.rotation = {0, -1, 0, 0, 0, -1, 1, 0, 0},
                                                 .translation = {0.02, -0.06, -0.3}};
const geometry::RigidTransform kRectify{
    .rotation = {std::cos(kTurn), std::sin(kTurn), 0, -std::sin(kTurn), std::cos(kTurn), 0, 0, 0, 1}};
constexpr double kFocal = 70, kU = 62, kV = 18, kShiftLeft = 4.2, kShiftRight = -33.6;

std::string numbers(std::initializer_list<double> values) {
  std::string text;
  for (const double value : values) {
    char word[40];
    std::snprintf(word, sizeof word, " %.12e", value);
    text += word;
  }
  return text + "\n";
}

std::string calibration_text() {
  const auto& r = kRectify.rotation;
  const auto& v = kVelodyneToCamera.rotation;
  const auto& t = kVelodyneToCamera.translation;
  const auto projection = [](double shift) {
    return numbers({kFocal, 0, kU, shift, 0, kFocal, kV, 0.2, 0, 0, 1, 0.003});
  };
  return "P0:" + projection(0) + "P1:" + projection(0) + "P2:" + projection(kShiftLeft) +
         "P3:" + projection(kShiftRight) +
         "R0_rect:" + numbers({r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7], r[8]}) +
         "Tr_velo_to_cam:" + numbers({v[0], v[1], v[2], t[0], v[3], v[4], v[5], t[1], v[6], v[7], v[8], t[2]}) +
         "Tr_imu_to_velo:" + numbers({1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0});
}

// A box of the LiDAR's frame as a line of a label file: the middle of its lower face in the rectified camera frame.
std::string label_line(const char* type, int occluded, const geometry::Box& box) {
  const auto to_rectified = kRectify * kVelodyneToCamera;
  const Vector3 middle = to_rectified.apply(box.center);
  const Vector3 ahead = to_rectified.rotate({std::cos(box.yaw), std::sin(box.yaw), 0});
  char text[256];
  std::snprintf(text, sizeof text, "%s 0.00 %d 0.1 1 2 3 4 %.9f %.9f %.9f %.9f %.9f %.9f %.9f\n", type, occluded,
                box.height, box.width, box.length, middle[0], middle[1] + box.height / 2, middle[2],
                std::atan2(-ahead[2], ahead[0]));
  return text;
}

const geometry::Box kCar{.center = {12, 3, -0.9}, .length = 4.2, .width = 1.8, .height = 1.5, .yaw = 0.4};
const geometry::Box kCyclist{.center = {9, -4, -0.8}, .length = 1.8, .width = 0.6, .height = 1.7, .yaw = -2};

std::string velodyne_bytes() {
  const std::vector<float> values{12, 3, -0.9F, 0.5F, 12.5F, 3.1F, -0.7F, 1.0F, 20, 0, -1.7F, 0};
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

void write_kitti(const std::filesystem::path& root, int frames, bool right_camera = true) {
  for (const char* folder : {"calib", "velodyne", "image_2", "image_3", "label_2"})
    if (right_camera || std::string_view(folder) != "image_3")
      std::filesystem::create_directories(root / "training" / folder);
  const drawing::Canvas image(124, 37, {40, 120, 200});
  for (int i = 0; i < frames; ++i) {
    char name[16];
    std::snprintf(name, sizeof name, "%06d", i);
    const auto file = [&](const char* folder, const char* ending) {
      return root / "training" / folder / (std::string(name) + ending);
    };
    tests::write_text(file("calib", ".txt"), calibration_text());
    tests::write_text(file("velodyne", ".bin"), velodyne_bytes());
    tests::write_text(file("image_2", ".png"), drawing::encode_png(image));
    if (right_camera) tests::write_text(file("image_3", ".png"), drawing::encode_png(image));
    tests::write_text(file("label_2", ".txt"), label_line("Car", 0, kCar) + label_line("Cyclist", 2, kCyclist) +
                                                   "DontCare -1 -1 -10 1 2 3 4 -1 -1 -1 -1000 -1000 -1000 -10\n");
  }
}

TEST(Kitti, BoxesPointsAndProjectionsAreThoseOfTheFolder) {
  const tests::TemporaryFolder folder;
  write_kitti(folder.path() / "kitti", 3);
  std::filesystem::remove(folder.path() / "kitti/training/image_3/000001.png");
  std::filesystem::remove(folder.path() / "kitti/training/label_2/000002.txt");
  const KittiImport result = import_kitti(folder.path() / "kitti", folder.path() / "out", {.val_share = 0.34});
  EXPECT_EQ(result.counts.frames, 3);
  EXPECT_EQ(result.counts.boxes, 4);
  EXPECT_EQ(result.left_out.at("DontCare"), 2);
  EXPECT_EQ(result.without_labels, 1);
  EXPECT_EQ(result.splits.at("train"), 2);
  EXPECT_EQ(result.splits.at("val"), 1);

  const Dataset dataset(folder.path() / "out", "v1.0-kitti");
  const Tables& tables = dataset.tables();
  EXPECT_EQ(tables.scene.size(), 3U);
  EXPECT_EQ(tables.scene[0].name, "kitti-000000");
  EXPECT_EQ(dataset.key_frame(1, "CAM_RIGHT"), kNone);
  EXPECT_NE(dataset.key_frame(1, "CAM_LEFT"), kNone);
  EXPECT_TRUE(tables.annotations_of(2).empty());
  const SampleData& lidar = tables.sample_data[dataset.key_frame(0, "LIDAR_TOP")];
  const SensorPose reference = dataset.pose_of(lidar);
  const auto rows = tables.annotations_of(0);
  ASSERT_EQ(rows.size(), 2U);
  for (const Index row : rows) {
    const SampleAnnotation& annotation = tables.sample_annotation[row];
    const bool car = dataset.category_of(annotation) == "vehicle.car";
    EXPECT_EQ(dataset.category_of(annotation), car ? "vehicle.car" : "vehicle.bicycle");
    const geometry::Box box = dataset.box_of(annotation, reference);
    const geometry::Box& wanted = car ? kCar : kCyclist;
    for (std::size_t axis = 0; axis < 3; ++axis) EXPECT_NEAR(box.center[axis], wanted.center[axis], 1e-6);
    EXPECT_NEAR(box.length, wanted.length, 1e-6);
    // The turn about the camera's axis, 0.01 rad off the vertical, becomes a heading.
    EXPECT_NEAR(std::remainder(box.yaw - wanted.yaw, 6.283185307179586), 0, 1e-3);
    EXPECT_EQ(annotation.lidar_points, car ? 2 : 0);
    EXPECT_EQ(tables.visibility[annotation.visibility].level, car ? "v80-100" : "v0-40");
  }
  // Points keep their place, reflectance becomes 0 .. 255.
  const std::string bytes = storage::read_file(dataset.path_of(lidar));
  const auto* points = reinterpret_cast<const float*>(bytes.data());
  EXPECT_EQ(bytes.size(), 3 * 20U);
  EXPECT_EQ(points[5], 12.5F);
  EXPECT_EQ(points[8], 255);
  // A point falls where P2 and P3 put it.
  for (const auto& [channel, shift] : {std::pair{"CAM_LEFT", kShiftLeft}, {"CAM_RIGHT", kShiftRight}}) {
    const SampleData& image = tables.sample_data[dataset.key_frame(0, channel)];
    EXPECT_EQ(image.width, 124);
    const SensorPose pose = dataset.pose_of(image);
    const auto matrix = geometry::lidar_to_image(reference.sensor_to_ego, reference.ego_to_global, pose.sensor_to_ego,
                                                 pose.ego_to_global, *dataset.calibration_of(image).intrinsic,
                                                 {.width = image.width, .height = image.height});
    const geometry::Projection seen =
        geometry::Camera{.width = 124, .height = 37, .columns = 1, .rows = 1, .lidar_to_image = matrix}.project(
            {15, 2, 1});
    const Vector3 p = (kRectify * kVelodyneToCamera).apply({15, 2, 1});
    const double depth = p[2] + 0.003;
    EXPECT_NEAR(seen.u, (kFocal * p[0] + kU * p[2] + shift) / depth, 1e-6) << channel;
    EXPECT_NEAR(seen.v, (kFocal * p[1] + kV * p[2] + 0.2) / depth, 1e-6) << channel;
  }
}

TEST(Kitti, SplitsOfTheFolderCountAndOneCameraIsEnough) {
  const tests::TemporaryFolder folder;
  write_kitti(folder.path(), 4, false);
  std::filesystem::create_directories(folder.path() / "ImageSets");
  tests::write_text(folder.path() / "ImageSets/train.txt", "000000\n000003\n");
  tests::write_text(folder.path() / "ImageSets/val.txt", "000001\n");
  const KittiImport result = import_kitti(folder.path() / "training", folder.path() / "out", {});
  EXPECT_EQ(result.splits, (std::map<std::string, std::int64_t>{{"train", 2}, {"val", 1}}));
  const Dataset dataset(folder.path() / "out", "v1.0-kitti");
  EXPECT_EQ(dataset.channels(Modality::kCamera), std::vector<std::string>{"CAM_LEFT"});
  EXPECT_EQ(find_split(dataset, "train").scenes, (std::vector<std::string>{"kitti-000000", "kitti-000003"}));
}

TEST(Kitti, DamagedFoldersAreRefusedWithTheFile) {
  const tests::TemporaryFolder folder;
  EXPECT_EQ(message_of([&] { import_kitti(folder.path() / "none", folder.path() / "out"); }),
            "[import_kitti] DIR must hold velodyne/ and calib/ (or training/ with them), got '" +
                (folder.path() / "none").string() + "'");
  write_kitti(folder.path(), 1);
  const auto file = [&](const char* name) { return (folder.path() / "training" / name).string(); };
  const auto fails = [&] {
    const std::string message = message_of([&] { import_kitti(folder.path(), folder.path() / "out"); });
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "out/v1.0-kitti"));
    return message;
  };
  tests::write_text(file("velodyne/000000.bin"), "123");
  EXPECT_EQ(fails(), "[import_kitti] " + file("velodyne/000000.bin") + " must hold 16 bytes a point, got 3 bytes");
  tests::write_text(file("velodyne/000000.bin"), velodyne_bytes());
  tests::write_text(file("label_2/000000.txt"), "Car 0 0 1 2 3\n");
  EXPECT_EQ(fails(),
            "[import_kitti] " + file("label_2/000000.txt") + " must have a type and 14 numbers in line 1, got 5");
  tests::write_text(file("label_2/000000.txt"), "Car 0 -2e20 0 1 2 3 4 5 6 7 8 9 10 11\n");
  EXPECT_EQ(fails(), "[import_kitti] " + file("label_2/000000.txt") +
                         " must have an occlusion of 0, 1, 2 or 3 in line 1, got -2e+20");
  tests::write_text(file("calib/000000.txt"), "P2: 1 2 3\n");
  EXPECT_EQ(fails(), "[import_kitti] " + file("calib/000000.txt") + " must have a line 'R0_rect:' with 9 numbers");
}

}  // namespace
}  // namespace camber::nuscenes
