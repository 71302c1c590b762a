#include "camber/sensors/loader.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "nuscenes/small_world.h"
#include "sensors/simulated_world.h"

namespace camber::sensors {
namespace {

using tests::message_of;
using tests::simulated_world;

LoaderOptions options() {
  LoaderOptions result{.frame = tests::simulated_frames(), .batch_size = 3};
  result.faults.false_timestamp_share = 0.3;
  return result;
}

// Everything a trainer sees, as one string.
std::string bytes_of(const Batch& batch) {
  std::string bytes;
  const auto add = [&bytes](const void* data, std::size_t size) { bytes.append(static_cast<const char*>(data), size); };
  for (const LoadedSample& sample : batch.samples) {
    const KeyFrame& frame = sample.sensor_frame.frame;
    add(&frame.sample, sizeof(frame.sample));
    add(frame.points.data(), frame.points.size() * sizeof(LidarPoint));
    for (const CameraView& view : frame.cameras) {
      add(view.image.pixels.data(), view.image.pixels.size());
      add(view.camera.lidar_to_image.data(), sizeof(geometry::Matrix4));
      add(&view.timestamp, sizeof(view.timestamp));
    }
    for (const FrameObject& object : frame.objects) add(&object.box, sizeof(object.box));
    for (const SensorCues& cue : sample.cues) {
      add(&cue.age, sizeof(cue.age));
      add(&cue.level, sizeof(cue.level));
      add(&cue.change, sizeof(cue.change));
    }
    for (const TrustLabel& label : sample.labels) add(&label, sizeof(label));
    for (const Fault& fault : sample.sensor_frame.faults) bytes += fault.text();
  }
  return bytes;
}

TEST(Loader, ResumedAtAnyStepGivesTheBatchesOfAnUnbrokenRun) {
  const auto& world = simulated_world();
  std::vector<std::string> whole;
  {
    Loader loader(world.dataset, world.train.samples, options(), 5, 2);
    for (int step = 0; step < 30; ++step) {
      EXPECT_EQ(loader.step(), step);
      whole.push_back(bytes_of(*loader.next()));
    }
  }
  for (const int start : {1, 7, 13, 22}) {  // 40 samples in batches of three: an epoch ends in step 13
    Loader loader(world.dataset, world.train.samples, options(), 5, 1, start);
    for (int step = start; step < std::min(30, start + 4); ++step)
      EXPECT_EQ(bytes_of(*loader.next()), whole[static_cast<std::size_t>(step)]) << step;
  }
}

TEST(Loader, ThreadsAndLookAheadChangeNothing) {
  const auto& world = simulated_world();
  LoaderOptions eager = options();
  eager.batches_ahead = 12;
  Loader one(world.dataset, world.train.samples, options(), 5, 1);
  Loader four(world.dataset, world.train.samples, eager, 5, 4);
  for (int step = 0; step < 8; ++step) EXPECT_EQ(bytes_of(*one.next()), bytes_of(*four.next()));
}

TEST(Loader, SharesOfABatchAreItsSamples) {
  const auto& world = simulated_world();
  LoaderOptions whole = options();
  whole.batch_size = 5;
  Loader all(world.dataset, world.train.samples, whole, 5, 2, 3);
  std::vector<std::unique_ptr<Loader>> ranks;
  for (const auto& [begin, size] : {std::pair{0, 2}, std::pair{2, 1}, std::pair{3, 2}}) {
    LoaderOptions share = whole;
    share.share_begin = begin;
    share.share_size = size;
    ranks.push_back(std::make_unique<Loader>(world.dataset, world.train.samples, share, 5, 2, 3));
  }
  for (int step = 3; step < 9; ++step) {
    std::string joined;
    for (const auto& rank : ranks) {
      const Batch batch = *rank->next();
      EXPECT_EQ(batch.step, step);
      joined += bytes_of(batch);
    }
    EXPECT_EQ(joined, bytes_of(*all.next())) << step;
  }
  LoaderOptions wrong = whole;
  wrong.share_begin = 3;
  wrong.share_size = 3;
  EXPECT_EQ(message_of([&] { wrong.validate(); }), "[Loader] share_size must lie in 0 .. 2, got 3");
}

TEST(Loader, EveryEpochHasEverySampleOnceInAnotherOrder) {
  const auto& world = simulated_world();
  LoaderOptions plain = options();
  plain.faults.share = 0;
  plain.augmentation = AugmentationOptions::none();
  plain.cues = false;
  plain.epochs = 2;
  plain.batch_size = 7;
  Loader loader(world.dataset, world.test.samples, plain, 5, 2);
  std::vector<nuscenes::Index> seen;
  while (const auto batch = loader.next())
    for (const LoadedSample& sample : batch->samples) seen.push_back(sample.sensor_frame.frame.sample);
  const std::size_t count = world.test.samples.size();
  ASSERT_EQ(seen.size(), 2 * count);
  const std::vector<nuscenes::Index> first(seen.begin(), seen.begin() + static_cast<std::ptrdiff_t>(count));
  const std::vector<nuscenes::Index> second(seen.begin() + static_cast<std::ptrdiff_t>(count), seen.end());
  EXPECT_EQ(std::set<nuscenes::Index>(first.begin(), first.end()).size(), count);
  EXPECT_EQ(std::set<nuscenes::Index>(second.begin(), second.end()).size(), count);
  EXPECT_NE(first, second);
}

TEST(Loader, FixedFaultsAreThoseOfLoadSensorFrame) {
  const auto& world = simulated_world();
  LoaderOptions fixed = options();
  fixed.fixed_faults = parse_faults("stale:2:false_timestamps,dark:4");
  fixed.augmentation = AugmentationOptions::none();
  fixed.shuffle = false;
  fixed.epochs = 1;
  Loader loader(world.dataset, world.test.samples, fixed, 5, 2);
  std::size_t position = 0;
  const std::vector<Fault> faults = parse_faults("stale:2:false_timestamps,dark:4");
  while (const auto batch = loader.next()) {
    for (const LoadedSample& sample : batch->samples) {
      const SensorFrame expected = load_sensor_frame(world.dataset, world.test.samples[position++], fixed.frame, faults,
                                                     world.test.samples, random::Stream(5, "faults"));
      EXPECT_EQ(sample.sensor_frame.frame.points, expected.frame.points);
      EXPECT_EQ(sample.sensor_frame.frame.cameras[0].image.pixels, expected.frame.cameras[0].image.pixels);
      EXPECT_EQ(sample.sensor_frame.sensors[0].timestamp, expected.sensors[0].timestamp);
    }
  }
  EXPECT_EQ(position, world.test.samples.size());
}

TEST(Loader, OneFrameCanBeFrozenFromItsPool) {
  const auto& world = simulated_world();
  LoaderOptions frozen = options();
  frozen.fixed_faults = parse_faults("frozen:3:other_scene");
  frozen.augmentation = AugmentationOptions::none();
  frozen.shuffle = false;
  frozen.epochs = 1;
  const nuscenes::Index first = world.all.samples.front();
  Loader alone(world.dataset, {first}, frozen, 5, 1);
  EXPECT_NE(message_of([&] { alone.next(); }).find("a frame to repeat must exist"), std::string::npos);
  frozen.fault_pool = nuscenes::samples_of_scenes(world.dataset, world.all);
  Loader pooled(world.dataset, {first}, frozen, 5, 1);
  const auto batch = pooled.next();
  const SensorFrame expected =
      load_sensor_frame(world.dataset, first, frozen.frame, parse_faults("frozen:3:other_scene"), world.all.samples,
                        random::Stream(5, "faults"));
  EXPECT_EQ(batch->samples[0].sensor_frame.frame.cameras[0].image.pixels, expected.frame.cameras[0].image.pixels);
}

TEST(Loader, TurningFaultsOffChangesNoAugmentationAndNoOrder) {
  const auto& world = simulated_world();
  LoaderOptions sound = options();
  sound.faults.share = 0;
  Loader with(world.dataset, world.train.samples, options(), 5, 2),
      without(world.dataset, world.train.samples, sound, 5, 2);
  for (int step = 0; step < 6; ++step) {
    const auto a = with.next(), b = without.next();
    for (std::size_t i = 0; i < a->samples.size(); ++i) {
      EXPECT_EQ(a->samples[i].sensor_frame.frame.sample, b->samples[i].sensor_frame.frame.sample);
      EXPECT_EQ(a->samples[i].augmentation.world, b->samples[i].augmentation.world);
      EXPECT_EQ(a->samples[i].augmentation.images, b->samples[i].augmentation.images);
    }
  }
}

TEST(Loader, SaysWhatIsWrong) {
  const auto& world = simulated_world();
  EXPECT_EQ(message_of([&] { Loader(world.dataset, {}, options(), 1); }), "[Loader] samples must not be empty");
  EXPECT_EQ(message_of([&] { Loader(world.dataset, world.all.samples, options(), 1, 1, -2); }),
            "[Loader] first_step must be at least 0, got -2");
  LoaderOptions none = options(), ahead = options();
  none.batch_size = 0;
  ahead.batches_ahead = 65;
  EXPECT_EQ(message_of([&] { Loader(world.dataset, world.all.samples, none, 1); }),
            "[Loader] batch_size must lie in 1 .. 4096, got 0");
  EXPECT_EQ(message_of([&] { Loader(world.dataset, world.all.samples, ahead, 1); }),
            "[Loader] batches_ahead must lie in 1 .. 64, got 65");
  const tests::TemporaryFolder folder;
  tests::write_small_world(folder.path());
  const nuscenes::Dataset dataset(folder.path(), tests::kSmallVersion);
  const auto& data = dataset.tables().sample_data[dataset.key_frame(0, "LIDAR_TOP")];
  std::filesystem::remove(dataset.path_of(data));
  LoaderOptions plain;
  plain.faults.share = 0;
  plain.shuffle = false;
  Loader loader(dataset, {0}, plain, 1, 2);
  EXPECT_NE(message_of([&] { loader.next(); }).find(dataset.path_of(data).string() + " cannot be read: No such file"),
            std::string::npos);
}

// The sample that fails stands in the middle of its batch, and the one before it was ready already.
TEST(Loader, ThrowsAFailureAgainWhenAskedAgain) {
  const tests::TemporaryFolder folder;
  tests::write_small_world(folder.path());
  const nuscenes::Dataset dataset(folder.path(), tests::kSmallVersion);
  std::filesystem::remove(dataset.path_of(dataset.tables().sample_data[dataset.key_frame(1, "LIDAR_TOP")]));
  LoaderOptions plain{.batch_size = 2, .shuffle = false, .cues = false};
  plain.faults.share = 0;
  Loader loader(dataset, {0, 1, 2}, plain, 1, 2);
  const std::string first = message_of([&] { loader.next(); });
  EXPECT_NE(first.find("cannot be read: No such file"), std::string::npos) << first;
  std::string second;
  std::atomic<bool> answered{false};
  std::thread asking([&] {
    second = message_of([&] { loader.next(); });
    answered = true;
  });
  for (int i = 0; i < 500 && !answered; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  if (!answered) {
    std::fprintf(stderr, "next() after a failure still waits after 5 s\n");
    std::_Exit(1);  // neither the thread nor the loader it holds can be ended in order
  }
  asking.join();
  EXPECT_EQ(second, first);
  EXPECT_EQ(loader.step(), 0);
}

}  // namespace
}  // namespace camber::sensors
