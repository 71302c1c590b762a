// Shares of a batch on several ranks: losses, gradients and running statistics add up to those of the whole.
#include <map>
#include <mutex>

#include <gtest/gtest.h>

#include "camber/detection/detector.h"
#include "detection/example_batch.h"
#include "support/comparison.h"
#include "support/thread_ranks.h"

namespace camber::detection {
namespace {

using camber::proof::ThreadRanks;
using Values = std::map<std::string, torch::Tensor>;

constexpr std::int64_t kFrames = 4;

DetectorBatch frames_of(const DetectorBatch& whole, std::int64_t begin, std::int64_t end) {
  const std::int64_t count = end - begin;
  const auto rows = [&](const torch::Tensor& of) { return of.defined() ? of.narrow(0, begin, count).clone() : of; };
  DetectorBatch share = whole;
  share.size = count;
  const auto first = whole.point_offsets[begin].item<std::int64_t>(),
             last = whole.point_offsets[end].item<std::int64_t>();
  share.points = whole.points.narrow(0, first, last - first).clone();
  share.point_offsets = whole.point_offsets.narrow(0, begin, count + 1) - first;
  for (torch::Tensor& run : share.images) run = rows(run);
  share.available = rows(whole.available);
  share.age = rows(whole.age);
  share.level = rows(whole.level);
  share.quality = rows(whole.quality);
  const auto part = [&](auto& of) { of = {of.begin() + begin, of.begin() + end}; };
  part(share.scene.cameras);
  part(share.targets);
  part(share.origins);
  return share;
}

// Losses by name, gradients and buffers of one step, in double precision.
struct Step {
  std::map<std::string, double> losses{};
  Values gradients{}, buffers{};
};

Step step_of(const DetectorOptions& options, const DetectorBatch& batch, std::int64_t first_frame,
             const ThreadRanks::Group& group, bool statistics = true) {
  Detector detector(options, 1);
  {
    const torch::NoGradGuard guard;  // a router begins at zero, where most of its gradients are none
    for (auto& parameter : detector->named_parameters())
      if (parameter.value().abs().max().item<double>() == 0) parameter.value().fill_(0.02);
  }
  detector->to(torch::kDouble);
  detector->train();
  if (group) detector->share_batches(group, statistics);
  const auto output = detector->forward(batch, {.seed = 5, .step = 7, .first_frame = first_frame});
  const auto losses = detector->losses(output, batch);
  losses.total.backward();
  Step step;
  for (const auto& [name, term] : losses.terms) step.losses[name] = term.item<double>();
  for (const auto& entry : detector->named_parameters())
    if (entry.value().grad().defined()) step.gradients[entry.key()] = entry.value().grad();
  for (const auto& entry : detector->named_buffers()) step.buffers[entry.key()] = entry.value().clone();
  return step;
}

Step added_up(const DetectorOptions& options, const DetectorBatch& whole, std::int64_t ranks) {
  Step all;
  std::mutex mutex;
  ThreadRanks::run(ranks, [&](const ThreadRanks::Group& group) {
    const std::int64_t begin = group->rank() * whole.size / ranks, end = (group->rank() + 1) * whole.size / ranks;
    const Step own = step_of(options, frames_of(whole, begin, end), begin, group);
    const std::lock_guard lock(mutex);
    for (const auto& [name, value] : own.losses) all.losses[name] += value;
    for (const auto& [name, value] : own.gradients)
      all.gradients[name] = all.gradients.contains(name) ? all.gradients[name] + value : value;
    for (const auto& [name, value] : own.buffers) {
      const auto known = all.buffers.emplace(name, value).first;
      EXPECT_TRUE(torch::equal(known->second, value)) << name;
    }
  });
  return all;
}

void expect_same(const Values& found, const Values& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, value] : expected) {
    ASSERT_TRUE(found.contains(name)) << name;
    const auto scale = value.abs().max().to(torch::kDouble).item<double>();
    const auto difference = (found.at(name) - value).abs().max().to(torch::kDouble).item<double>();
    EXPECT_LE(difference, tolerance * scale + 1e-12) << name << " of size " << scale;
  }
}

void expect_like_the_whole(const DetectorOptions& options, const DetectorBatch& batch,
                           const std::vector<std::int64_t>& numbers_of_ranks) {
  const Step whole = step_of(options, batch, 0, nullptr);
  for (const std::int64_t ranks : numbers_of_ranks) {
    const Step shares = added_up(options, batch, ranks);
    ASSERT_EQ(shares.losses.size(), whole.losses.size());
    for (const auto& [name, value] : whole.losses)
      EXPECT_NEAR(shares.losses.at(name), value, 1e-9 * std::max(1.0, std::abs(value))) << name << ", " << ranks;
    expect_same(shares.gradients, whole.gradients, 1e-7);
    expect_same(shares.buffers, whole.buffers, 1e-9);
  }
}

DetectorOptions shared_options() {
  auto options = examples::tiny_options();
  options.router.mode = nn::RouterMode::kSupervised;
  options.bias.segments = true;
  options.bias.scale.l2_weight = 0.1;
  return options;
}

TEST(SharedBatch, AddsUpToTheWhole) {
  const auto options = shared_options();
  expect_like_the_whole(options, examples::example_batch(options, kFrames, 2), {2, 3, 4});
}

TEST(SharedBatch, HoldsWhereARankSeesNoSensorOfAKind) {
  const auto options = shared_options();
  auto batch = examples::example_batch(options, kFrames, 2);
  batch.available.select(1, 0).narrow(0, 0, 3).fill_(false);  // one LiDAR in four frames
  batch.available.narrow(0, 2, 2).slice(1, 1).fill_(false);   // no camera in the second half
  expect_like_the_whole(options, batch, {2, 4});
  batch.available.select(1, 0).fill_(false);  // no LiDAR at all: its encoder is left out by everybody
  expect_like_the_whole(options, batch, {2});
}

TEST(SharedBatch, KeepsStatisticsApartWhereAsked) {
  const auto options = shared_options();
  const auto whole = examples::example_batch(options, kFrames, 2);
  std::vector<Values> buffers(2);
  ThreadRanks::run(2, [&](const ThreadRanks::Group& group) {
    const std::int64_t begin = 2 * group->rank();
    buffers[static_cast<std::size_t>(group->rank())] =
        step_of(options, frames_of(whole, begin, begin + 2), begin, group, false).buffers;
  });
  const std::string name = "camera_encoder.blocks.0.norm.running_mean";
  EXPECT_FALSE(torch::equal(buffers[0].at(name), buffers[1].at(name)));
}

}  // namespace
}  // namespace camber::detection
