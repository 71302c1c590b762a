#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "camber/nuscenes/rig.h"
#include "camber/sensors/frame.h"
#include "nuscenes/small_world.h"

namespace camber::sensors {
namespace {

using tests::message_of;

TEST(Points, AreReadWholeOrRefused) {
  const tests::TemporaryFolder folder;
  const auto path = folder.path() / "a.pcd.bin";
  std::vector<std::uint8_t> bytes = tests::make_lidar(5000);
  tests::write_bytes(path, bytes);
  const std::vector<LidarPoint> points = read_lidar_file(path);
  ASSERT_EQ(points.size(), 5000);
  EXPECT_FLOAT_EQ(points[0].x, 10);
  EXPECT_EQ(points[4999].ring, 4999 % 32);
  EXPECT_EQ(points[4999].intensity, 4999 % 256);
  bytes.pop_back();
  tests::write_bytes(path, bytes);
  EXPECT_EQ(message_of([&] { read_lidar_file(path); }),
            "[read_lidar_file] " + path.string() +
                " must hold whole points of 20 bytes, got 99999 bytes: the file is cut off or of another format");
  tests::write_bytes(path, {});
  EXPECT_TRUE(read_lidar_file(path).empty());
  EXPECT_EQ(message_of([&] { read_lidar_file(folder.path() / "none"); }),
            "[storage] " + (folder.path() / "none").string() + " cannot be read: No such file or directory");
  EXPECT_EQ(message_of([&] { read_lidar_file(folder.path()); }),
            "[storage] " + folder.path().string() + " must be a regular file to be read, got a folder");
}

TEST(Points, OutsideOfTheRangeAreDropped) {
  const float nothing = std::numeric_limits<float>::quiet_NaN();
  std::vector<LidarPoint> points = {{0, 0, 0}, {51.3F, 0, 0}, {0, -52, 0}, {0, 0, 3}, {0, 0, 3.1F}, {nothing, 0, 0}};
  keep_range(points, {});
  EXPECT_EQ(points, (std::vector<LidarPoint>{{0, 0, 0}, {0, 0, 3}}));
  EXPECT_EQ(message_of([] { PointRange{.z_min = 4}.validate(); }),
            "[PointRange] z_min must lie below z_max, got 4.000000 and 3.000000");
}

TEST(Points, OfEarlierSweepsJoinTheKeyFrameWithTheirTimeLag) {
  const tests::TemporaryFolder folder;
  tests::write_small_world(folder.path());
  const nuscenes::Dataset dataset(folder.path(), tests::kSmallVersion);
  const nuscenes::Index sample = dataset.tables().sample.find("sample-0-1");
  const auto points = aggregate_sweeps(dataset, sample, {"LIDAR_TOP"}, "LIDAR_TOP", {.previous = 2});
  ASSERT_EQ(points.size(), 300);  // key frame and two sweeps
  EXPECT_EQ(points[0].time_lag, 0);
  // The car drives along x: half a metre between a sweep and its key frame, half a metre back to the key frame before.
  EXPECT_NEAR(points[100].x, 10 - 0.5, 1e-5);
  EXPECT_NEAR(points[100].time_lag, 0.256172, 1e-6);
  EXPECT_NEAR(points[200].x, 10 - 1.0, 1e-5);
  EXPECT_NEAR(points[200].time_lag, 0.512345, 1e-6);
  // At the start of a scene there are fewer.
  EXPECT_EQ(aggregate_sweeps(dataset, 0, {"LIDAR_TOP"}, "LIDAR_TOP", {.previous = 10}).size(), 200);
  // Points of the car itself: all of this cloud lies within 11 m.
  EXPECT_EQ(aggregate_sweeps(dataset, 0, {"LIDAR_TOP"}, "LIDAR_TOP", {.previous = 10, .minimum_distance = 11}).size(),
            100);
  EXPECT_TRUE(aggregate_sweeps(dataset, 0, {"LIDAR_TOP"}, "LIDAR_TOP",
                               {.previous = 10, .minimum_distance = 11, .filter_key_frame = true})
                  .empty());
  EXPECT_EQ(message_of([&] { aggregate_sweeps(dataset, 0, {"LIDAR_TOP"}, "LIDAR_SIDE"); }),
            "[aggregate_sweeps] reference_channel must have a key frame in sample 'sample-0-0', got 'LIDAR_SIDE'");
}

TEST(Images, AreDecodedAtTheSmallestScaleThatServes) {
  const std::vector<std::uint8_t> bytes = tests::make_jpeg(160, 90);
  EXPECT_EQ(jpeg_size(bytes, "x"), (ImageSize{160, 90}));
  for (const auto& [scale, width, height] :
       {std::tuple{1.0, 160, 90}, {0.5, 80, 45}, {0.51, 100, 57}, {0.01, 20, 12}}) {
    const Image image = decode_jpeg(bytes, "x", scale);
    EXPECT_EQ(image.width, width) << scale;
    EXPECT_EQ(image.height, height) << scale;
    EXPECT_EQ(image.pixels.size(), static_cast<std::size_t>(3 * width * height));
    // Red grows with x, green with y.
    const std::int64_t column = width / 2, row = height / 2;
    const double x = static_cast<double>(column) + 0.5, y = static_cast<double>(row) + 0.5;
    EXPECT_NEAR(image.row(row)[3 * column], 255 * x / width, 3) << scale;
    EXPECT_NEAR(image.row(row)[3 * column + 1], 255 * y * 160 / (90 * width), 4) << scale;
  }
}

TEST(Images, ThatAreNoneOrDamagedAreRefused) {
  const std::vector<std::uint8_t> bytes = tests::make_jpeg(160, 90);
  EXPECT_EQ(message_of([&] { decode_jpeg({bytes.data(), 0}, "a.jpg"); }), "[decode_jpeg] a.jpg: is not a JPEG file");
  const std::vector<std::uint8_t> png = {0x89, 'P', 'N', 'G', 1, 2, 3, 4};
  EXPECT_EQ(message_of([&] { decode_jpeg(png, "a.jpg"); }), "[decode_jpeg] a.jpg: is not a JPEG file");
  EXPECT_EQ(message_of([&] { decode_jpeg(std::span(bytes).first(bytes.size() / 2), "a.jpg"); }),
            "[decode_jpeg] a.jpg: is a damaged JPEG file: Premature end of JPEG file");
  // A header that claims 65,500 x 65,500 pixels.
  std::vector<std::uint8_t> huge = bytes;
  constexpr std::array<std::uint8_t, 2> kFrameMarker = {0xFF, 0xC0};
  const auto frame_header = std::search(huge.begin(), huge.end(), kFrameMarker.begin(), kFrameMarker.end());
  ASSERT_NE(frame_header, huge.end());
  for (const int offset : {5, 7}) {
    frame_header[offset] = 0xFF;
    frame_header[offset + 1] = 0xDC;
  }
  EXPECT_EQ(message_of([&] { decode_jpeg(huge, "a.jpg"); }),
            "[decode_jpeg] a.jpg: must have between 1 and 64 million pixels, got 65500 x 65500");
  const tests::TemporaryFolder folder;
  tests::write_bytes(folder.path() / "a.jpg", bytes);
  EXPECT_EQ(
      message_of([&] {
        load_image(folder.path() / "a.jpg", {1600, 900}, geometry::ImageTransform::fit_bottom(1600, 900, 800, 320));
      }),
      "[load_image] " + (folder.path() / "a.jpg").string() +
          " must be 1600 x 900 pixels as the tables say, got 160 x 90");
}

// An image whose red is the column and whose green is the row.
Image ramp(std::int64_t width, std::int64_t height) {
  Image image{.width = width, .height = height};
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x)
      for (const std::int64_t value : {x, y, std::int64_t{7}}) image.pixels.push_back(static_cast<std::uint8_t>(value));
  return image;
}

TEST(Images, TransformFollowsItsMatrix) {
  const Image source = ramp(200, 100);
  for (const bool flip : {false, true}) {
    for (const double resize : {1.0, 0.5, 0.37, 1.4}) {
      geometry::ImageTransform transform{.resize = resize, .crop_x = 10, .crop_y = 5, .width = 60, .height = 24};
      transform.flip = flip;
      const Image result = transform_image(source, {200, 100}, transform);
      const geometry::Matrix3 m = transform.matrix();
      for (const std::int64_t x : {0, 17, 59}) {
        for (const std::int64_t y : {0, 11, 23}) {
          // The centre of the pixel, taken back through the matrix; the ramp's value at u is u - 1/2.
          const double u = (static_cast<double>(x) + 0.5 - m[2]) / m[0],
                       v = (static_cast<double>(y) + 0.5 - m[5]) / m[4];
          EXPECT_NEAR(result.row(y)[3 * x], u - 0.5, 0.75) << resize << flip;
          EXPECT_NEAR(result.row(y)[3 * x + 1], v - 0.5, 0.75) << resize << flip;
          EXPECT_EQ(result.row(y)[3 * x + 2], 7);
        }
      }
    }
  }
}

TEST(Images, WithoutResizeAreCutExactlyAndBlackBeyondTheBorder) {
  const Image source = ramp(40, 30);
  const Image result =
      transform_image(source, {40, 30}, {.resize = 1, .crop_x = -2, .crop_y = 26, .width = 44, .height = 8});
  EXPECT_EQ(result.row(0)[3], 0);
  EXPECT_EQ(result.row(0)[5], 0);  // left of the image
  EXPECT_EQ(result.row(0)[3 * 2 + 2], 7);
  for (std::int64_t x = 0; x < 40; ++x) {
    EXPECT_EQ(result.row(3)[3 * (x + 2)], x);
    EXPECT_EQ(result.row(3)[3 * (x + 2) + 1], 29);
  }
  EXPECT_EQ(result.row(4)[3 * 10 + 2], 0);  // below it
}

TEST(Images, ThatFitAlreadyStayAsTheyAre) {
  const Image source = ramp(40, 30);
  EXPECT_EQ(transform_image(source, {40, 30}, {.width = 40, .height = 30}).pixels, source.pixels);
  const Image smaller = transform_image(source, {80, 60}, {.width = 40, .height = 30});  // decoded at half the size
  EXPECT_EQ(smaller.row(15)[std::ptrdiff_t{3} * 20], 10);
}

// An image that somebody else owns is read where it lies; one that is given away is not copied.
TEST(Images, AreTransformedFromWhereTheyLie) {
  Image source{.width = 40, .height = 30, .pixels = {}};
  for (int i = 0; i < 3 * 40 * 30; ++i) source.pixels.push_back(static_cast<std::uint8_t>(7 * i + i / 90));
  std::vector<std::uint8_t> turned(static_cast<std::size_t>(30 * 150));
  for (std::size_t y = 0; y < 30; ++y)
    for (std::size_t x = 0; x < 40; ++x)
      for (std::size_t c = 0; c < 3; ++c) turned[150 * y + 3 * x + c] = source.pixels[120 * y + 3 * x + 2 - c];
  const ImageView view{.data = turned.data(), .width = 40, .height = 30, .pitch = 150, .order = ChannelOrder::kBgr};
  for (const geometry::ImageTransform& transform :
       {geometry::ImageTransform{.width = 40, .height = 30}, geometry::ImageTransform::fit_bottom(40, 30, 16, 8),
        geometry::ImageTransform{.crop_x = -2, .width = 44, .height = 20, .flip = true}})
    EXPECT_EQ(transform_image(view, {40, 30}, transform).pixels, transform_image(source, {40, 30}, transform).pixels);
  const std::uint8_t* const memory = source.pixels.data();
  EXPECT_EQ(transform_image(std::move(source), {40, 30}, {.width = 40, .height = 30}).pixels.data(), memory);
}

TEST(KeyFrame, HoldsAnyRig) {
  const tests::TemporaryFolder folder;
  tests::write_small_world(folder.path());
  const nuscenes::Dataset dataset(folder.path(), tests::kSmallVersion);
  FrameOptions options{.image_width = 64, .image_height = 32, .feature_stride = 8};
  const KeyFrame frame = load_key_frame(dataset, 1, options);
  EXPECT_EQ(frame.points.size(), 400);  // three earlier sweeps
  ASSERT_EQ(frame.cameras.size(), 2);
  EXPECT_EQ(frame.cameras[0].camera.name, "CAM_FRONT");
  EXPECT_EQ(frame.cameras[0].camera.columns, 8);
  EXPECT_EQ(frame.cameras[0].image.width, 64);
  EXPECT_TRUE(frame.cameras[0].available);
  ASSERT_EQ(frame.objects.size(), 2);
  EXPECT_EQ(frame.objects[0].category, "vehicle.car");
  EXPECT_NEAR(frame.objects[0].box.center[0], 111 - 101.5 - 1, 1e-9);
  EXPECT_NEAR(frame.objects[0].box.yaw, 1.5707963267948966, 1e-9);
  EXPECT_EQ(frame.objects[0].visible_share, 0.2);
  // Cameras by choice and in the order asked for.
  options.cameras = {"CAM_BACK"};
  EXPECT_EQ(load_key_frame(dataset, 1, options).cameras.at(0).camera.name, "CAM_BACK");
  options.cameras = {"CAM_TOP"};
  EXPECT_EQ(message_of([&] { load_key_frame(dataset, 1, options); }),
            "[load_frame] cameras must be among CAM_FRONT, CAM_BACK, got 'CAM_TOP'");
  EXPECT_EQ(message_of([&] { load_key_frame(dataset, 99, options); }),
            "[load_frame] sample must be a row of the sample table, got 99");
}

TEST(KeyFrame, TakesAMissingSensorForAbsentAndAMissingFileForAnError) {
  const tests::TemporaryFolder folder;
  tests::TableTexts texts = tests::small_tables();
  // The front camera's first key frame becomes a sweep.
  std::string& rows = texts.at("sample_data");
  const std::size_t row = rows.find("data-0-CAM_FRONT-0");
  rows.replace(rows.find("true", row), 4, "false");
  tests::write_small_world(folder.path(), texts);
  const nuscenes::Dataset dataset(folder.path(), tests::kSmallVersion);
  const FrameOptions options{.image_width = 64, .image_height = 32, .feature_stride = 8};
  const KeyFrame frame = load_key_frame(dataset, 0, options);
  EXPECT_FALSE(frame.cameras[0].available);
  EXPECT_TRUE(frame.cameras[1].available);
  EXPECT_EQ(frame.cameras[0].camera.cell_at({5, 0, 0}), std::nullopt);
  const auto file = folder.path() / "samples/CAM_BACK/data-0-CAM_BACK-0.jpg";
  std::filesystem::remove(file);
  EXPECT_EQ(message_of([&] { load_key_frame(dataset, 0, options); }),
            "[storage] " + file.string() + " cannot be read: No such file or directory");
}

TEST(Rig, ComesFromTablesOrFromOptionsAndAgrees) {
  const tests::TemporaryFolder folder;
  tests::write_small_world(folder.path(), tests::small_tables(), false);
  const nuscenes::Dataset dataset(folder.path(), tests::kSmallVersion);
  const nuscenes::Rig rig = nuscenes::Rig::of(dataset, 0);
  ASSERT_EQ(rig.sensors.size(), 3);
  rig.validate();
  const auto cameras = rig.cameras(64, 32, 8);
  ASSERT_EQ(cameras.size(), 2);
  const KeyFrame frame = load_key_frame(
      dataset, 0,
      {.image_width = 64, .image_height = 32, .feature_stride = 8, .load_points = false, .load_images = false});
  for (std::size_t i = 0; i < 16; ++i)
    EXPECT_NEAR(cameras[0].lidar_to_image[i], frame.cameras[0].camera.lidar_to_image[i], 1e-9);
  nuscenes::Rig wrong = rig;
  wrong.sensors[1].intrinsic.pop_back();
  EXPECT_EQ(message_of([&] { wrong.validate(); }), "[Rig] sensor 'CAM_FRONT': intrinsic must have 9 numbers, got 8");
  wrong = rig;
  wrong.sensors[1].height = std::numeric_limits<std::int64_t>::max();
  EXPECT_NE(message_of([&] { wrong.validate(); }).find("width and height must be between 1 and 65535, got "),
            std::string::npos);
  wrong = rig;
  wrong.sensors[2].channel = "CAM_FRONT";
  EXPECT_EQ(message_of([&] { wrong.validate(); }), "[Rig] every channel must stand once, got 'CAM_FRONT' twice");
  EXPECT_TRUE(nuscenes::Rig{}.cameras(64, 32, 8).empty());
}

}  // namespace
}  // namespace camber::sensors
