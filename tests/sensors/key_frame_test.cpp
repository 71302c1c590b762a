#include <cmath>
#include <fstream>
#include <map>
#include <span>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "camber/geometry/bev_grid.h"
#include "camber/sensors/frame.h"
#include "camber/storage/file.h"
#include "nuscenes/small_world.h"

/// The real key frame: what the tables say must agree with what was measured from it by other code.
namespace camber::sensors {
namespace {

using Json = nlohmann::json;

class RealKeyFrame : public testing::Test {
 protected:
  void SetUp() override {
    root_ = tests::real_data() / "nuscenes_keyframe";
    if (!std::filesystem::exists(root_ / "projection_golden.json"))
      GTEST_SKIP() << "no real key frame in " << root_ << " (set CAMBER_DATA)";
    golden_ = Json::parse(std::ifstream(root_ / "projection_golden.json"));
  }

  KeyFrame load(FrameOptions options = {}) const {
    options.cameras = golden_.at("camera_order").get<std::vector<std::string>>();
    const nuscenes::Dataset dataset(root_, "v1.0-keyframe");
    return load_key_frame(dataset, 0, options);
  }

  std::filesystem::path root_;
  Json golden_;
};

TEST_F(RealKeyFrame, EveryGoldenProjectionWithinAThousandthOfAPixel) {
  const KeyFrame frame = load({.load_points = false, .load_images = false});
  ASSERT_EQ(frame.cameras.size(), 6);
  int checked = 0;
  double worst = 0;
  for (const Json& object : golden_.at("gt")) {
    const geometry::Vector3 center = {object["box"][0], object["box"][1], object["box"][2]};
    std::map<std::size_t, Json> views;
    for (const Json& view : object["views"]) views[view["view"].get<std::size_t>()] = view;
    for (std::size_t i = 0; i < frame.cameras.size(); ++i) {
      const geometry::Camera& camera = frame.cameras[i].camera;
      const geometry::Projection projection = camera.project(center);
      ASSERT_EQ(camera.sees(projection), views.contains(i)) << object["idx"] << " in " << camera.name;
      if (!views.contains(i)) continue;
      const Json& view = views[i];
      worst = std::max(
          {worst, std::abs(projection.u - view["u"].get<double>()), std::abs(projection.v - view["v"].get<double>())});
      EXPECT_NEAR(projection.depth, view["depth"].get<double>(), 1e-3);
      const auto cell = camera.cell_at(center);
      ASSERT_TRUE(cell.has_value());
      EXPECT_EQ(cell->row, view["feat_h"].get<std::int64_t>());
      EXPECT_EQ(cell->column, view["feat_w"].get<std::int64_t>());
      ++checked;
    }
  }
  EXPECT_EQ(checked, 80);
  EXPECT_LT(worst, 1e-3);
  std::printf("golden projections: %d of 80 within 1e-3 px, worst %.2e px\n", checked, worst);
}

TEST_F(RealKeyFrame, BoxesOfTheTablesAreTheGoldenBoxes) {
  const KeyFrame frame = load({.load_points = false, .load_images = false});
  ASSERT_EQ(frame.objects.size(), 68);  // the 69th is of a class that the tables leave out
  std::size_t next = 0;
  for (const Json& object : golden_.at("gt")) {
    if (object["cls"] == "ignore") continue;
    const FrameObject& found = frame.objects[next++];
    const Json& box = object["box"];
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(found.box.center[i], box[i].get<double>(), 1e-5);
    EXPECT_NEAR(found.box.length, box[3].get<double>(), 1e-6);
    EXPECT_NEAR(found.box.width, box[4].get<double>(), 1e-6);
    EXPECT_NEAR(found.box.height, box[5].get<double>(), 1e-6);
    EXPECT_NEAR(std::remainder(found.box.yaw - box[6].get<double>(), 2 * M_PI), 0, 1e-3);
    EXPECT_EQ(found.lidar_points, object["num_lidar_pts"].get<int>());
  }
}

TEST_F(RealKeyFrame, PointsInsideBoxesAreThoseThatTheTablesCount) {
  FrameOptions options{.load_images = false};
  options.range = {-200, 200, -200, 200, -50, 50};
  const KeyFrame frame = load(options);
  EXPECT_EQ(frame.points.size(), 34688);
  int equal = 0, objects = 0, difference = 0;
  for (const Json& object : golden_.at("gt")) {
    const Json& b = object["box"];
    const geometry::Box box{.center = {b[0], b[1], b[2]}, .length = b[3], .width = b[4], .height = b[5], .yaw = b[6]};
    int inside = 0;
    for (const LidarPoint& point : frame.points) inside += box.contains({point.x, point.y, point.z});
    equal += inside == object["num_lidar_pts"].get<int>();
    difference += std::abs(inside - object["num_lidar_pts"].get<int>());
    ++objects;
  }
  EXPECT_EQ(objects, 69);
  EXPECT_GE(equal, 61);
  EXPECT_LE(difference, 29);
  int of_tables = 0;
  for (const FrameObject& object : frame.objects) {
    int inside = 0;
    for (const LidarPoint& point : frame.points) inside += object.box.contains({point.x, point.y, point.z});
    of_tables += inside == object.lidar_points;
  }
  EXPECT_GE(of_tables, 60);
  std::printf("points inside boxes equal num_lidar_pts: %d of %d (the tables' own boxes: %d of %zu)\n", equal, objects,
              of_tables, frame.objects.size());
}

TEST_F(RealKeyFrame, RangeAndGridHoldTheMeasuredCounts) {
  FrameOptions options{.load_images = false};
  options.range = {-54, 54, -54, 54, -5, 3};
  const KeyFrame frame = load(options);
  EXPECT_EQ(frame.points.size(), 32330);
  for (const Json& object : golden_.at("gt")) {
    const Json& yx = object["bev_metric_0p8m_yx"];
    const geometry::BevGrid grid(-54, 54, -54, 54, 0.8);
    const auto cell = grid.cell_at(object["box"][0], object["box"][1]);
    if (cell) {
      EXPECT_EQ(cell->row, yx[0].get<std::int64_t>());
      EXPECT_EQ(cell->column, yx[1].get<std::int64_t>());
    }
  }
}

TEST_F(RealKeyFrame, ImagesAreTheNetworksSize) {
  const KeyFrame frame = load({.load_points = false});
  for (const CameraView& view : frame.cameras) {
    EXPECT_TRUE(view.available);
    EXPECT_EQ(view.image.width, 800);
    EXPECT_EQ(view.image.height, 320);
    // An image by day: neither black nor white.
    double sum = 0;
    for (const std::uint8_t byte : view.image.pixels) sum += byte;
    const double mean = sum / static_cast<double>(view.image.pixels.size());
    EXPECT_GT(mean, 40);
    EXPECT_LT(mean, 215);
  }
}

std::uint32_t crc32_of(const std::vector<std::uint8_t>& bytes) {
  std::uint32_t remainder = 0xFFFFFFFF;
  for (const std::uint8_t byte : bytes) {
    remainder ^= byte;
    for (int bit = 0; bit < 8; ++bit) remainder = (remainder >> 1) ^ ((remainder & 1) != 0 ? 0xEDB88320 : 0);
  }
  return ~remainder;
}

std::vector<std::uint8_t> blue_first(Image image) {
  for (std::size_t i = 0; i < image.pixels.size(); i += 3) std::swap(image.pixels[i], image.pixels[i + 2]);
  return image.pixels;
}

// The decoder's own settings (accurate transform, smooth upsampling) are OpenCV's, and so is the resize.
TEST_F(RealKeyFrame, DecodedAndResizedImagesAreOpenCvs) {
  const auto facts_file = root_ / "../cmt_golden/facts.json";
  if (!std::filesystem::exists(facts_file)) GTEST_SKIP() << "no checksums in " << facts_file;
  const Json facts = Json::parse(std::ifstream(facts_file)).at("decoded");
  const nuscenes::Dataset dataset(root_, "v1.0-keyframe");
  const geometry::ImageTransform half{
      .resize = 0.5, .width = 800, .height = 450, .resampling = geometry::Resampling::kBilinear};
  for (const auto& [channel, expected] : facts.items()) {
    const auto path = dataset.path_of(dataset.tables().sample_data[dataset.key_frame(0, channel)]);
    const std::string content = storage::read_file(path);
    const std::span bytes(reinterpret_cast<const std::uint8_t*>(content.data()), content.size());
    EXPECT_EQ(crc32_of(blue_first(decode_jpeg(bytes, channel))), expected["crc32"].get<std::uint32_t>()) << channel;
    EXPECT_EQ(crc32_of(blue_first(load_image(path, {1600, 900}, half))), expected["resized_crc32"].get<std::uint32_t>())
        << channel;
  }
  EXPECT_EQ(facts.size(), 6);
}

// The scaled decoding gives what decoding whole and shrinking gives.
TEST_F(RealKeyFrame, ScaledDecodingIsCloseToTheWholeImageShrunk) {
  const nuscenes::Dataset dataset(root_, "v1.0-keyframe");
  const auto path = dataset.path_of(dataset.tables().sample_data[dataset.key_frame(0, "CAM_FRONT")]);
  const auto transform = geometry::ImageTransform::fit_bottom(1600, 900, 800, 320);
  const std::string content = storage::read_file(path);
  const std::span bytes(reinterpret_cast<const std::uint8_t*>(content.data()), content.size());
  const Image whole = transform_image(decode_jpeg(bytes, "x"), {1600, 900}, transform);
  const Image scaled = load_image(path, {1600, 900}, transform);
  double difference = 0;
  for (std::size_t i = 0; i < whole.pixels.size(); ++i) difference += std::abs(whole.pixels[i] - scaled.pixels[i]);
  EXPECT_LT(difference / static_cast<double>(whole.pixels.size()), 2.5);
}

}  // namespace
}  // namespace camber::sensors
