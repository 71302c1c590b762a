#include <cmath>
#include <limits>
#include <set>

#include <gtest/gtest.h>

#include "camber/detection/detector.h"
#include "detection/example_batch.h"
#include "support/warnings.h"

namespace camber::detection {
namespace {

using examples::example_batch;

constexpr double kBroken = std::numeric_limits<double>::quiet_NaN();

Detector evaluated(const DetectorOptions& options) {
  Detector detector(options, 1);
  detector->eval();
  return detector;
}

// Scores of 0.1, 0.2, ... from query to query, every box in the middle of the space.
DetectorOutput rising_scores(const DetectorBatch& batch, std::int64_t queries, std::int64_t classes) {
  DetectorOutput output;
  output.class_logits = torch::logit(0.1 + 0.8 * torch::arange(queries * classes, torch::kDouble) / (queries * classes))
                            .view({1, 1, queries, classes})
                            .repeat({1, batch.size, 1, 1});
  output.codes = torch::zeros({1, batch.size, queries, 10}, torch::kDouble);
  return output;
}

TEST(Decode, LeavesScoresThatAreNoNumbersOutOfTheBoxesAndNamesThem) {
  auto options = examples::tiny_options();
  options.head.max_detections = 40;
  const auto detector = evaluated(options);
  const auto batch = example_batch(options, 2, 1);
  const std::int64_t classes = options.num_classes();
  auto output = rising_scores(batch, 30, classes);
  // Every third query of the second frame: a sort that meets them without a rule of its own goes astray.
  auto broken = output.class_logits[0][1].view({10, 3, classes}).select(1, 1);
  broken.fill_(kBroken);
  const proof::CollectedWarnings warnings;
  const auto found = detector->decode(output, batch);
  ASSERT_EQ(warnings.messages.size(), 1U);
  EXPECT_EQ(warnings.messages[0], "[decode] frame 1: " + std::to_string(10 * classes) + " of " +
                                      std::to_string(30 * classes) +
                                      " scores are NaN and 0 boxes are not finite; they are left out");
  ASSERT_EQ(found[0].size(), 40U);
  ASSERT_EQ(found[1].size(), 40U);
  for (const auto& frame : found)
    for (std::size_t i = 0; i < frame.size(); ++i) {
      EXPECT_TRUE(std::isfinite(frame[i].score));
      if (i > 0) {
        EXPECT_LT(frame[i].score, frame[i - 1].score);
      }
    }
  for (const auto& one : found[1]) EXPECT_NE(one.query % 3, 1);
  EXPECT_EQ(found[1][0].query, 29);
}

TEST(Decode, LeavesBoxesThatAreNotFiniteOutAndNamesThem) {
  auto options = examples::tiny_options();
  options.head.max_detections = 30 * options.num_classes();
  const auto detector = evaluated(options);
  const auto batch = example_batch(options, 1, 1);
  auto output = rising_scores(batch, 30, options.num_classes());
  output.codes[0][0][3][0] = kBroken;                                   // a centre
  output.codes[0][0][4][3] = 1000;                                      // the logarithm of a size
  output.codes[0][0][5][6] = kBroken;                                   // a sine
  output.codes[0][0][6][9] = -std::numeric_limits<double>::infinity();  // a velocity
  output.codes[0][0][7][0] = 1e6;                                       // far outside: a wild box, not a broken one
  const proof::CollectedWarnings warnings;
  const auto found = detector->decode(output, batch);
  ASSERT_EQ(warnings.messages.size(), 1U);
  EXPECT_EQ(warnings.messages[0], "[decode] frame 0: 0 of " + std::to_string(30 * options.num_classes()) +
                                      " scores are NaN and " + std::to_string(4 * options.num_classes()) +
                                      " boxes are not finite; they are left out");
  EXPECT_EQ(found[0].size(), static_cast<std::size_t>(25 * options.num_classes()));
}

// Limits belong to the space, also where their nearest single-precision number lies a little outside.
TEST(Decode, KeepsCentresOnTheLimits) {
  auto options = examples::tiny_options();
  options.head.max_detections = 30 * options.num_classes();
  options.head.centre_limits = {-61.2, -61.2, -10, 61.2, 61.2, 10};
  options.head.box_code = BoxCode::kCmt;
  const auto detector = evaluated(options);
  const auto batch = example_batch(options, 1, 1);
  auto output = rising_scores(batch, 30, options.num_classes());
  output.codes = output.codes.to(torch::kFloat);
  const auto set = [&](std::int64_t query, std::int64_t entry, float value) {
    output.codes[0][0][query][entry] = value;
  };
  set(3, 0, -61.2F);
  set(4, 1, 61.2F);
  set(5, 4, -10);                            // the height of the box's middle, before log h
  set(6, 0, std::nextafter(61.2F, 100.0F));  // one step outside
  set(7, 4, std::nextafter(-10.0F, -11.0F));
  set(8, 2, 100);  // a size that is no number in single precision: broken, wherever it lies
  const proof::CollectedWarnings warnings;
  const auto found = detector->decode(output, batch);
  std::set<std::int64_t> queries;
  for (const auto& one : found[0]) queries.insert(one.query);
  EXPECT_EQ(queries.size(), 27U);
  for (const std::int64_t query : {3, 4, 5}) EXPECT_TRUE(queries.contains(query)) << query;
  for (const std::int64_t query : {6, 7, 8}) EXPECT_FALSE(queries.contains(query)) << query;
}

// What is not a number goes all the way through, for the guard of a training to name: nothing on the way replaces it.
TEST(Detector, ANumberThatBrokeInOneSampleReachesTheLosses) {
  for (const bool follow : {false, true}) {
    auto options = examples::tiny_options();
    options.router.mode = nn::RouterMode::kLearned;
    if (follow) {
      options.bias.centre = nn::WindowCentre::kRefined;
      options.bias.sizing = nn::WindowSizing::kObject;
    }
    Detector detector(options, 1);
    detector->train();
    auto batch = example_batch(options, 2, 2);
    auto broken = batch.points.narrow(0, 400, 1);
    broken.copy_(torch::tensor({{1.0, 1.0, 0.0, kBroken, 0.0}}, torch::kFloat));
    batch.points.narrow(0, 401, 1).copy_(torch::tensor({{1.0, 1.0, 0.0, 0.5, 0.0}}, torch::kFloat));
    const auto output = detector->forward(batch);
    EXPECT_FALSE(output.class_logits.isfinite().all().item<bool>());
    const auto losses = detector->losses(output, batch);
    ASSERT_EQ(losses.terms[0].first, "class_0");
    EXPECT_TRUE(std::isnan(losses.terms[0].second.item<double>()));
    EXPECT_TRUE(std::isnan(losses.terms[1].second.item<double>()));
  }
}

}  // namespace
}  // namespace camber::detection
