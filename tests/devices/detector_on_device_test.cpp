#include <filesystem>

#include <gtest/gtest.h>

#include "camber/detection/detector.h"
#include "camber/detection/weights.h"
#include "camber/ops/deferred_check.h"
#include "detection/example_batch.h"
#include "support/comparison.h"
#include "support/test_device.h"

// Detectors whose weights lie on another device: the outputs, losses and gradients of the CPU.
namespace camber::detection {
namespace {

using camber::proof::close;
using camber::proof::close_to_largest;
using camber::proof::reset_traffic;
using camber::proof::test_device;
using camber::proof::traffic;
using examples::example_batch;

struct Variant {
  std::string name;
  DetectorOptions options;
};

std::vector<Variant> variants() {
  std::vector<Variant> all{{"plain", examples::tiny_options()}};
  const auto add = [&](const char* name, const auto& change) {
    auto options = examples::tiny_options();
    options.router.mode = nn::RouterMode::kLearned;
    change(options);
    all.push_back({name, options});
  };
  add("router_and_segments", [](DetectorOptions& o) { o.bias.segments = true; });
  add("refined_windows", [](DetectorOptions& o) {
    o.bias.centre = nn::WindowCentre::kRefined;
    o.bias.sizing = nn::WindowSizing::kObject;
  });
  add("supervised", [](DetectorOptions& o) { o.router.mode = nn::RouterMode::kSupervised; });
  add("shuffled", [](DetectorOptions& o) { o.router.mode = nn::RouterMode::kShuffled; });
  add("zero_sum", [](DetectorOptions& o) { o.router.mode = nn::RouterMode::kZeroSum; });
  return all;
}

class OnDevice : public ::testing::TestWithParam<Variant> {};
INSTANTIATE_TEST_SUITE_P(Variants, OnDevice, ::testing::ValuesIn(variants()),
                         [](const auto& param_info) { return param_info.param.name; });

DetectorBatch batch_of(const DetectorOptions& options) {
  auto batch = example_batch(options, 2, 3);
  batch.available[1][2] = false;  // one camera is dark
  return batch;
}

TEST_P(OnDevice, OutputsLossesAndGradientsAreThoseOfTheCpu) {
  const auto& options = GetParam().options;
  Detector host(options, 1), moved(options, 1);
  moved->to(test_device());
  EXPECT_EQ(moved->device(), test_device());
  const auto batch = batch_of(options);
  const auto expected = host->forward(batch), actual = moved->forward(batch);
  EXPECT_EQ(actual.class_logits.device(), test_device());
  EXPECT_TRUE(close(actual.class_logits.cpu(), expected.class_logits, 1e-4));
  EXPECT_TRUE(close(actual.codes.cpu(), expected.codes, 1e-4));
  const auto wanted = host->losses(expected, batch), losses = moved->losses(actual, batch);
  ASSERT_EQ(losses.terms.size(), wanted.terms.size());
  for (std::size_t i = 0; i < wanted.terms.size(); ++i)
    EXPECT_TRUE(close(losses.terms[i].second.cpu(), wanted.terms[i].second, 1e-4)) << wanted.terms[i].first;
  wanted.total.backward();
  losses.total.backward();
  const auto gradients = moved->named_parameters();
  std::int64_t compared = 0;
  for (const auto& parameter : host->named_parameters()) {
    if (!parameter.value().grad().defined()) continue;
    const auto found = gradients[parameter.key()].grad();
    ASSERT_TRUE(found.defined()) << parameter.key();
    EXPECT_TRUE(close(found.cpu(), parameter.value().grad(), 1e-3)) << parameter.key();
    ++compared;
  }
  EXPECT_GT(compared, 50);
}

TEST_P(OnDevice, DecodesTheSameBoxesFromTheSameFile) {
  const auto file = std::filesystem::temp_directory_path() / ("camber_device_" + GetParam().name + ".safetensors");
  Detector trained(GetParam().options, 4);
  trained->to(test_device());
  save(*trained, file);
  auto host = Detector::load(file), moved = Detector::load(file, test_device());
  std::filesystem::remove(file);
  const torch::NoGradGuard guard;
  const auto batch = batch_of(GetParam().options);
  const ForwardOptions options{.denoising = false, .attention_mass = true};
  const auto expected = host->decode(host->forward(batch, options), batch);
  const auto actual = moved->decode(moved->forward(batch, options), batch);
  for (std::size_t b = 0; b < expected.size(); ++b) {
    ASSERT_EQ(actual[b].size(), expected[b].size());
    double difference = 0;
    for (std::size_t i = 0; i < expected[b].size(); ++i)
      difference = std::max(difference, std::abs(actual[b][i].score - expected[b][i].score));
    EXPECT_LT(difference, 1e-5);
  }
}

// However much room a check has for windows, its pass has the bits of one that waits, as long as the room is enough.
TEST(DetectorOnDevice, RoomForWindowsChangesNoBit) {
  auto options = examples::tiny_options();
  options.router.mode = nn::RouterMode::kLearned;
  options.bias.segments = true;
  Detector detector(options, 1);
  detector->to(test_device());
  auto batch = example_batch(options, 2, 5);
  for (auto& cameras : batch.scene.cameras)
    for (std::size_t i : {1U, 2U}) cameras[i].lidar_to_image = cameras[0].lidar_to_image;  // three see the same
  const auto pass = [&] {
    detector->zero_grad();
    const auto output = detector->forward(batch, {.denoising = false, .statistics = true});
    output.class_logits.square().sum().backward();
    std::vector<torch::Tensor> seen{output.class_logits.cpu(), output.statistics.back().change.cpu()};
    for (const auto& parameter : detector->parameters())
      if (parameter.grad().defined()) seen.push_back(parameter.grad().cpu());
    return seen;
  };
  const auto expected = pass();
  for (const std::int64_t room : {2, 3, 4, 9}) {
    at::Tensor failures, most;
    std::vector<torch::Tensor> actual;
    {
      const ops::DeferredCheck check(room);
      actual = pass();
      failures = check.failures().cpu();
      most = check.most_cameras();
    }
    EXPECT_EQ(failures.item<std::int64_t>() > 0, room == 2) << room;
    // With room for all cameras nobody has to know.
    EXPECT_EQ(most.defined() ? most.cpu().item<std::int64_t>() : -1, room < 5 ? 3 : -1);
    if (room == 2) continue;
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(camber::proof::same_bits(actual[i], expected[i])) << room << ", " << i;
  }
}

TEST(DetectorOnDevice, MatchingTakesTwoCopiesForAllLayers) {
  auto options = examples::tiny_options();
  options.router.mode = nn::RouterMode::kSupervised;
  Detector detector(options, 1);
  detector->to(test_device());
  const auto batch = batch_of(options);
  const auto output = detector->forward(batch);
  reset_traffic();
  detector->losses(output, batch);
  EXPECT_EQ(traffic().waits(), 2);
}

}  // namespace
}  // namespace camber::detection
