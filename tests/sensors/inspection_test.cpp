#include "camber/sensors/inspection.h"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

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

}  // namespace
}  // namespace camber::sensors
