// From the data set's files to what enters the network: against the original's pipeline, and the same by every way in.
#include "camber/detection/detector_session.h"
#include "camber/detection/frame.h"
#include "camber/sensors/loader.h"
#include "camber/storage/file.h"
#include "cmt/golden_fixture.h"
#include "nuscenes/small_world.h"
#include "support/comparison.h"

namespace camber::cmt_tests {
namespace {

using namespace detection;
using camber::proof::same_bits;

// The real key frame, as the reduced model of the stage values sees it.
class CmtPipeline : public CmtGolden {
 protected:
  void SetUp() override {
    CmtGolden::SetUp();
    if (IsSkipped()) return;
    const auto root = tests::real_data() / "nuscenes_keyframe";
    if (!std::filesystem::exists(root)) GTEST_SKIP() << "no real key frame in " << root << " (set CAMBER_DATA)";
    dataset_.emplace(root, "v1.0-keyframe");
    auto options = small_options().frame_options();
    options.range = sensors::PointRange::everywhere();
    frame_ = sensors::load_key_frame(*dataset_, 0, options);
  }
  // The points that the stage values were made from, and the time lags that they were given for want of sweeps.
  std::vector<std::int64_t> choose_points() {
    std::vector<std::int64_t> rows;
    std::vector<sensors::LidarPoint> chosen;
    for (std::size_t row = 0; row < frame_.points.size(); ++row) {
      auto point = frame_.points[row];
      if (std::abs(point.x) >= 14 || std::abs(point.y) >= 14) continue;
      EXPECT_EQ(point.time_lag, 0);
      point.time_lag = 0.05F * static_cast<float>(row % 10);
      rows.push_back(static_cast<std::int64_t>(row));
      chosen.push_back(point);
    }
    frame_.points = std::move(chosen);
    return rows;
  }

  std::optional<nuscenes::Dataset> dataset_;
  sensors::KeyFrame frame_;
};

TEST_F(CmtPipeline, PointsAndImagesAreTheOriginalsToTheBit) {
  const Golden inputs("inputs.safetensors");
  const auto rows = choose_points();
  EXPECT_TRUE(torch::equal(torch::tensor(rows, torch::kLong), inputs["point_source_row"].to(torch::kLong)));
  const auto batch = collate(sensors::clean_sensor_frame(frame_), {}, small_options());
  EXPECT_TRUE(same_bits(batch.points, inputs["points"]));
  ASSERT_EQ(batch.images.size(), 1U);
  EXPECT_TRUE(same_bits(batch.images[0][0], inputs["images"]));
}

TEST_F(CmtPipeline, CalibrationsAreTheOriginals) {
  const auto expected = Golden("inputs.safetensors")["lidar2img"];
  ASSERT_EQ(frame_.cameras.size(), 6U);
  const char* const order[] = {"CAM_FRONT", "CAM_FRONT_RIGHT", "CAM_FRONT_LEFT",
                               "CAM_BACK",  "CAM_BACK_LEFT",   "CAM_BACK_RIGHT"};
  double worst = 0;
  for (std::int64_t v = 0; v < 6; ++v) {
    const auto& camera = frame_.cameras[static_cast<std::size_t>(v)].camera;
    EXPECT_EQ(camera.name, order[v]);
    const auto matrix = expected[v].contiguous();
    const auto largest = matrix.abs().max().item<double>();
    for (std::size_t i = 0; i < 16; ++i)
      worst = std::max(worst, std::abs(camera.lidar_to_image[i] - matrix.const_data_ptr<double>()[i]) / largest);
  }
  EXPECT_LT(worst, 1e-12);
  std::printf("lidar2img: largest difference %.1e of the matrix's largest entry\n", worst);
}

TEST_F(CmtPipeline, BoxesOfTheFilesAreTheOriginals) {
  choose_points();
  auto detector = detector_in(torch::kFloat);
  const torch::NoGradGuard guard;
  const auto batch = collate(sensors::clean_sensor_frame(frame_), {}, small_options());
  const auto found = detector->decode(detector->forward(batch), batch)[0];
  const Golden golden("goldens_f32.safetensors");
  const auto boxes = golden["boxes"].to(torch::kDouble), scores = golden["scores"].to(torch::kDouble);
  const auto labels = golden["labels"].to(torch::kLong);
  ASSERT_EQ(std::ssize(found), boxes.size(0));
  for (std::int64_t i = 0; i < boxes.size(0); ++i) {
    const auto& one = found[static_cast<std::size_t>(i)];
    EXPECT_EQ(one.label, labels[i].item<std::int64_t>());
    EXPECT_NEAR(one.score, scores[i].item<double>(), 1e-5);
    const double row[] = {one.box.center[0], one.box.center[1], one.box.center[2] - one.box.height / 2,
                          one.box.length,    one.box.width,     one.box.height,
                          one.box.yaw,       one.velocity[0],   one.velocity[1]};
    for (std::int64_t k = 0; k < 9; ++k) EXPECT_NEAR(row[k], boxes[i][k].item<double>(), 1e-3) << i << ", " << k;
  }
}

// A frame of a data set as somebody's own program would hand it over: whole images, points with their lags.
struct OwnedFrame {
  std::vector<sensors::Image> images{};
  std::vector<float> points{};
  Frame frame{};
};

void fill(OwnedFrame& owned, const nuscenes::Dataset& dataset, const sensors::KeyFrame& loaded) {
  for (const auto& p : loaded.points)
    for (const float value : {p.x, p.y, p.z, p.intensity, p.time_lag}) owned.points.push_back(value);
  owned.frame.points = {
      .data = owned.points.data(), .count = std::ssize(loaded.points), .stride = 5, .time_lag_index = 4};
  owned.frame.lidar_timestamp = loaded.timestamp;
  owned.images.reserve(loaded.cameras.size());
  for (const auto& view : loaded.cameras) {
    const auto& row = dataset.tables().sample_data[view.sample_data];
    const std::string content = storage::read_file(dataset.path_of(row));
    owned.images.push_back(sensors::decode_jpeg({reinterpret_cast<const std::uint8_t*>(content.data()), content.size()},
                                                std::string(row.filename)));
    const auto pose = dataset.pose_of(row);
    owned.frame.cameras.push_back({.name = view.camera.name,
                                   .image = owned.images.back().view(),
                                   .intrinsic = *dataset.calibration_of(row).intrinsic,
                                   .lidar_to_camera = pose.sensor_to_ego.inverse() * pose.ego_to_global.inverse() *
                                                      loaded.reference.ego_to_global * loaded.reference.sensor_to_ego,
                                   .timestamp = view.timestamp});
  }
}

void expect_equal(const std::vector<Detection>& a, const std::vector<Detection>& b) {
  ASSERT_EQ(a.size(), b.size());
  ASSERT_FALSE(a.empty());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].query, b[i].query);
    EXPECT_EQ(a[i].label, b[i].label);
    EXPECT_EQ(a[i].score, b[i].score);
    EXPECT_EQ(a[i].box.center, b[i].box.center);
    EXPECT_EQ(a[i].velocity, b[i].velocity);
  }
}

// The loader of training and evaluation, detect() and a session see the same bits.
void expect_one_pipeline(const nuscenes::Dataset& dataset) {
  Detector detector(small_options(), 3);
  detector->eval();
  const torch::NoGradGuard guard;
  sensors::Loader loader(dataset, {0},
                         {.frame = detector->options().frame_options(),
                          .faults = {.share = 0},
                          .augmentation = sensors::AugmentationOptions::none(),
                          .shuffle = false,
                          .epochs = 1},
                         0, 1);
  const auto loaded = *loader.next();
  const auto batch = collate(loaded, detector->options());
  const auto by_loader = detector->decode(detector->forward(batch, {.denoising = false}), batch)[0];
  OwnedFrame owned;
  fill(owned, dataset, loaded.samples[0].sensor_frame.frame);
  expect_equal(by_loader, detector.detect(owned.frame));
  DetectorSession session(detector);
  expect_equal(by_loader, session.detect(owned.frame));
}

TEST_F(CmtPipeline, EveryWayInGivesTheSameBoxes) {
  expect_one_pipeline(*dataset_);
}

TEST(CmtMadePipeline, EveryWayInGivesTheSameBoxes) {
  const tests::TemporaryFolder folder;
  tests::write_small_world(folder.path());
  expect_one_pipeline(nuscenes::Dataset(folder.path(), tests::kSmallVersion));
}

TEST(CmtMadePipeline, FollowsTheOptionsOfTheDetector) {
  auto options = small_options();
  options.encoder.cmt.sweep_minimum_distance = 1;
  options.encoder.cmt.repeat_key_frame = true;
  options.encoder.cmt.camera_order = {"REAR"};
  options.encoder.cmt.resampling = geometry::Resampling::kFiltered;
  const auto frame = options.frame_options();
  EXPECT_EQ(frame.sweeps.minimum_distance, 1);
  EXPECT_TRUE(frame.sweeps.repeat_key_frame);
  EXPECT_EQ(frame.camera_order, std::vector<std::string>{"REAR"});
  EXPECT_EQ(frame.resampling, geometry::Resampling::kFiltered);
  EXPECT_EQ(frame.sweeps.arithmetic, sensors::SweepArithmetic::kMmdet3d);
  const auto published = small_options().frame_options();
  EXPECT_EQ(published.sweeps.minimum_distance, 0);
  EXPECT_EQ(published.resampling, geometry::Resampling::kBilinear);
  const auto other = DetectorOptions::small().frame_options();
  EXPECT_EQ(other.sweeps.minimum_distance, 1);
  EXPECT_EQ(other.resampling, geometry::Resampling::kFiltered);
  EXPECT_EQ(other.sweeps.arithmetic, sensors::SweepArithmetic::kOnce);
}

}  // namespace
}  // namespace camber::cmt_tests
