#include "camber/sensors/fault_copy.h"

#include <algorithm>
#include <iterator>

#include <gtest/gtest.h>

#include "camber/sensors/sensor_frame.h"
#include "camber/storage/file.h"
#include "nuscenes/small_world.h"
#include "sensors/simulated_world.h"

namespace camber::sensors {
namespace {

namespace fs = std::filesystem;
using tests::message_of;
using tests::simulated_world;

FrameOptions key_frames() {
  FrameOptions options = tests::simulated_frames();
  options.sweeps.previous = 0;
  return options;
}

class FaultCopy : public testing::Test {
 protected:
  // A copy with the faults in split test, opened.
  nuscenes::Dataset copy(const std::string& faults, const std::string& name = "copy", int threads = 2) {
    const auto& world = simulated_world();
    summary_ = write_faulted_copy(world.dataset, world.test, parse_faults(faults), 9, threads, folder_.path() / name);
    return {folder_.path() / name, world.dataset.version()};
  }
  static SensorFrame at_loading(const std::string& faults, nuscenes::Index sample) {
    const auto& world = simulated_world();
    return load_sensor_frame(world.dataset, sample, key_frames(), parse_faults(faults), world.test.samples,
                             random::Stream(9, "faults"));
  }

  tests::TemporaryFolder folder_;
  FaultCopySummary summary_;
};

TEST_F(FaultCopy, OfCloudsHoldsWhatLoadingGives) {
  for (const char* fault : {"beams:2", "limited_view:4", "dropped_objects:3", "shift:5", "dropped_points:2", "empty"}) {
    const nuscenes::Dataset written = copy(fault, fault);
    for (const nuscenes::Index sample : {simulated_world().test.samples[2], simulated_world().test.samples[13]}) {
      const KeyFrame frame = load_key_frame(written, sample, key_frames());
      const SensorFrame expected = at_loading(fault, sample);
      EXPECT_EQ(frame.points, expected.frame.points) << fault;
      for (std::size_t i = 0; i < frame.cameras.size(); ++i)
        EXPECT_EQ(frame.cameras[i].image.pixels, expected.frame.cameras[i].image.pixels);
    }
  }
}

TEST_F(FaultCopy, OfRepeatedDeliveriesHoldsFilesAndHonestStamps) {
  for (const char* fault : {"frozen:2", "frozen:3:cameras=2", "frozen:1:earlier:false_timestamps", "stale:3",
                            "stale:1:other_scene:false_timestamps"}) {
    const nuscenes::Dataset written = copy(fault, fault);
    for (const nuscenes::Index sample : simulated_world().test.samples) {
      const KeyFrame frame = load_key_frame(written, sample, key_frames());
      const SensorFrame expected = at_loading(fault, sample);
      EXPECT_EQ(frame.points, expected.frame.points) << fault;
      for (std::size_t i = 0; i < frame.cameras.size(); ++i) {
        EXPECT_EQ(frame.cameras[i].image.pixels, expected.frame.cameras[i].image.pixels);
        EXPECT_EQ(frame.cameras[i].timestamp, expected.sensors[i + 1].timestamp);
      }
      EXPECT_EQ(written.tables().sample_data[written.key_frame(sample, "LIDAR_TOP")].timestamp,
                expected.sensors[0].timestamp);
    }
  }
}

TEST_F(FaultCopy, OfACalibrationHoldsTheBelievedMatrix) {
  const nuscenes::Dataset written = copy("calibration:4");
  for (const nuscenes::Index sample : {simulated_world().test.samples[2], simulated_world().test.samples[13]}) {
    const KeyFrame frame = load_key_frame(written, sample, key_frames());
    const SensorFrame expected = at_loading("calibration:4", sample);
    for (std::size_t i = 0; i < frame.cameras.size(); ++i)
      for (std::size_t k = 0; k < 16; ++k)
        EXPECT_NEAR(frame.cameras[i].camera.lidar_to_image[k], expected.frame.cameras[i].camera.lidar_to_image[k],
                    1e-9);
  }
}

TEST_F(FaultCopy, OfImagesIsDarkAndOffIsBlack) {
  const nuscenes::Dataset dark = copy("dark:5", "dark"), off = copy("cameras_off,lidar_off", "off");
  const auto brightness = [](const Image& image) {
    double sum = 0;
    for (const std::uint8_t value : image.pixels) sum += value;
    return sum / static_cast<double>(image.pixels.size());
  };
  for (const nuscenes::Index sample : {simulated_world().test.samples[2], simulated_world().test.samples[13]}) {
    const KeyFrame clean = load_key_frame(simulated_world().dataset, sample, key_frames());
    EXPECT_NEAR(brightness(load_key_frame(dark, sample, key_frames()).cameras[0].image),
                0.08 * brightness(clean.cameras[0].image), 3);
    const KeyFrame nothing = load_key_frame(off, sample, key_frames());
    EXPECT_EQ(brightness(nothing.cameras[0].image), 0);
    EXPECT_TRUE(nothing.points.empty());
  }
}

TEST_F(FaultCopy, LeavesAnnotationsAndOtherSplitsAsTheyWere) {
  const auto& world = simulated_world();
  const nuscenes::Dataset written = copy("dark:3,beams:1");
  const fs::path from = world.dataset.root() / world.dataset.version(), to = written.root() / written.version();
  for (const char* table : {"sample_annotation.json", "instance.json", "sample.json", "ego_pose.json", "splits.json"})
    EXPECT_EQ(storage::read_file(from / table), storage::read_file(to / table)) << table;
  for (const nuscenes::Index sample : world.train.samples)
    for (const nuscenes::Index row : world.dataset.tables().key_frames_of(sample)) {
      const auto& data = world.dataset.tables().sample_data[row];
      EXPECT_TRUE(fs::equivalent(world.dataset.path_of(data), written.path_of(data)) ||
                  storage::read_file(world.dataset.path_of(data)) == storage::read_file(written.path_of(data)));
    }
  EXPECT_EQ(summary_.samples, static_cast<std::int64_t>(world.test.samples.size()));
  EXPECT_EQ(summary_.changed_files, summary_.samples * (6 + 3));
  EXPECT_NE(storage::read_file(to / "faults.json").find("\"quality\": 0.4"), std::string::npos);
}

TEST_F(FaultCopy, SameSeedSameBytesForAnyNumberOfThreads) {
  const nuscenes::Dataset one = copy("noise:2,ghost:3", "one", 1), three = copy("noise:2,ghost:3", "three", 3);
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(one.root())) {
    if (!entry.is_regular_file()) continue;
    ++files;
    EXPECT_EQ(storage::read_file(entry.path()),
              storage::read_file(three.root() / fs::relative(entry.path(), one.root())));
  }
  EXPECT_GT(files, 500);
}

TEST_F(FaultCopy, RefusesAFolderThatHasIt) {
  copy("dark");
  EXPECT_EQ(message_of([&] { copy("dark"); }), "[faults] out must be a new or an empty folder, got " +
                                                   (folder_.path() / "copy").string() + ", which holds files");
}

}  // namespace
}  // namespace camber::sensors
