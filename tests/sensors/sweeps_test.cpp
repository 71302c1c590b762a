#include <cmath>

#include <gtest/gtest.h>

#include "camber/sensors/frame.h"
#include "nuscenes/small_world.h"

/// Sweeps as mmdet3d joins them, against its formulas written out.
namespace camber::sensors {
namespace {

class Sweeps : public testing::Test {
 protected:
  void SetUp() override {
    tests::write_small_world(folder_.path());
    dataset_.emplace(folder_.path(), tests::kSmallVersion);
  }
  std::vector<LidarPoint> join(nuscenes::Index sample, const SweepOptions& options) const {
    return aggregate_sweeps(*dataset_, sample, {"LIDAR_TOP"}, "LIDAR_TOP", options);
  }
  const nuscenes::SampleData& row(nuscenes::Index index) const { return dataset_->tables().sample_data[index]; }

  tests::TemporaryFolder folder_;
  std::optional<nuscenes::Dataset> dataset_;
};

TEST_F(Sweeps, RoundsAfterTheTurnAndAfterTheShift) {
  const SweepOptions options{.previous = 10, .minimum_distance = 0, .arithmetic = SweepArithmetic::kMmdet3d};
  const std::vector<LidarPoint> joined = join(2, options);
  const nuscenes::Index key = dataset_->key_frame(2, "LIDAR_TOP");
  const auto from_global = dataset_->pose_of(row(key)).sensor_to_global().inverse();
  std::size_t next = 0;
  std::int64_t sweeps = 0;
  for (nuscenes::Index at = key; at != nuscenes::kNone; at = row(at).previous, ++sweeps) {
    const auto move = from_global * dataset_->pose_of(row(at)).sensor_to_global();
    const double lag = static_cast<double>(row(key).timestamp) / 1e6 - static_cast<double>(row(at).timestamp) / 1e6;
    for (const LidarPoint& own : read_lidar_file(dataset_->path_of(row(at)))) {
      LidarPoint expected = own;
      if (at != key) {
        const auto turned = move.rotate({own.x, own.y, own.z});
        expected.x = static_cast<float>(static_cast<float>(turned[0]) + move.translation[0]);
        expected.y = static_cast<float>(static_cast<float>(turned[1]) + move.translation[1]);
        expected.z = static_cast<float>(static_cast<float>(turned[2]) + move.translation[2]);
        expected.time_lag = static_cast<float>(lag);
      }
      ASSERT_LT(next, joined.size());
      EXPECT_EQ(joined[next++], expected);
    }
  }
  EXPECT_EQ(next, joined.size());
  EXPECT_EQ(sweeps, 6);
}

TEST_F(Sweeps, TheTwoWaysDifferByRoundingAlone) {
  SweepOptions options{.previous = 10, .minimum_distance = 0};
  const auto once = join(2, options);
  options.arithmetic = SweepArithmetic::kMmdet3d;
  const auto twice = join(2, options);
  ASSERT_EQ(once.size(), twice.size());
  for (std::size_t i = 0; i < once.size(); ++i) {
    EXPECT_NEAR(once[i].x, twice[i].x, 1e-5);
    EXPECT_NEAR(once[i].time_lag, twice[i].time_lag, 1e-6);
  }
}

TEST_F(Sweeps, TheKeyFrameStandsForMissingOnes) {
  const SweepOptions options{
      .previous = 3, .minimum_distance = 8, .repeat_key_frame = true, .arithmetic = SweepArithmetic::kMmdet3d};
  // The first key frame has a sweep before it, so nothing is repeated; cut off from it, it stands in three times.
  const nuscenes::Index key = dataset_->key_frame(0, "LIDAR_TOP");
  const std::size_t own = read_lidar_file(dataset_->path_of(row(key))).size();
  EXPECT_EQ(join(0, {.previous = 1, .minimum_distance = 0, .repeat_key_frame = true}),
            join(0, {.previous = 1, .minimum_distance = 0}));
  auto tables = tests::small_tables();
  std::string& data = tables["sample_data"];
  const std::string link = "\"prev\": \"data-0-LIDAR_TOP-0\"";
  ASSERT_NE(data.find(link), std::string::npos);
  data.replace(data.find(link), link.size(), "\"prev\": \"\"");
  const tests::TemporaryFolder cut;
  tests::write_small_world(cut.path(), tables);
  const nuscenes::Dataset alone(cut.path(), tests::kSmallVersion);
  const auto joined = aggregate_sweeps(alone, 0, {"LIDAR_TOP"}, "LIDAR_TOP", options);
  std::vector<LidarPoint> far;
  for (std::size_t i = 0; i < own; ++i)
    if (std::abs(joined[i].x) >= 8 || std::abs(joined[i].y) >= 8) far.push_back(joined[i]);
  ASSERT_LT(far.size(), own);
  ASSERT_EQ(joined.size(), own + 3 * far.size());
  for (std::size_t copy = 0; copy < 3; ++copy)
    for (std::size_t i = 0; i < far.size(); ++i) EXPECT_EQ(joined[own + copy * far.size() + i], far[i]);
}

TEST_F(Sweeps, NamedCamerasComeFirstAndTheOthersFollow) {
  const auto names = [&](const FrameOptions& options) {
    std::vector<std::string> result;
    for (const CameraView& view : load_key_frame(*dataset_, 0, options).cameras) result.push_back(view.camera.name);
    return result;
  };
  FrameOptions options{.load_points = false, .load_images = false};
  EXPECT_EQ(names(options), (std::vector<std::string>{"CAM_FRONT", "CAM_BACK"}));
  options.camera_order = {"CAM_LEFT", "CAM_BACK"};
  EXPECT_EQ(names(options), (std::vector<std::string>{"CAM_BACK", "CAM_FRONT"}));
  options.cameras = {"CAM_FRONT"};
  EXPECT_EQ(names(options), (std::vector<std::string>{"CAM_FRONT"}));
}

}  // namespace
}  // namespace camber::sensors
