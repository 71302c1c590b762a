// Frames drawn so that all classes are met equally often.
#include <algorithm>
#include <map>
#include <set>

#include <camber/eval/detection_box.h>
#include <camber/runs/class_balance.h>
#include <gtest/gtest.h>

#include "nuscenes/small_world.h"
#include "sensors/simulated_world.h"

namespace camber::runs {
namespace {

using tests::simulated_world;

const std::vector<std::string> kClasses{"car", "truck", "pedestrian", "bus", "traffic_cone"};

// The frames that show a class, counted once more from the tables.
std::set<nuscenes::Index> frames_with(const std::string& name, const std::vector<nuscenes::Index>& samples) {
  const nuscenes::Dataset& dataset = simulated_world().dataset;
  std::set<nuscenes::Index> frames;
  for (const auto sample : samples)
    for (const auto& annotation : dataset.tables().sample_annotation) {
      const auto known = eval::class_of_category(dataset.category_of(annotation));
      if (annotation.sample == sample && annotation.lidar_points + annotation.radar_points > 0 && known &&
          eval::name_of(*known) == name)
        frames.insert(sample);
    }
  return frames;
}

TEST(ClassBalance, EveryClassDrawsTheSameNumberOfItsFrames) {
  const auto& samples = simulated_world().train.samples;
  const ClassBalance balance = balance_classes(simulated_world().dataset, samples, kClasses, 7);
  std::map<std::string, std::set<nuscenes::Index>> frames;
  std::size_t occurrences = 0, occurring = 0;
  for (const auto& name : kClasses) {
    frames[name] = frames_with(name, samples);
    occurrences += frames[name].size();
    occurring += frames[name].empty() ? 0 : 1;
  }
  EXPECT_TRUE(frames["bus"].empty());
  const std::size_t each = occurrences / occurring;
  EXPECT_EQ(balance.samples.size(), each * occurring);
  std::size_t at = 0;
  for (std::size_t i = 0; i < kClasses.size(); ++i) {
    const auto& own = balance.classes[i];
    EXPECT_EQ(own.name, kClasses[i]);
    EXPECT_EQ(own.frames, frames[own.name].size());
    EXPECT_EQ(own.drawn, own.frames == 0 ? 0 : each);
    std::set<nuscenes::Index> drawn;
    for (std::int64_t k = 0; k < own.drawn; ++k, ++at) {
      EXPECT_TRUE(frames[own.name].contains(balance.samples[at])) << own.name;
      drawn.insert(balance.samples[at]);
    }
    EXPECT_GE(drawn.size(), static_cast<std::size_t>(std::min<std::int64_t>(own.frames, 2))) << own.name;
  }
  EXPECT_NE(balance.text().find("; in no frame: bus"), std::string::npos) << balance.text();
}

TEST(ClassBalance, IsAFunctionOfSeedAndFrames) {
  const auto& samples = simulated_world().train.samples;
  const auto draw = [&](std::uint64_t seed, const std::vector<std::string>& classes) {
    return balance_classes(simulated_world().dataset, samples, classes, seed).samples;
  };
  EXPECT_EQ(draw(7, kClasses), draw(7, kClasses));
  EXPECT_NE(draw(7, kClasses), draw(8, kClasses));
  // A class draws from a stream of its own: the first draws of cars are the same whoever stands beside them.
  const auto with = draw(7, {"car", "truck"}), without = draw(7, {"car"});
  const auto common = static_cast<std::ptrdiff_t>(std::min(with.size() / 2, without.size()));
  EXPECT_TRUE(std::equal(with.begin(), with.begin() + common, without.begin()));
}

TEST(ClassBalance, RefusesFramesWithoutAnyOfTheClasses) {
  EXPECT_EQ(tests::message_of([] {
              balance_classes(simulated_world().dataset, simulated_world().train.samples, {"bus", "trailer"}, 1);
            }),
            "[train] data.class_balance must find an object of the detector's classes, got none in " +
                std::to_string(simulated_world().train.samples.size()) + " frames");
}

}  // namespace
}  // namespace camber::runs
