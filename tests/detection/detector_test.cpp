#include "camber/detection/detector.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include <gtest/gtest.h>

#include "camber/detection/cmt_head.h"
#include "detection/encoders.h"
#include "detection/example_batch.h"
#include "support/comparison.h"

namespace camber::detection {
namespace {

using camber::proof::close;
using camber::proof::error_of;
using camber::proof::largest_difference;
using camber::proof::number_text;
using camber::proof::same_bits;
using examples::example_batch;

Detector in_evaluation(const DetectorOptions& options, std::uint64_t seed = 1) {
  Detector detector(options, seed);
  detector->eval();
  return detector;
}

// A tiny detector with such a router, its parameters of that name filled with a value: they start at zero.
Detector with_router(nn::RouterMode mode, const std::string& name, double value) {
  auto options = examples::tiny_options();
  options.router.mode = mode;
  auto detector = in_evaluation(options);
  const torch::NoGradGuard guard;
  for (auto& parameter : detector->named_parameters())
    if (parameter.key().find(name) != std::string::npos) parameter.value().fill_(value);
  return detector;
}

TEST(DetectorOptions, PresetsHoldTogether) {
  EXPECT_NO_THROW(DetectorOptions::small().validate());
  EXPECT_NO_THROW(DetectorOptions::reference().validate());
  EXPECT_EQ(DetectorOptions::small().space.grid().keys(), 1024);
  EXPECT_EQ(DetectorOptions::reference().space.grid().keys(), 16384);
  EXPECT_NE(error_of([] { DetectorOptions::preset("large"); }).find("got \"large\""), std::string::npos);
  auto options = DetectorOptions::small();
  options.classes = {"car", "tram"};
  EXPECT_NE(error_of([&] { options.validate(); }).find("\"tram\""), std::string::npos);
}

TEST(DetectorOptions, RulesMatchParametersOfTheModel) {
  auto options = examples::tiny_options();
  options.router.mode = nn::RouterMode::kLearned;
  const Detector detector(options, 1);
  const auto rules = parameter_rules(options);
  EXPECT_EQ(rules.size(), 4U);
  for (const auto& rule : rules) {
    const auto names = detector->named_parameters().keys();
    EXPECT_TRUE(std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return name.find(rule.pattern) != std::string::npos;
    })) << rule.pattern;
  }
  EXPECT_TRUE(parameter_rules(DetectorOptions::small()).empty());
}

TEST(Detector, StartsAreFunctionsOfSeedAndName) {
  auto options = examples::tiny_options();
  const auto plain = in_evaluation(options), again = in_evaluation(options), other = in_evaluation(options, 2);
  options.router.mode = nn::RouterMode::kLearned;
  options.bias.segments = true;
  const auto routed = in_evaluation(options);
  const auto with = routed->named_parameters();
  bool differs = false;
  for (const auto& parameter : plain->named_parameters()) {
    EXPECT_TRUE(same_bits(again->named_parameters()[parameter.key()], parameter.value())) << parameter.key();
    EXPECT_TRUE(same_bits(with[parameter.key()], parameter.value())) << parameter.key();
    differs |= !torch::equal(other->named_parameters()[parameter.key()], parameter.value());
  }
  EXPECT_TRUE(differs);
  EXPECT_GT(with.size(), plain->named_parameters().size());
}

TEST(Detector, UntrainedRouterLeavesTheOutputAlone) {
  auto options = examples::tiny_options();
  const torch::NoGradGuard guard;
  const auto batch = example_batch(options, 2, 3);
  auto plain = in_evaluation(options);
  const auto expected = plain->forward(batch);
  options.router.mode = nn::RouterMode::kLearned;
  for (const bool segments : {false, true}) {
    options.bias.segments = segments;
    auto routed = in_evaluation(options);
    const auto output = routed->forward(batch);
    EXPECT_TRUE(same_bits(output.class_logits, expected.class_logits)) << "segments " << segments;
    EXPECT_TRUE(same_bits(output.codes, expected.codes)) << "segments " << segments;
    EXPECT_EQ(output.trust.abs().max().item<double>(), 0);
  }
}

// Locality needs no trust: at trust 0 the windows are what a constant trust of 1 with that scale makes of them.
TEST(Detector, LocalityIsThatOfAConstantTrust) {
  auto options = examples::tiny_options();
  const torch::NoGradGuard guard;
  const auto batch = example_batch(options, 2, 3);
  options.router.mode = nn::RouterMode::kConstant;
  const auto expected = in_evaluation(options)->forward(batch);
  options.router.mode = nn::RouterMode::kLearned;
  options.bias.locality = true;
  for (const bool window_trust : {true, false}) {
    options.bias.window_trust = window_trust;
    options.bias.segments = !window_trust;
    const auto output = in_evaluation(options)->forward(batch);
    EXPECT_TRUE(same_bits(output.codes, expected.codes)) << "window_trust " << window_trust;
    EXPECT_EQ(output.trust.abs().max().item<double>(), 0);
  }
  options.bias.segments = false;
  EXPECT_EQ(error_of([&] { options.validate(); }),
            "[Detector] bias.window_trust and bias.segments must not both be false with router.mode on: trust would "
            "move nothing");
}

TEST(Detector, AttendsToItsOwnPositionFromTheStart) {
  const auto options = DetectorOptions::small();
  auto detector = in_evaluation(options);
  const torch::NoGradGuard guard;
  const auto batch = example_batch(options, 1, 6);
  const auto [grid, cameras] = examples::first_layer_locality(*detector, batch);
  RecordProperty("grid", number_text(grid));
  RecordProperty("cameras", number_text(cameras));
  EXPECT_GE(grid, 0.12);
  EXPECT_GE(cameras, 0.10);
}

TEST(Detector, TruthDoesNotReachInference) {
  const auto options = examples::tiny_options();
  auto detector = in_evaluation(options);
  const torch::NoGradGuard guard;
  auto batch = example_batch(options, 2, 2);
  const auto before = detector->forward(batch);
  for (auto& targets : batch.targets) targets.boxes = targets.boxes + 3;
  batch.quality.fill_(0.25);
  const auto after = detector->forward(batch);
  EXPECT_TRUE(same_bits(after.class_logits, before.class_logits));
  EXPECT_TRUE(same_bits(after.codes, before.codes));
  batch.targets.clear();
  EXPECT_TRUE(same_bits(detector->forward(batch).codes, before.codes));
}

TEST(Detector, OrderOfCamerasDoesNotMatter) {
  const auto options = examples::tiny_options();
  auto detector = in_evaluation(options);
  const torch::NoGradGuard guard;
  auto batch = example_batch(options, 1, 5);
  const auto before = detector->forward(batch);
  const auto order = torch::tensor({3, 0, 4, 1, 2});
  batch.images[0] = batch.images[0].index_select(1, order);
  std::vector<geometry::Camera> rig;
  rig.reserve(5);
  for (std::int64_t i = 0; i < 5; ++i)
    rig.push_back(batch.scene.cameras[0][static_cast<std::size_t>(order[i].item<std::int64_t>())]);
  batch.scene.cameras[0] = rig;
  const auto after = detector->forward(batch);
  EXPECT_TRUE(close(after.codes, before.codes, 1e-4));
  EXPECT_TRUE(close(after.class_logits, before.class_logits, 1e-4));
  RecordProperty("difference", number_text(std::max(largest_difference(after.codes, before.codes),
                                                    largest_difference(after.class_logits, before.class_logits))));
}

void expect_finite(Detector& detector, const DetectorBatch& batch) {
  const torch::NoGradGuard guard;
  const auto output = detector->forward(batch, {.statistics = true});
  EXPECT_TRUE(output.class_logits.isfinite().all().item<bool>());
  EXPECT_TRUE(output.codes.isfinite().all().item<bool>());
  for (const auto& found : detector->decode(output, batch))
    for (const auto& one : found) EXPECT_LE(one.score, 1);
}

TEST(Detector, AbsentSensorsAreOrdinary) {
  for (const auto mode : {nn::RouterMode::kOff, nn::RouterMode::kLearned}) {
    auto options = examples::tiny_options();
    options.router.mode = mode;
    options.bias.segments = mode != nn::RouterMode::kOff;
    auto detector = in_evaluation(options);
    auto batch = example_batch(options, 2, 6);
    batch.points = batch.points.narrow(0, 0, 0);  // empty clouds
    batch.point_offsets.zero_();
    expect_finite(detector, batch);
    batch.available.select(1, 0).fill_(false);  // LiDAR off
    expect_finite(detector, batch);
    batch.available.fill_(true);
    batch.available.narrow(1, 1, 6).fill_(false);  // cameras off
    expect_finite(detector, batch);
    batch.available.fill_(false);  // both off
    expect_finite(detector, batch);
    for (const auto& found : detector->decode(detector->forward(batch), batch)) EXPECT_TRUE(found.empty());
    for (const std::int64_t cameras : {0, 1, 4}) {
      auto few = example_batch(options, 1, cameras);
      expect_finite(detector, few);
      few.available.select(1, 0).fill_(false);
      expect_finite(detector, few);
    }
  }
}

// A camera that delivered nothing at a frame has no calibration there: its matrix is all zero.
TEST(Detector, ACameraWithoutCalibrationIsOff) {
  for (const auto embedding : {PositionEmbedding::kCmt, PositionEmbedding::kSplit})
    for (const auto mode : {nn::RouterMode::kOff, nn::RouterMode::kLearned}) {
      auto options = examples::tiny_options();
      options.head.position_embedding = embedding;
      options.router.mode = mode;
      options.bias.segments = mode != nn::RouterMode::kOff;
      auto detector = in_evaluation(options);
      auto batch = example_batch(options, 2, 3);
      const auto whole = detector->forward(batch).codes;
      batch.available[1][2] = false;
      batch.scene.cameras[1][1].lidar_to_image = {};
      expect_finite(detector, batch);
      EXPECT_TRUE(same_bits(detector->forward(batch).codes.select(1, 0), whole.select(1, 0))) << "the other frame";
      // One that never delivers: no frame has its matrix, and what stands in its place does not matter.
      batch.available.select(1, 2).fill_(false);
      batch.scene.cameras[0][1].lidar_to_image = {};
      const auto without = detector->forward(batch).codes;
      batch.images[0].select(1, 1).fill_(0.7);
      EXPECT_TRUE(same_bits(detector->forward(batch).codes, without));
      detector->train();
      const auto losses = detector->losses(detector->forward(batch), batch);
      losses.total.backward();
      for (const auto& parameter : detector->named_parameters())
        EXPECT_TRUE(!parameter.value().grad().defined() || parameter.value().grad().isfinite().all().item<bool>())
            << parameter.key();
    }
}

TEST(Detector, TakesCamerasOfUnequalSizes) {
  const auto options = examples::tiny_options();
  auto detector = in_evaluation(options);
  auto batch = example_batch(options, 1, 0);
  batch.scene.cameras = {{}};
  for (std::int64_t v = 0; v < 8; ++v) {
    const std::int64_t width = v % 3 == 0 ? 160 : 80, height = v % 2 == 0 ? 48 : 32;
    batch.scene.cameras[0].push_back(examples::camera_at(0.1, 0, 0.8 * static_cast<double>(v), width, height, 8));
    batch.images.push_back(torch::rand({1, 1, 3, height, width}));
  }
  batch.available = torch::ones({1, 9}, torch::kBool);
  batch.age = torch::full({1, 9}, 0.5);
  batch.level = torch::zeros({1, 9});
  batch.quality = torch::ones({1, 9});
  expect_finite(detector, batch);
}

TEST(Detector, AnAbsentSensorsContentDoesNotMatter) {
  const auto options = examples::tiny_options();
  auto detector = in_evaluation(options);
  const torch::NoGradGuard guard;
  auto batch = example_batch(options, 2, 3);
  batch.available[0][2] = false;
  batch.available[1][0] = false;
  const auto before = detector->forward(batch);
  batch.images[0].select(0, 0).select(0, 1).fill_(0.9);
  batch.points.narrow(0, 400, 400).select(1, 2).fill_(0.3);
  EXPECT_TRUE(same_bits(detector->forward(batch).codes, before.codes));
}

TEST(Detector, DecodesTheBestFirstWithTrustAndAttention) {
  auto options = examples::tiny_options();
  options.router.mode = nn::RouterMode::kConstant;
  options.head.max_detections = 50;
  auto detector = in_evaluation(options);
  const torch::NoGradGuard guard;
  const auto batch = example_batch(options, 2, 3);
  const auto output = detector->forward(batch, {.attention_mass = true});
  const auto with_all = detector->forward(batch, {.statistics = true});
  EXPECT_TRUE(output.statistics.empty());
  EXPECT_EQ(with_all.statistics.size(), 2U);
  EXPECT_TRUE(same_bits(output.attention_mass, with_all.attention_mass));
  const auto found = detector->decode(output, batch);
  ASSERT_EQ(found.size(), 2U);
  ASSERT_FALSE(found[0].empty());
  EXPECT_LE(found[0].size(), 50U);
  for (std::size_t i = 1; i < found[0].size(); ++i) EXPECT_LE(found[0][i].score, found[0][i - 1].score);
  EXPECT_EQ(found[0][0].trust, (std::vector<double>{1, 1}));
  double mass = 0;
  for (const double share : found[0][0].attention_mass) mass += share;
  EXPECT_NEAR(mass, 1, 1e-5);
  EXPECT_EQ(found[0][0].attention_mass.size(), 4U);
}

TEST(Detector, TestTimeControlsReplaceTrust) {
  auto detector = with_router(nn::RouterMode::kCues, "router.offset", 0.5);
  const torch::NoGradGuard guard;
  auto batch = example_batch(detector->options(), 1, 2);
  batch.quality[0][0] = 0;
  const auto trust = [&](TrustControl control) { return detector->forward(batch, {.trust = control}).trust; };
  EXPECT_NEAR(trust(TrustControl::kModel)[0][0][0].item<double>(), std::tanh(0.5), 1e-6);
  EXPECT_EQ(trust(TrustControl::kZero).abs().max().item<double>(), 0);
  EXPECT_EQ(trust(TrustControl::kOracle)[0][3][0].item<double>(), -1);
  EXPECT_EQ(trust(TrustControl::kOracle)[0][3][1].item<double>(), 1);
}

TEST(Detector, KeysThatAreRememberedGiveTheSameBits) {
  auto detector = with_router(nn::RouterMode::kLearned, "router.content", 0.1);
  const torch::NoGradGuard guard;
  const auto& options = detector->options();
  const auto batch = example_batch(options, 1, 2);
  CmtHead head = detector->head();
  const HeadMemory memory = head->remember(detector->encode(batch), batch);
  EXPECT_EQ(memory.decoder.size(), static_cast<std::size_t>(options.head.decoder.num_layers));
  ASSERT_TRUE(memory.router.has_value());
  for (const TrustControl control : {TrustControl::kModel, TrustControl::kZero, TrustControl::kShuffled}) {
    const auto whole = detector->forward(batch, {.trust = control});
    const auto again = head->forward(memory, batch, {}, {.trust = control});
    EXPECT_TRUE(same_bits(again.trust, whole.trust));
    EXPECT_TRUE(same_bits(again.class_logits, whole.class_logits));
    EXPECT_TRUE(same_bits(again.codes, whole.codes));
  }
  head->train();
  EXPECT_NE(error_of([&] { head->remember({}, batch); }).find("eval mode"), std::string::npos);
}

// Names and shapes as torchvision's resnet50 saves them, "name size size ...", its classifier (fc) included.
TEST(ReferenceEncoder, HasTheNamesAndShapesOfTorchvisionsResNet50) {
  const char* source = std::getenv("CAMBER_SOURCE");
  if (source == nullptr) GTEST_SKIP() << "CAMBER_SOURCE names no source folder";
  std::map<std::string, std::vector<std::int64_t>> known, ours;
  std::ifstream list(std::string(source) + "/tests/support/torchvision_resnet50.txt");
  for (std::string line; std::getline(list, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    auto& shape = known[name];
    for (std::int64_t size = 0; words >> size;) shape.push_back(size);
  }
  ASSERT_EQ(known.size(), 320U);
  const auto encoder = make_reference_camera_encoder(DetectorOptions::reference());
  const std::string prefix = "backbone.";
  const auto add = [&](const auto& tensors) {
    for (const auto& item : tensors)
      if (item.key().starts_with(prefix)) ours[item.key().substr(prefix.size())] = item.value().sizes().vec();
  };
  add(encoder->named_parameters());
  add(encoder->named_buffers());
  EXPECT_EQ(known.erase("fc.weight") + known.erase("fc.bias"), 2U);
  EXPECT_EQ(ours, known);
}

TEST(Detector, TakesFeaturesOfOtherEncoders) {
  auto options = examples::tiny_options();
  options.encoder.kind = EncoderKind::kFeatures;
  options.encoder.bev_channels = 24;
  options.encoder.camera_channels = 40;
  options.head.shared_convolution = true;
  Detector detector(options, 1);
  detector->train();
  auto batch = example_batch(options, 2, 3);
  batch.points = torch::Tensor();
  batch.images.clear();
  batch.bev_features = torch::randn({2, 24, 32, 32});
  batch.camera_features = {torch::randn({2, 3, 40, 6, 15})};
  const auto losses = detector->losses(detector->forward(batch), batch);
  losses.total.backward();
  EXPECT_TRUE(losses.total.isfinite().item<bool>());
  batch.camera_features = {torch::randn({2, 3, 39, 6, 15})};
  EXPECT_NE(error_of([&] { detector->forward(batch); }).find("camera_features"), std::string::npos);
}

}  // namespace
}  // namespace camber::detection
