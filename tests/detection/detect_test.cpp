#include <cmath>
#include <fstream>
#include <limits>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "camber/config/options.h"
#include "camber/detection/frame.h"
#include "camber/detection/weights.h"
#include "camber/nn/attention_bias.h"
#include "camber/storage/file.h"
#include "camber/weights/load.h"
#include "detection/example_batch.h"
#include "support/comparison.h"

namespace camber::detection {
namespace {

using camber::proof::error_of;
using camber::proof::same_bits;

struct OwnArrays {
  std::vector<float> points;
  std::vector<std::uint8_t> image;
  Frame frame;

  OwnArrays() {
    random::Stream stream(5, "arrays");
    for (int i = 0; i < 500; ++i)
      for (const double value : {stream.uniform(-24, 24), stream.uniform(-24, 24), stream.uniform(-1.8, 1), 0.5})
        points.push_back(static_cast<float>(value));
    for (int i = 0; i < 3 * 240 * 96; ++i) image.push_back(static_cast<std::uint8_t>(stream.integer(256)));
    frame.points = {.data = points.data(), .count = 500, .stride = 4, .intensity_scale = 1};
    const double focal = 240.0 / 2 / 0.7;
    for (const double yaw : {0.0, 2.0}) {
      const geometry::RigidTransform turn{
          .rotation = {std::sin(yaw), -std::cos(yaw), 0, 0, 0, -1, std::cos(yaw), std::sin(yaw), 0}};
      frame.cameras.push_back({.name = "camera",
                               .image = {.data = image.data(), .width = 240, .height = 96},
                               .intrinsic = {focal, 0, 120, 0, focal, 36, 0, 0, 1},
                               .lidar_to_camera = turn});
    }
  }
};

Detector small_detector(bool router = false) {
  auto options = examples::tiny_options();
  if (router) options.router.mode = nn::RouterMode::kLearned;
  Detector detector(options, 1);
  detector->eval();
  return detector;
}

bool equal(const std::vector<Detection>& a, const std::vector<Detection>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].score != b[i].score || a[i].box.center != b[i].box.center || a[i].label != b[i].label) return false;
  return true;
}

TEST(Detect, FindsTheSameAfterSavingAndLoading) {
  const OwnArrays own;
  const auto detector = small_detector(true);
  const auto file = std::filesystem::path(::testing::TempDir()) / "detector.safetensors";
  save(*detector, file, {{"step", "7"}});
  const auto loaded = Detector::load(file);
  const auto expected = detector.detect(own.frame);
  ASSERT_FALSE(expected.empty());
  EXPECT_TRUE(equal(loaded.detect(own.frame), expected));
  EXPECT_EQ(expected[0].trust.size(), 2U);
  EXPECT_EQ(expected[0].attention_mass.size(), 3U);
  const storage::SafetensorsFile written(file);
  EXPECT_EQ(written.metadata().at("step"), "7");
  std::filesystem::remove(file);
}

TEST(Detect, MayBeCalledFromManyThreads) {
  const OwnArrays own;
  const auto detector = small_detector();
  const auto expected = detector.detect(own.frame);
  std::vector<std::thread> threads;
  std::vector<int> same(4, 0);
  threads.reserve(same.size());
  for (std::size_t t = 0; t < same.size(); ++t)
    threads.emplace_back([&, t] {
      OwnArrays mine;
      for (int i = 0; i < 3; ++i) {
        mine.frame.cameras[0].lidar_to_camera.translation[0] = 0.01 * static_cast<double>(t);  // its own calibration
        detector.detect(mine.frame);
        same[t] += equal(detector.detect(own.frame), expected);
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(same, (std::vector<int>{3, 3, 3, 3}));
}

TEST(Detect, TakesFramesWithoutSensors) {
  const auto detector = small_detector();
  OwnArrays own;
  own.frame.cameras[1].available = false;
  EXPECT_FALSE(detector.detect(own.frame).empty());
  own.frame.lidar_available = false;
  EXPECT_FALSE(detector.detect(own.frame).empty());
  own.frame.cameras.clear();
  EXPECT_TRUE(detector.detect(own.frame).empty());
  own.frame.lidar_available = true;
  own.frame.points.count = 0;
  EXPECT_NO_THROW(detector.detect(own.frame));
}

TEST(Detect, AnAbsentCameraNeedsNoImageSize) {
  const auto detector = small_detector(true);
  OwnArrays own;
  own.frame.cameras[1] = {.name = "dead", .available = false};
  EXPECT_FALSE(detector.detect(own.frame).empty());
  own.frame.cameras[0] = {.name = "dead", .available = false};
  EXPECT_FALSE(detector.detect(own.frame).empty()) << "the LiDAR is there";
}

TEST(Detect, CuesAreGivenForEverySensorOrNone) {
  const auto detector = small_detector(true);
  OwnArrays own;
  own.frame.cues.resize(3);
  EXPECT_NO_THROW(detector.detect(own.frame));
  for (const std::size_t count : {1, 2, 4}) {
    own.frame.cues.resize(count);
    EXPECT_NE(
        error_of([&] {
          detector.detect(own.frame);
        }).find("[collate] cues must be given for each of the 3 sensors or for none, got " + std::to_string(count)),
        std::string::npos)
        << error_of([&] { detector.detect(own.frame); });
  }
}

TEST(Detect, HonoursPitchAndChannelOrder) {
  OwnArrays own;
  const auto detector = small_detector();
  const auto expected = detector.detect(own.frame);
  std::vector<std::uint8_t> turned(static_cast<std::size_t>(96 * 800));
  for (std::size_t y = 0; y < 96; ++y)
    for (std::size_t x = 0; x < 240; ++x)
      for (std::size_t c = 0; c < 3; ++c) turned[y * 800 + 3 * x + c] = own.image[y * 720 + 3 * x + 2 - c];
  for (auto& camera : own.frame.cameras)
    camera.image = {.data = turned.data(), .width = 240, .height = 96, .pitch = 800, .order = ChannelOrder::kBgr};
  EXPECT_TRUE(equal(detector.detect(own.frame), expected));
}

TEST(Detect, OnePointThatIsNoNumberIsLeftOutAndSpoilsNothing) {
  auto detector = small_detector();
  OwnArrays own;
  own.frame.points.count = 499;
  const auto expected = detector.detect(own.frame);
  ASSERT_FALSE(expected.empty());
  own.frame.points.count = 500;
  for (const std::size_t number : {0, 2, 3}) {  // x, z, intensity
    for (const float value : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      const float kept = std::exchange(own.points[std::size_t{4} * 499 + number], value);
      EXPECT_TRUE(equal(detector.detect(own.frame), expected)) << number << " is " << value;
      own.points[std::size_t{4} * 499 + number] = kept;
    }
  }
  own.frame.points.time_lag_index = 3;
  own.points[4 * 499 + 3] = std::numeric_limits<float>::quiet_NaN();
  for (const Detection& found : detector.detect(own.frame)) EXPECT_TRUE(std::isfinite(found.score));
}

TEST(Detect, ACalibrationThatIsNoNumberIsRefused) {
  auto detector = small_detector();
  OwnArrays own;
  own.frame.cameras[1].intrinsic[0] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(error_of([&] { detector.detect(own.frame); }),
            "[detect] camera \"camera\" must have a calibration of finite numbers");
  own = OwnArrays();
  own.frame.cameras[0].lidar_to_camera.translation[2] = std::numeric_limits<double>::infinity();
  EXPECT_EQ(error_of([&] { detector.detect(own.frame); }),
            "[detect] camera \"camera\" must have a calibration of finite numbers");
  own = OwnArrays();
  own.frame.points.count = -1;
  EXPECT_EQ(error_of([&] { detector.detect(own.frame); }), "[detect] points.count must be at least 0, got -1");
}

TEST(Detect, AnswersWrongInputWithASentence) {
  auto detector = small_detector();
  OwnArrays own;
  own.frame.cameras[0].image.width = 0;
  EXPECT_NE(error_of([&] { detector.detect(own.frame); }).find("camera \"camera\" must have an image"),
            std::string::npos);
  own = OwnArrays();
  own.frame.points.stride = 2;
  EXPECT_NE(error_of([&] { detector.detect(own.frame); }).find("stride of 2"), std::string::npos);
  own = OwnArrays();
  own.frame.points.stride = 3;
  EXPECT_EQ(error_of([&] { detector.detect(own.frame); }),
            "[detect] points.intensity_index must be below the stride of 3, or -1 for none, got 3");
  own.frame.points.intensity_index = -1;
  EXPECT_NO_THROW(detector.detect(own.frame));
  own.frame.cameras[0].image.pitch = 240;
  EXPECT_EQ(error_of([&] { detector.detect(own.frame); }),
            "[detect] camera \"camera\" must have a pitch of 0 or at least 3 * width, 720, got 240");
  detector->train();
  EXPECT_NE(error_of([&] { detector.detect(own.frame); }).find("evaluation mode"), std::string::npos);
}

TEST(Weights, ListWhatDoesNotMatch) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "part.safetensors";
  save(*small_detector(true), path);
  const weights::StateFile source(path);
  auto plain = small_detector();
  const auto report = weights::load(source, *plain);
  EXPECT_TRUE(report.missing.empty());
  EXPECT_TRUE(report.mismatched.empty());
  ASSERT_FALSE(report.unknown.empty());
  for (const auto& name : report.unknown)
    EXPECT_TRUE(name.find("router") != std::string::npos || name.find("attention_bias") != std::string::npos) << name;
  auto options = examples::tiny_options();
  options.head.head_width = 48;
  Detector other(options, 1);
  EXPECT_FALSE(weights::load(source, *other).mismatched.empty());
  std::filesystem::remove(path);
}

// One flipped bit of a weight once gave a detector that found nothing, and no word of it.
TEST(Weights, OneFlippedBitIsRefused) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "flipped.safetensors";
  save(*small_detector(), path);
  std::string bytes = storage::read_file(path);
  bytes[bytes.size() - 6] ^= 0x40;
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  EXPECT_NE(error_of([&] { Detector::load(path); }).find("its bytes are damaged"), std::string::npos);
  std::filesystem::remove(path);
}

// A checkpoint holds the weights of the last step and their running average: what eval takes, load takes.
TEST(Weights, TheRunningAverageIsLoaded) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "average.safetensors";
  const auto detector = small_detector();
  auto tensors = weights::tensors_of(*detector);
  for (const auto& [name, tensor] : weights::tensors_of(*detector, weights::kAveragePrefix))
    tensors.push_back({name, tensor.is_floating_point() ? tensor + 1 : tensor});
  weights::write_state(path, tensors, {{kOptionsKey, config::to_toml(detector->options())}});
  const auto loaded = Detector::load(path);
  EXPECT_TRUE(torch::equal(loaded->parameters()[0], detector->parameters()[0] + 1));
  std::filesystem::remove(path);
}

// Trained up to the second stage of its schedule of clips, saved and loaded: the same boxes.
TEST(Weights, AScheduledClipIsLoaded) {
  const OwnArrays own;
  auto options = examples::tiny_options();
  options.router.mode = nn::RouterMode::kConstant;
  options.bias.clip_schedule = {{.from_epoch = 0, .clip = 5}, {.from_epoch = 2, .clip = 0.5}};
  Detector detector(options, 1);
  detector->eval();
  const auto unscheduled = detector.detect(own.frame);
  for (const auto& module : detector->modules())
    if (auto* bias = module->as<nn::AttentionBias>()) bias->apply_schedule(2, 0);
  const auto path = std::filesystem::path(::testing::TempDir()) / "clip.safetensors";
  save(*detector, path);
  const auto expected = detector.detect(own.frame);
  ASSERT_FALSE(equal(unscheduled, expected)) << "the clip must matter";
  EXPECT_TRUE(equal(Detector::load(path).detect(own.frame), expected));
  std::filesystem::remove(path);
}

TEST(Weights, RefuseAFileThatIsNoDetector) {
  const auto file = std::filesystem::path(::testing::TempDir()) / "other.safetensors";
  const auto tensor = torch::ones({2});
  storage::write_safetensors(file, {weights::view_of({"x", tensor})});
  EXPECT_NE(error_of([&] { Detector::load(file); }).find("not written as a detector"), std::string::npos);
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace camber::detection
