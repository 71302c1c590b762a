#include "camber/sensors/inspection.h"

#include <cstring>
#include <filesystem>
#include <limits>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "camber/sensors/points.h"
#include "nuscenes/small_world.h"

namespace camber::sensors {
namespace {

TEST(Inspection, CountsObjectsAndFiles) {
  const tests::TemporaryFolder folder;
  tests::write_small_world(folder.path());
  const nuscenes::Dataset dataset(folder.path(), tests::kSmallVersion);
  const Inspection good = inspect(dataset, nuscenes::whole_data_set(dataset), {.files = FileCheck::kRead});
  EXPECT_EQ(good.scenes, 2);
  EXPECT_EQ(good.samples, 6);
  EXPECT_EQ(good.objects, 14);
  EXPECT_TRUE(good.problems.empty());
  ASSERT_EQ(good.categories.size(), 3);
  EXPECT_EQ(good.categories[0].objects, 6);
  EXPECT_EQ(good.categories[2].category, "movable_object.trafficcone");
  EXPECT_EQ(good.categories[2].without_velocity, 2);
  EXPECT_EQ(good.categories[2].by_visibility, (std::vector<std::int64_t>{0, 2, 0, 0, 0}));
  EXPECT_EQ(good.categories[2].by_points, (std::vector<std::int64_t>{0, 0, 2, 0, 0}));  // 7 points
  EXPECT_NEAR(good.median_interval, 0.512345, 1e-9);
  ASSERT_EQ(good.sensors.size(), 3);
  EXPECT_EQ(good.sensors[0].sweeps, 6);
  EXPECT_EQ(good.sensors[1].key_frames, 6);
  // One file gone, one cut off.
  std::filesystem::remove(folder.path() / "sweeps/LIDAR_TOP/data-0-LIDAR_TOP-0.pcd.bin");
  std::vector<std::uint8_t> jpeg = tests::make_jpeg(96, 64);
  jpeg.resize(jpeg.size() / 2);
  tests::write_bytes(folder.path() / "samples/CAM_BACK/data-1-CAM_BACK-2.jpg", jpeg);
  for (const int threads : {1, 3}) {
    const Inspection bad =
        inspect(dataset, nuscenes::whole_data_set(dataset), {.files = FileCheck::kRead, .threads = threads});
    EXPECT_EQ(bad.sensors[0].missing, 1);
    EXPECT_EQ(bad.sensors[2].damaged, 1);
    ASSERT_EQ(bad.problems.size(), 2);
    EXPECT_NE(bad.problems[0].find("LIDAR_TOP-0.pcd.bin: missing"), std::string::npos) << bad.problems[0];
    EXPECT_NE(bad.problems[1].find("is a damaged JPEG file"), std::string::npos) << bad.problems[1];
  }
  EXPECT_TRUE(inspect(dataset, nuscenes::whole_data_set(dataset), {.files = FileCheck::kSkip}).problems.empty());
}

// The problems of the small world after a change of its files.
template <class Change>
std::vector<std::string> problems_after(const Change& change, const tests::TableTexts& tables = tests::small_tables()) {
  const tests::TemporaryFolder folder;
  tests::write_small_world(folder.path(), tables, true);
  change(folder.path());
  const nuscenes::Dataset dataset(folder.path(), tests::kSmallVersion);
  return inspect(dataset, nuscenes::whole_data_set(dataset), {.files = FileCheck::kRead}).problems;
}

TEST(Inspection, CountsPointsThatAreNoNumbers) {
  const auto cloud = "samples/LIDAR_TOP/data-1-LIDAR_TOP-3.pcd.bin";
  const auto spoil = [&](const std::filesystem::path& root) {
    std::vector<float> points(15, 1);
    points[1] = std::numeric_limits<float>::quiet_NaN();
    points[12] = std::numeric_limits<float>::infinity();
    std::vector<std::uint8_t> bytes(points.size() * sizeof(float));
    std::memcpy(bytes.data(), points.data(), bytes.size());
    tests::write_bytes(root / cloud, bytes);
    EXPECT_EQ(read_lidar_file(root / cloud).size(), 1);
  };
  const auto problems = problems_after(spoil);
  ASSERT_EQ(problems.size(), 1);
  EXPECT_TRUE(problems[0].ends_with("2 points are not finite")) << problems[0];
  const auto empty = problems_after([&](const auto& root) { tests::write_bytes(root / cloud, {}); });
  ASSERT_EQ(empty.size(), 1);
  EXPECT_TRUE(empty[0].ends_with("empty")) << empty[0];
}

TEST(Inspection, FollowsNoLinkOutOfTheDataSet) {
  const tests::TemporaryFolder elsewhere;
  const auto problems = problems_after([&](const std::filesystem::path& root) {
    const auto image = root / "samples/CAM_BACK/data-1-CAM_BACK-2.jpg";
    std::filesystem::rename(image, elsewhere.path() / "image.jpg");
    std::filesystem::create_symlink(elsewhere.path() / "image.jpg", image);
    const nuscenes::Dataset dataset(root, tests::kSmallVersion);
    const auto row = dataset.tables().sample_data.find("data-1-CAM_BACK-2");
    EXPECT_THROW(dataset.path_of(dataset.tables().sample_data[row]), std::runtime_error);
  });
  ASSERT_EQ(problems.size(), 1);
  EXPECT_NE(problems[0].find("leads outside"), std::string::npos) << problems[0];
}

TEST(Inspection, AnswersInEveryFormat) {
  const tests::TemporaryFolder folder;
  tests::write_small_world(folder.path());
  const nuscenes::Dataset dataset(folder.path(), tests::kSmallVersion);
  const Inspection inspection = inspect(dataset, nuscenes::whole_data_set(dataset));
  const auto json = nlohmann::json::parse(to_json(inspection));
  EXPECT_EQ(json["tables"]["sample_data"], 24);
  EXPECT_EQ(json["sensors"][1]["modality"], "camera");
  EXPECT_NE(to_text(inspection).find("movable_object.trafficcone"), std::string::npos);
  EXPECT_NE(to_csv(inspection).find("category,objects"), std::string::npos);
}

TEST(Inspection, SaysWhatADetectorWouldMiss) {
  const tests::TemporaryFolder folder;
  tests::TableTexts tables = tests::small_tables();
  tests::write_small_world(folder.path(), tables, false);
  const nuscenes::Dataset dataset(folder.path(), tests::kSmallVersion);
  const nuscenes::Split all = nuscenes::whole_data_set(dataset);
  InspectionOptions options{.files = FileCheck::kSkip};
  options.class_of = [](std::string_view category) {
    return std::string(category == "movable_object.trafficcone" ? ""
                       : category == "vehicle.car"              ? "car"
                                                                : "pedestrian");
  };
  const auto says = [&](const Inspection& inspection, const std::string& words) {
    for (const std::string& sentence : inspection.missed)
      if (sentence.find(words) != std::string::npos) return true;
    return false;
  };
  const Inspection plain = inspect(dataset, all, options);
  EXPECT_TRUE(says(plain, "category movable_object.trafficcone is no class of the metric: its 2 objects"));
  EXPECT_FALSE(says(plain, "outside of the detector's space"));
  DetectorView detector{
      .frame = {.image_width = 64, .image_height = 16, .feature_stride = 8}, .classes = {"car", "bus"}, .queries = 1};
  detector.frame.range = {-5, 5, -5, 5, -5, 3};
  options.detector = detector;
  const Inspection small = inspect(dataset, all, options);
  EXPECT_TRUE(says(small, "objects lie outside of the detector's space (x -5 to 5, y -5 to 5, z -5 to 3 m)"));
  EXPECT_TRUE(says(small, "class pedestrian is not among the detector's"));
  EXPECT_TRUE(says(small, "class bus of the detector has no object here"));
  EXPECT_TRUE(says(small, "objects, the detector 1 queries"));
  EXPECT_NE(to_text(small).find("what a detector would miss"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(to_json(small))["missed"].size(), small.missed.size());
  // Without a box there is nothing to train on, which is said and no mistake.
  tables["sample_annotation"] = "[]";
  tables["instance"] = "[]";
  const tests::TemporaryFolder bare;
  tests::write_small_world(bare.path(), tables, false);
  const nuscenes::Dataset unlabelled(bare.path(), tests::kSmallVersion);
  EXPECT_TRUE(says(inspect(unlabelled, nuscenes::whole_data_set(unlabelled), options),
                   "no object is annotated: predict runs, training and evaluation need boxes"));
}

}  // namespace
}  // namespace camber::sensors
