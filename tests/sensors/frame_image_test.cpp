#include "camber/sensors/frame_image.h"

#include <cmath>

#include <gtest/gtest.h>

#include "nuscenes/small_world.h"
#include "sensors/simulated_world.h"

namespace camber::sensors {
namespace {

using tests::simulated_world;

SensorFrame drawn_frame(std::span<const Fault> faults = {}) {
  const auto& world = simulated_world();
  return load_sensor_frame(world.dataset, world.all.samples[3], FrameOptions::for_drawing(), faults, world.all.samples,
                           random::Stream(1, "faults"));
}

bool same_pixels(const drawing::Canvas& canvas, const Image& image, int left, int top) {
  for (int y = 0; y < static_cast<int>(image.height); ++y)
    for (int x = 0; x < static_cast<int>(image.width); ++x) {
      const std::uint8_t* p = image.row(y) + std::ptrdiff_t{3} * x;
      if (canvas.pixel(left + x, top + y) != drawing::Colour{p[0], p[1], p[2]}) return false;
    }
  return true;
}

TEST(FrameImage, ShowsEveryCameraAtItsOwnResolution) {
  const SensorFrame frame = drawn_frame();
  for (const CameraView& view : frame.frame.cameras) {
    EXPECT_EQ(view.image.width, 120);
    EXPECT_EQ(view.image.height, 48);
  }
  const drawing::Canvas canvas = draw_frame({.frame = &frame}, {.min_camera_width = 1});
  // Two columns of three rows of 120 x 48 with gaps of 4, names drawn over their upper left corners; the bird's-eye
  // view beside them is as high as they are.
  EXPECT_EQ(canvas.width(), 2 * 120 + 4 + 4 + 3 * 48 + 2 * 4);
  Image lower = frame.frame.cameras[3].image;  // the camera that looks back stands in the first row, right
  lower.pixels.erase(lower.pixels.begin(), lower.pixels.begin() + std::ptrdiff_t{3} * 120 * 24);
  lower.height = 24;
  EXPECT_TRUE(same_pixels(canvas, lower, 124, 24));
}

TEST(FrameImage, LeavesNoPartOfTheCanvasEmpty) {
  // Cameras of two sizes: rows are scaled to one width, so that nothing is left over.
  SensorFrame frame = drawn_frame();
  CameraView& narrow = frame.frame.cameras[1];
  narrow.camera.width = 60;
  narrow.image = transform_image(narrow.image, {120, 48}, {.resize = 1, .width = 60, .height = 48});
  frame.frame.cameras.pop_back();
  const drawing::Canvas canvas = draw_frame({.frame = &frame}, {.min_camera_width = 200});
  const drawing::Colour ground{16, 18, 22};
  int empty = 0, all = 0;
  const int cameras_end = canvas.width() - canvas.height();  // the bird's-eye view is about as wide as all is high
  for (int row = 0; row < canvas.height() - 30; ++row)
    for (int column = 0; column < cameras_end; ++column, ++all) empty += canvas.pixel(column, row) == ground;
  EXPECT_LT(empty, all / 25);
}

TEST(FrameImage, DrawsABoxWhereItsObjectIs) {
  const SensorFrame frame = drawn_frame();
  const drawing::Canvas with = draw_frame({.frame = &frame, .marks = true_boxes(frame.frame)});
  const drawing::Canvas without = draw_frame({.frame = &frame});
  ASSERT_EQ(with.width(), without.width());
  const FrameObject* near = nullptr;
  for (const FrameObject& object : frame.frame.objects)
    if (std::hypot(object.box.center[0], object.box.center[1]) < 20) near = &object;
  ASSERT_NE(near, nullptr);
  // From above: forward is up, 26 m from the middle to the edge.
  const geometry::Vector3 ego = frame.frame.reference.sensor_to_ego.apply(near->box.center);
  const int side = 3 * 192 + 2 * 4;
  const double scale = side / 52.0;
  const auto x = static_cast<int>(with.width() - side / 2.0 - scale * ego[1]);
  const auto y = static_cast<int>(side / 2.0 - scale * ego[0]);
  const drawing::Colour wanted = category_colour(near->category);
  bool there = false;
  for (int dx = -3; dx <= 3; ++dx)
    for (int dy = -3; dy <= 3; ++dy) {
      const drawing::Colour c = with.pixel(x + dx, y + dy);
      there = there || (std::abs(c.red - wanted.red) < 40 && std::abs(c.green - wanted.green) < 40 &&
                        std::abs(c.blue - wanted.blue) < 40);
    }
  EXPECT_TRUE(there);
}

TEST(FrameImage, LabelsOfBoxesKeepOffTheDistancesOfTheRings) {
  SensorFrame frame = drawn_frame();
  frame.frame.points.clear();
  const geometry::Vector3 ahead = frame.frame.reference.sensor_to_ego.inverse().apply({17.7, -1, 1});
  BoxMark mark{.box = {.center = ahead, .length = 2, .width = 2, .height = 1.6},
               .category = "vehicle.car",
               .found = true,
               .words = "car 0.62"};
  const drawing::Canvas without = draw_frame({.frame = &frame}), with = draw_frame({.frame = &frame, .marks = {mark}});
  // "20 m" stands just below the top of its ring, right of the middle: 26 m from the middle to the edge.
  const int side = 3 * 192 + 2 * 4, left = with.width() - side / 2 + 2;
  const auto top = static_cast<int>(side / 2.0 - 20 * side / 52.0) + 2;
  int letters = 0;
  for (int y = top; y < top + 10; ++y)
    for (int x = left; x < left + 24; ++x) {
      if (without.pixel(x, y).red < 100) continue;
      ++letters;
      EXPECT_EQ(with.pixel(x, y), without.pixel(x, y)) << x << " " << y;
    }
  EXPECT_GT(letters, 20);
}

TEST(FrameImage, ClassesHaveTheirOwnColours) {
  const char* categories[] = {"vehicle.car",           "vehicle.truck",        "vehicle.bus.rigid",
                              "vehicle.trailer",       "vehicle.construction", "human.pedestrian.adult",
                              "vehicle.motorcycle",    "vehicle.bicycle",      "movable_object.trafficcone",
                              "movable_object.barrier"};
  for (const char* a : categories)
    for (const char* b : categories) EXPECT_EQ(category_colour(a) == category_colour(b), a == b) << a << " " << b;
  EXPECT_EQ(category_colour("vehicle.car"), category_colour("car"));
  EXPECT_EQ(category_colour("vehicle.construction"), category_colour("construction_vehicle"));
  EXPECT_EQ(category_colour("animal"), (drawing::Colour{200, 200, 200}));
}

TEST(FrameImage, FramesStandBelowEachOtherAndAStripInRows) {
  const SensorFrame clean = drawn_frame();
  const std::vector<Fault> off = parse_faults("cameras_off");
  const SensorFrame broken = drawn_frame(off);
  const MarkedFrame frames[] = {{.frame = &clean, .title = "clean"}, {.frame = &broken, .title = "cameras_off"}};
  const drawing::Canvas both = draw_frames(frames), one = draw_frame(frames[0]);
  EXPECT_EQ(both.width(), one.width());
  EXPECT_GT(both.height(), 2 * one.height() - 60);
  const std::vector<MarkedFrame> scene(7, frames[0]);
  const drawing::Canvas strip = draw_strip(scene);
  EXPECT_EQ(strip.width(), 5 * 484 - 4);
  EXPECT_GT(strip.height(), 2 * (480 + 192));
  EXPECT_EQ(tests::message_of([] { draw_frames({}); }), "[draw_frames] frames must not be empty");
  const auto& world = simulated_world();
  const drawing::Canvas sheet =
      draw_fault_sheet(world.dataset, world.all.samples[3], world.all.samples, FrameOptions::for_drawing(), 3, 1);
  EXPECT_GT(sheet.height(), 2000);
}

TEST(FrameImage, TheRealKeyFrameIsDrawnAtFullSize) {
  const std::filesystem::path root = tests::real_data() / "nuscenes_keyframe";
  if (!std::filesystem::exists(root)) GTEST_SKIP() << "needs the real key frame: " << root;
  const nuscenes::Dataset dataset(root, "v1.0-keyframe");
  FrameOptions options = FrameOptions::for_drawing();
  options.load_images = false;
  const KeyFrame frame = load_key_frame(dataset, 0, options);
  ASSERT_EQ(frame.cameras.size(), 6U);
  for (const CameraView& view : frame.cameras) EXPECT_EQ(view.camera.width, 1600);
  // As one looks round: front left, front, front right; back left, back, back right.
  std::vector<std::string> shown;
  for (const std::size_t camera : viewing_order(frame, 3)) shown.push_back(frame.cameras[camera].camera.name);
  EXPECT_EQ(shown, (std::vector<std::string>{"CAM_FRONT_LEFT", "CAM_FRONT", "CAM_FRONT_RIGHT", "CAM_BACK_LEFT",
                                             "CAM_BACK", "CAM_BACK_RIGHT"}));
}

}  // namespace
}  // namespace camber::sensors
