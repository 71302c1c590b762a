// Detection in a running sequence: the evaluation's boxes to the bit, and what the session makes of time, absence and
// change.
#include "camber/detection/detector_session.h"

#include <limits>

#include <gtest/gtest.h>

#include "detection/drive.h"
#include "support/comparison.h"

namespace camber::detection {
namespace {

using camber::proof::error_of;
using examples::borrow;
using examples::Drive;
using examples::listening_detector;
using examples::same_boxes;
using examples::scene_of_test_split;
using examples::sensor_frame_of;
using tests::simulated_world;

// What the evaluation finds in a batch of one frame: loader, collate, forward, decode. (Matrix products of larger
// batches round otherwise in the last bits.)
std::vector<Detection> evaluated(Detector& detector, nuscenes::Index sample, const std::vector<std::string>& faults) {
  const torch::NoGradGuard guard;
  const auto& world = simulated_world();
  std::vector<sensors::Fault> fixed;
  fixed.reserve(faults.size());
  for (const std::string& fault : faults) fixed.push_back(sensors::parse_fault(fault));
  sensors::Loader loader(world.dataset, {sample},
                         {.frame = detector->options().frame_options(),
                          .faults = {.share = 0},
                          .fixed_faults = fixed,
                          .augmentation = sensors::AugmentationOptions::none(),
                          .batch_size = 1,
                          .shuffle = false,
                          .epochs = 1,
                          .fault_pool = world.test.samples},
                         0, 1);
  const auto batch = collate(*loader.next(), detector->options());
  return detector->decode(detector->forward(batch), batch)[0];
}

constexpr std::size_t kFreezes = 2;  // the frame that faulty sensors repeat from then on

// A sensor that freezes in the middle of a scene: so many key frames later it is the fault of that severity.
void expect_evaluation(const std::string& fault, bool lidar, bool honest) {
  auto detector = listening_detector();
  DetectorSession session(detector);
  const auto samples = scene_of_test_split(0);
  ASSERT_EQ(samples.size(), 8U);
  const auto frozen = sensor_frame_of(samples[kFreezes]);
  int compared = 0, moved = 0;
  for (std::size_t t = 0; t < samples.size(); ++t) {
    auto sensor_frame = sensor_frame_of(samples[t]);
    const std::size_t held = t < kFreezes ? 0 : t - kFreezes;
    if (held > 0) {
      if (lidar) sensor_frame.frame.points = frozen.frame.points;
      for (std::size_t i = 0; i < sensor_frame.sensors.size(); ++i) {
        if ((i == 0) != lidar) continue;
        if (i > 0) sensor_frame.frame.cameras[i - 1].image = frozen.frame.cameras[i - 1].image;
        if (honest) sensor_frame.sensors[i].timestamp = frozen.sensors[i].timestamp;
      }
    }
    const Frame frame = borrow(sensor_frame);
    const auto found = session.detect(frame);
    ASSERT_FALSE(found.empty());
    const int severity = held == 5 ? 4 : static_cast<int>(held);
    if (held == 4) continue;  // no severity repeats so many
    const auto faults =
        held == 0
            ? std::vector<std::string>{}
            : std::vector{fault + ":" + std::to_string(severity) + ":earlier" + (honest ? "" : ":false_timestamps")};
    EXPECT_TRUE(same_boxes(found, evaluated(detector, samples[t], faults))) << fault << " at frame " << t;
    ++compared;
    moved += !same_boxes(found, detector.detect(frame));
  }
  EXPECT_EQ(compared, 7);
  EXPECT_GE(moved, 6) << "the cues must matter";
}

TEST(DetectorSession, FindsWhatTheEvaluationFindsUnderFrozenCameras) {
  expect_evaluation("frozen", false, true);
  expect_evaluation("frozen", false, false);
}

TEST(DetectorSession, FindsWhatTheEvaluationFindsUnderAStaleLidar) {
  expect_evaluation("stale", true, true);
  expect_evaluation("stale", true, false);
}

TEST(DetectorSession, ANewSceneHasNoPast) {
  auto detector = listening_detector();
  DetectorSession session(detector);
  for (const std::size_t scene : {0, 1}) {
    session.reset();
    EXPECT_TRUE(session.cues().empty());
    for (const nuscenes::Index sample : scene_of_test_split(scene))
      EXPECT_TRUE(same_boxes(session.detect(borrow(sensor_frame_of(sample))), evaluated(detector, sample, {})));
  }
}

TEST(DetectorSession, ACameraThatDeliversNothingKeepsItsPlace) {
  Drive drive;
  DetectorSession session(drive.detector);
  session.detect(drive.frames[0]);
  Frame gap = drive.frames[1];
  gap.cameras[2] = {.name = gap.cameras[2].name, .available = false};
  const auto found = session.detect(gap);
  EXPECT_FALSE(session.cues()[3].available);
  EXPECT_EQ(session.cues()[3].age, 1);
  EXPECT_EQ(session.cues()[3].level, -1);
  EXPECT_TRUE(same_boxes(found, drive.told(gap, session)));
  for (const Detection& each : found) EXPECT_EQ(each.attention_mass[3], 0);
  session.detect(drive.frames[2]);
  EXPECT_TRUE(session.cues()[3].available);
  EXPECT_EQ(session.cues()[3].age, 0.5) << "its change is not known";
  EXPECT_NE(session.cues()[3].level, 0) << "its level is";
  session.detect(drive.frames[3]);
  EXPECT_LT(session.cues()[3].age, 0.5);
}

TEST(DetectorSession, FramesWithoutAnySensorFindNothingAndCount) {
  Drive drive;
  DetectorSession session(drive.detector);
  session.detect(drive.frames[0]);
  Frame none = drive.frames[1];
  none.lidar_available = false;
  for (auto& camera : none.cameras) camera.available = false;
  EXPECT_TRUE(session.detect(none).empty());
  session.detect(drive.frames[2]);
  for (const auto& cues : session.cues()) EXPECT_EQ(cues.age, 0.5);
  none.timestamp.reset();
  EXPECT_EQ(error_of([&] { session.detect(none); }),
            "[DetectorSession] frame.timestamp must be given where no sensor delivers");
}

TEST(DetectorSession, TheFramesTimeIsTheNewestOfItsSensorsWhereNotGiven) {
  Drive drive;
  Frame frame = drive.frames[0];
  frame.timestamp.reset();
  frame.lidar_timestamp = 100;
  for (auto& camera : frame.cameras) camera.timestamp = 50;
  frame.cameras[1].timestamp = 400;
  EXPECT_EQ(time_of(frame), 400);
  frame.cameras[1].available = false;
  EXPECT_EQ(time_of(frame), 100);
  frame.lidar_available = false;
  EXPECT_EQ(time_of(frame), 50);
  frame.timestamp = 7;
  EXPECT_EQ(time_of(frame), 7);
  // A LiDAR that falls behind its cameras is old.
  DetectorSession session(drive.detector);
  session.detect(drive.frames[0]);
  Frame late = drive.frames[1];
  late.timestamp.reset();
  late.lidar_timestamp = drive.frames[0].lidar_timestamp;
  session.detect(late);
  EXPECT_GT(session.cues()[0].age, 0.9);
}

TEST(DetectorSession, AFrameOutOfOrderIsRefusedAndChangesNothing) {
  Drive drive;
  DetectorSession session(drive.detector), other(drive.detector);
  for (auto* each : {&session, &other}) {
    each->detect(drive.frames[0]);
    each->detect(drive.frames[1]);
  }
  const auto before = *drive.frames[1].timestamp;
  for (const std::size_t old : {0, 1})
    EXPECT_EQ(error_of([&] { session.detect(drive.frames[old]); }),
              "[DetectorSession] frame.timestamp must be above that of the frame before, " + std::to_string(before) +
                  " (reset() begins a new scene), got " + std::to_string(*drive.frames[old].timestamp));
  Frame broken = drive.frames[2];
  broken.cameras[0].image.data = nullptr;
  EXPECT_NE(error_of([&] { session.detect(broken); }).find("must have an image"), std::string::npos);
  broken = drive.frames[2];
  broken.cameras[0].intrinsic[0] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NE(error_of([&] { session.detect(broken); }).find("must have a calibration of finite numbers"),
            std::string::npos);
  EXPECT_TRUE(same_boxes(session.detect(drive.frames[2]), other.detect(drive.frames[2])));
  session.reset();
  EXPECT_NO_THROW(session.detect(drive.frames[0]));
}

TEST(DetectorSession, OtherCamerasAreRefused) {
  Drive drive;
  DetectorSession session(drive.detector);
  session.detect(drive.frames[0]);
  Frame fewer = drive.frames[1];
  fewer.cameras.pop_back();
  EXPECT_EQ(
      error_of([&] { session.detect(fewer); }),
      "[DetectorSession] frame.cameras must be the 6 of the frame before (one that delivers nothing has available "
      "= false, reset() begins a new scene), got 5");
  Frame swapped = drive.frames[1];
  std::swap(swapped.cameras[0], swapped.cameras[1]);
  EXPECT_EQ(error_of([&] { session.detect(swapped); }),
            "[DetectorSession] frame.cameras[0] must be \"" + drive.frames[0].cameras[0].name +
                "\" as in the frame before (reset() begins a new scene), got \"" + drive.frames[0].cameras[1].name +
                "\"");
  session.reset();
  EXPECT_NO_THROW(session.detect(fewer));
}

TEST(DetectorSession, RefusesWhatItCannotUse) {
  Drive drive;
  DetectorSession session(drive.detector);
  Frame frame = drive.frames[0];
  frame.cues.resize(7);
  EXPECT_EQ(error_of([&] { session.detect(frame); }),
            "[DetectorSession] frame.cues must be empty, the session computes them, got 7");
  frame = drive.frames[0];
  frame.ego_to_global.translation[1] = std::numeric_limits<double>::infinity();
  EXPECT_EQ(error_of([&] { session.detect(frame); }), "[DetectorSession] frame.ego_to_global must be finite, got inf");
  EXPECT_EQ(error_of([] { DetectorSession none(Detector(nullptr)); }),
            "[DetectorSession] detector must be a detector, got none");
  drive.detector->train();
  EXPECT_NE(error_of([&] { session.detect(drive.frames[0]); }).find("evaluation mode"), std::string::npos);
  EXPECT_NE(error_of([&] { DetectorSession other(drive.detector); }).find("evaluation mode"), std::string::npos);
}

TEST(DetectorSession, SizesAndCalibrationsMayChange) {
  Drive drive;
  DetectorSession session(drive.detector);
  session.detect(drive.frames[0]);
  // The same camera at twice the size, each pixel four times.
  Frame frame = drive.frames[1];
  const auto small = frame.cameras[0].image;
  sensors::Image large{.width = 2 * small.width, .height = 2 * small.height, .pixels = {}};
  for (std::int64_t y = 0; y < large.height; ++y)
    for (std::int64_t x = 0; x < large.width; ++x)
      for (std::int64_t c = 0; c < 3; ++c) large.pixels.push_back(small.row(y / 2)[3 * (x / 2) + c]);
  frame.cameras[0].image = large.view();
  for (std::size_t i = 0; i < 6; ++i) frame.cameras[0].intrinsic[i] *= 2;
  const auto enlarged = session.detect(frame);
  EXPECT_TRUE(same_boxes(enlarged, drive.told(frame, session)));
  EXPECT_LT(session.cues()[1].age, 0.5) << "another size is no fault";
  EXPECT_LT(std::abs(session.cues()[1].level), 0.3);
  frame = drive.frames[2];
  frame.cameras[3].lidar_to_camera.translation[0] += 0.2;
  const auto turned = session.detect(frame);
  EXPECT_TRUE(same_boxes(turned, drive.told(frame, session)));
  EXPECT_FALSE(same_boxes(turned, drive.told(drive.frames[2], session))) << "the calibration must matter";
}

TEST(DetectorSession, PointsThatAreNoNumbersAreLeftOut) {
  Drive drive;
  DetectorSession session(drive.detector), clean(drive.detector);
  auto points = drive.sensor_frames[0].frame.points;
  points.insert(points.begin(), {.x = std::numeric_limits<float>::quiet_NaN(), .y = 1, .z = 0});
  points.push_back({.x = 1, .y = std::numeric_limits<float>::infinity(), .z = 0});
  Frame frame = drive.frames[0];
  frame.points.data = &points[0].x;
  frame.points.count += 2;
  EXPECT_TRUE(same_boxes(session.detect(frame), clean.detect(drive.frames[0])));
}

TEST(DetectorSession, KeepsNothingThatWasBorrowed) {
  Drive drive;
  DetectorSession session(drive.detector), other(drive.detector);
  {
    const Drive gone(1);
    session.detect(gone.frames[0]);
  }
  other.detect(drive.frames[0]);
  EXPECT_TRUE(same_boxes(session.detect(drive.frames[1]), other.detect(drive.frames[1])));
}

}  // namespace
}  // namespace camber::detection
