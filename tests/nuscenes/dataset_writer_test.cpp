#include "camber/nuscenes/dataset_writer.h"

#include <cmath>
#include <memory>

#include <gtest/gtest.h>

#include "camber/nuscenes/splits.h"
#include "camber/storage/file.h"
#include "nuscenes/small_world.h"

namespace camber::nuscenes {
namespace {

using tests::message_of;

RigSensor camera(const std::string& channel, std::int64_t width, std::int64_t height) {
  return {.channel = channel,
          .modality = Modality::kCamera,
          .translation = {1.5, 0, 1.6},
          .rotation = {0.5, -0.5, 0.5, -0.5},
          .intrinsic = {100, 0, width / 2.0, 0, 100, height / 2.0, 0, 0, 1},
          .width = width,
          .height = height};
}

// A LiDAR and four cameras of two sizes.
std::vector<RigSensor> own_rig() {
  return {{.channel = "ROOF", .modality = Modality::kLidar, .translation = {0, 0, 1.8}},
          camera("LEFT", 64, 40),
          camera("FRONT", 96, 48),
          camera("RIGHT", 64, 40),
          camera("REAR", 96, 48)};
}

const WrittenPose kPose{.translation = {100, 50, 0}, .rotation = geometry::Quaternion::from_yaw(0.3)};
constexpr std::int64_t kStart = 1'600'000'000'000'000;

void write_frame(SceneWriter& scene, const std::vector<RigSensor>& rig, std::int64_t number, bool drop_front) {
  const std::int64_t time = kStart + 500'000 * number;
  scene.begin_frame(time);
  // Three points, two of them within 1 m of (10, 0, 1) before the car.
  const std::vector<float> sweep{1, 2, 3, 4, 5};
  const std::vector<float> points{10, 0, -0.8F, 200, 1, 10.5F, 0.2F, -1, 100, 2, 30, 5, 0, 10, 3};
  scene.add_points("ROOF", time - 50'000, kPose, sweep, false);
  scene.add_points("ROOF", time, kPose, points);
  for (const RigSensor& sensor : rig) {
    if (sensor.modality != Modality::kCamera || (drop_front && sensor.channel == "FRONT")) continue;
    const std::vector<std::uint8_t> rgb(static_cast<std::size_t>(3 * sensor.width * sensor.height), 90);
    scene.add_image(sensor.channel, time - 20'000, kPose, rgb);
  }
  const auto to_global = geometry::RigidTransform::from(kPose.rotation, kPose.translation);
  const geometry::Vector3 moved = {10 + static_cast<double>(number), 0, 1};
  scene.add_box({.object = "7",
                 .category = "vehicle.car",
                 .center = to_global.apply(number == 0 ? geometry::Vector3{10, 0, 1} : moved),
                 .width = 2,
                 .length = 4,
                 .height = 1.5,
                 .rotation = geometry::Quaternion::from_yaw(0.3),
                 .attributes = {"vehicle.moving"}});
}

TEST(DatasetWriter, WritesWhatTheReaderReads) {
  const tests::TemporaryFolder folder;
  const std::vector<RigSensor> rig = own_rig();
  DatasetWriter writer(folder.path(), {.sensors = rig});
  for (const std::string name : {"second", "first"}) {
    SceneWriter scene = writer.scene({.name = name, .description = "made of arrays"});
    for (std::int64_t frame = 0; frame < 3; ++frame) write_frame(scene, rig, frame, frame == 1);
    scene.finish();
  }
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "v1.0-own"));  // the tables appear at the end, as a whole
  const WrittenCounts counts = writer.finish({{"train", {"first"}}, {"val", {"second"}}});
  EXPECT_EQ(counts.scenes, 2);
  EXPECT_EQ(counts.frames, 6);
  EXPECT_EQ(counts.files, 6 * (2 + 4) - 2);
  EXPECT_EQ(counts.points, 6 * 4);
  EXPECT_EQ(counts.boxes, 6);
  EXPECT_EQ(counts.objects, 2);

  const Dataset dataset(folder.path(), "v1.0-own");
  const Tables& tables = dataset.tables();
  EXPECT_EQ(tables.scene[0].name, "first");
  EXPECT_EQ(dataset.reference_channel(), "ROOF");
  EXPECT_EQ(find_split(dataset, "val").samples.size(), 3U);
  const Split first = find_split(dataset, "train");
  EXPECT_EQ(tables.annotations_of(first.samples[0]).size(), 1U);
  const SampleAnnotation& box = tables.sample_annotation[tables.annotations_of(first.samples[0])[0]];
  EXPECT_EQ(box.lidar_points, 2);
  EXPECT_EQ(dataset.category_of(box), "vehicle.car");
  EXPECT_EQ(box.size, (geometry::Vector3{2, 4, 1.5}));
  EXPECT_EQ(tables.attribute[tables.attributes_of(box)[0]].name, "vehicle.moving");
  const SampleAnnotation& second = tables.sample_annotation[box.next];
  EXPECT_NEAR(std::hypot(dataset.velocity_of(second)[0], dataset.velocity_of(second)[1]), 2, 1e-9);
  // A camera that delivered nothing is not there at that frame; sweeps belong to the frame after them.
  EXPECT_EQ(dataset.key_frame(first.samples[1], "FRONT"), kNone);
  const SampleData& lidar = tables.sample_data[dataset.key_frame(first.samples[1], "ROOF")];
  EXPECT_EQ(tables.sample_data[lidar.previous].timestamp, lidar.timestamp - 50'000);
  EXPECT_FALSE(tables.sample_data[lidar.previous].is_key_frame);
  const SampleData& image = tables.sample_data[dataset.key_frame(first.samples[0], "REAR")];
  EXPECT_EQ(image.width, 96);
  EXPECT_EQ(image.timestamp, kStart - 20'000);
  EXPECT_EQ((*dataset.calibration_of(image).intrinsic)[2], 48);
  EXPECT_EQ(dataset.pose_of(image).ego_to_global.translation, kPose.translation);
  EXPECT_EQ(storage::read_file(dataset.path_of(lidar)).size(), 3 * 20U);
}

TEST(DatasetWriter, TheSameArraysGiveTheSameBytesInAnyOrderOfScenes) {
  const tests::TemporaryFolder one, other;
  const std::vector<RigSensor> rig = own_rig();
  const auto write = [&rig](const std::filesystem::path& folder, const std::vector<std::string>& names) {
    DatasetWriter writer(folder, {.sensors = rig});
    for (const std::string& name : names) {
      SceneWriter scene = writer.scene({.name = name});
      write_frame(scene, rig, 0, false);
      scene.finish();
    }
    writer.finish();
  };
  write(one.path(), {"a", "b"});
  write(other.path(), {"b", "a"});
  for (const auto& file : std::filesystem::directory_iterator(one.path() / "v1.0-own"))
    EXPECT_EQ(storage::read_file(file.path()), storage::read_file(other.path() / "v1.0-own" / file.path().filename()));
  EXPECT_FALSE(std::filesystem::exists(one.path() / "v1.0-own/splits.json"));
  EXPECT_EQ(message_of([&] { DatasetWriter(one.path(), {.sensors = rig}); }),
            "[DatasetWriter] out must not hold v1.0-own already, got " + one.path().string());
}

TEST(SplitFor, DividesScenesOfADataSetWithoutSplits) {
  const auto written = [](std::size_t scenes) {
    auto folder = std::make_unique<tests::TemporaryFolder>();
    DatasetWriter writer(folder->path(), {.sensors = own_rig()});
    for (std::size_t i = 0; i < scenes; ++i) {
      SceneWriter scene = writer.scene({.name = std::string(1, static_cast<char>('a' + i))});
      write_frame(scene, own_rig(), 0, false);
      scene.finish();
    }
    writer.finish();
    return folder;
  };
  const auto scenes_of = [&](std::size_t count, SplitRole role) {
    const auto folder = written(count);
    const Dataset dataset(folder->path(), "v1.0-own");
    const Split split = split_for(dataset, "train", role);
    EXPECT_EQ(split.samples.size(), split.scenes.size());
    return split.scenes;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(scenes_of(6, SplitRole::kTraining), (Names{"a", "b", "c", "d", "f"}));
  EXPECT_EQ(scenes_of(6, SplitRole::kValidation), Names{"e"});
  EXPECT_EQ(scenes_of(2, SplitRole::kTraining), Names{"a"});
  EXPECT_EQ(scenes_of(2, SplitRole::kValidation), Names{"b"});
  EXPECT_EQ(scenes_of(1, SplitRole::kTraining), scenes_of(1, SplitRole::kValidation));
}

TEST(DatasetWriter, AScenesOwnCalibrationStandsOnce) {
  const tests::TemporaryFolder folder;
  std::vector<RigSensor> moved = own_rig();
  moved[0].translation[2] = 2;
  DatasetWriter writer(folder.path(), {.sensors = own_rig()});
  for (const std::string name : {"a", "b"}) {
    SceneWriter scene = writer.scene({.name = name, .sensors = moved});
    write_frame(scene, moved, 0, false);
    scene.finish();
  }
  writer.finish();
  const Dataset dataset(folder.path(), "v1.0-own");
  EXPECT_EQ(dataset.tables().calibrated_sensor.size(), 5U);
  EXPECT_EQ(dataset.pose_of(dataset.tables().sample_data[dataset.key_frame(0, "ROOF")]).sensor_to_ego.translation[2],
            2);
}

TEST(DatasetWriter, RefusesWhatCannotBeRight) {
  const tests::TemporaryFolder folder;
  const std::vector<RigSensor> rig = own_rig();
  EXPECT_EQ(message_of([&] { DatasetWriter(folder.path(), {}); }), "[DatasetWriter] sensors must not be empty");
  DatasetWriter writer(folder.path(), {.sensors = rig});
  EXPECT_EQ(message_of([&] { writer.finish(); }), "[DatasetWriter] a data set must have a scene");
  SceneWriter scene = writer.scene({.name = "s"});
  const std::vector<float> point{1, 2, 3, 4, 5};
  EXPECT_EQ(message_of([&] { scene.add_points("ROOF", 0, kPose, point); }),
            "[DatasetWriter] scene 's': begin_frame must come before the first file");
  scene.begin_frame(1000);
  const std::string where = "[DatasetWriter] scene 's', frame 0: ";
  EXPECT_EQ(message_of([&] { scene.add_points("LEFT", 1000, kPose, point); }),
            where + "channel must be one of ROOF, got 'LEFT'");
  EXPECT_EQ(message_of([&] {
              scene.add_points("ROOF", 1000, kPose, {point.data(), 4});
            }),
            where + "points of ROOF must be [n, 5], got 4 numbers");
  const std::vector<float> hole{1, 2, 3, 4, 5, 1, std::nanf(""), 3, 4, 5};
  EXPECT_EQ(message_of([&] { scene.add_points("ROOF", 1000, kPose, hole); }),
            where + "points of ROOF must be finite, got nan in point 1");
  EXPECT_EQ(message_of([&] {
              scene.add_points("ROOF", 1000, {.rotation = {2, 0, 0, 0}}, point);
            }),
            where + "ego_to_global must be finite with a quaternion of length 1, got length 2.000000");
  const std::vector<std::uint8_t> rgb(12);
  EXPECT_EQ(message_of([&] { scene.add_image("FRONT", 1000, kPose, rgb); }),
            where + "the image of FRONT must be [48, 96, 3], got 12 bytes");
  const auto jpeg = tests::make_jpeg(64, 48);
  const std::string_view bytes(reinterpret_cast<const char*>(jpeg.data()), jpeg.size());
  EXPECT_EQ(message_of([&] { scene.add_jpeg("FRONT", 1000, kPose, bytes); }),
            where + "the image of FRONT must measure 96 x 48, got 64 x 48");
  WrittenBox box{.object = "a", .category = "vehicle.car", .width = 2, .length = 4, .height = -1};
  EXPECT_EQ(message_of([&] { scene.add_box(box); }),
            where + "width, length and height of object 'a' must be above 0, got 2.000000, 4.000000, -1.000000");
  box.height = 1;
  scene.add_box(box);
  EXPECT_EQ(message_of([&] { scene.add_box(box); }), where + "object 'a' must have one box, got a second");
  EXPECT_EQ(
      message_of([&] { scene.begin_frame(2000); }),
      where + "every frame must have a key frame of ROOF, the sensor that stands for the frame, after its sweeps");
  scene.add_points("ROOF", 1000, kPose, point);
  EXPECT_EQ(message_of([&] { scene.add_points("ROOF", 1000, kPose, point, false); }),
            where + "timestamp of ROOF must be above 1000, got 1000");
  EXPECT_EQ(message_of([&] { scene.begin_frame(1000); }),
            where + "the next frame's timestamp must be above 1000, got 1000");
  EXPECT_EQ(message_of([&] { writer.finish(); }), "[DatasetWriter] scene 's' must be finished before the data set");
  EXPECT_EQ(message_of([&] { writer.scene({.name = "s"}); }),
            "[DatasetWriter] scene 's': another scene must not have this name");
  scene.finish();
  EXPECT_EQ(message_of([&] {
              writer.finish({{"train", {"t"}}});
            }),
            "[DatasetWriter] split 'train' must name scenes of the data set, got 't'");
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "v1.0-own"));
}

}  // namespace
}  // namespace camber::nuscenes
