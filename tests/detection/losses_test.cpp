#include "detection/losses.h"

#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "camber/detection/box_coding.h"
#include "detection/example_batch.h"
#include "support/comparison.h"

namespace camber::detection {
namespace {

using camber::proof::close;
using camber::proof::gradients_match;
using examples::example_batch;

torch::Tensor draw(at::IntArrayRef sizes, std::uint64_t seed) {
  torch::manual_seed(seed);
  return torch::randn(sizes, torch::kDouble).requires_grad_();
}

TEST(FocalLoss, IsTheFormulaAndItsGradient) {
  auto logits = draw({3, 4}, 1);
  const auto targets = torch::eye(4, torch::kDouble).narrow(0, 0, 3);
  const auto loss = focal_loss(logits, targets, 0.25, 2);
  const auto p = torch::sigmoid(logits);
  const auto expected =
      -0.25 * targets * (1 - p).square() * p.log() - 0.75 * (1 - targets) * p.square() * (1 - p).log();
  EXPECT_TRUE(close(loss, expected, 1e-12));
  for (const double gamma : {2.0, 1.5})
    EXPECT_TRUE(gradients_match([&] { return focal_loss(logits, targets, 0.25, gamma).sum(); }, {{"logits", logits}}));
  const auto far = torch::tensor({-200.0, 200.0}, torch::kDouble);
  EXPECT_TRUE(focal_loss(far, torch::tensor({1.0, 0.0}, torch::kDouble), 0.25, 2).isfinite().all().item<bool>());
}

struct Case {
  DetectorOptions options = examples::tiny_options();
  DetectorBatch batch = example_batch(options, 2, 2);
  torch::Tensor logits = draw({2, 2, 6, 4}, 2), codes = draw({2, 2, 6, 10}, 3);

  QueryTargets targets() const {
    auto object = torch::full({2, 2, 6}, -1, torch::kLong);
    object[0][0][1] = 2;
    object[0][1][4] = 1;
    object[1][0][5] = 0;
    return {.object = object, .background = {}, .ignored = {}};
  }
};

TEST(QueryLosses, SumFocalAndL1OverWhatQueriesStandFor) {
  Case c;
  const auto losses = query_losses(c.logits, c.codes, c.targets(), c.batch, c.options, 3, 2);
  auto hot = torch::zeros({2, 6, 4}, torch::kDouble);
  hot[0][1][c.batch.targets[0].labels[2].item<std::int64_t>()] = 1;
  hot[1][4][c.batch.targets[1].labels[1].item<std::int64_t>()] = 1;
  EXPECT_TRUE(close(losses.classes[0], 2.0 / 3 * focal_loss(c.logits[0], hot, 0.25, 2).sum(), 1e-9));
  const auto truth = encode_boxes(c.batch.targets[0].boxes, BoxCode::kCamber)[0].to(torch::kDouble);
  const auto weights = torch::tensor(c.options.loss.code_weights, torch::kDouble);
  EXPECT_TRUE(close(losses.boxes[1], 0.25 / 2 * ((c.codes[1][0][5] - truth).abs() * weights).sum(), 1e-6));
}

TEST(QueryLosses, CountSmallErrorsByTheirSquareWhereTheyAreSmoothed) {
  Case c;
  const double heading = 0.5, speed = 2;
  c.options.loss.code_smoothing = {0, 0, 0, 0, 0, 0, heading, heading, speed, speed};
  const auto truth = encode_boxes(c.batch.targets[0].boxes, BoxCode::kCamber)[0].to(torch::kDouble);
  const auto errors = torch::tensor({0.3, -0.3, 0.0, 0.1, -2.0, 1.0, 0.4, -0.6, -1.0, 5.0}, torch::kDouble);
  {
    const torch::NoGradGuard guard;
    c.codes[1][0][5].copy_(truth + errors);
  }
  const auto boxes = query_losses(c.logits, c.codes, c.targets(), c.batch, c.options, 3, 2).boxes[1];
  const auto costs = torch::tensor({0.3, 0.3, 0.0, 0.1, 2.0, 1.0, 0.16, 0.6 - 0.25, 0.25, 5.0 - 1}, torch::kDouble);
  const auto weights = torch::tensor(c.options.loss.code_weights, torch::kDouble);
  EXPECT_TRUE(close(boxes, 0.25 / 2 * (costs * weights).sum(), 1e-6));
  EXPECT_TRUE(gradients_match(
      [&] { return query_losses(c.logits, c.codes, c.targets(), c.batch, c.options, 3, 2).boxes.sum(); },
      {{"codes", c.codes}}));
}

TEST(QueryLosses, HaveTheGradientsOfTheirNumericJacobian) {
  Case c;
  auto targets = c.targets();
  const auto total = [&] {
    const auto losses = query_losses(c.logits, c.codes, targets, c.batch, c.options, 3, 2);
    return losses.classes.sum() + losses.boxes.sum();
  };
  EXPECT_TRUE(gradients_match(total, {{"logits", c.logits}, {"codes", c.codes}}));
  targets.background = torch::zeros({2, 6}, torch::kBool);
  targets.background[0][1] = true;
  targets.ignored = torch::zeros({2, 6}, torch::kBool);
  targets.ignored[1][2] = true;
  EXPECT_TRUE(gradients_match(total, {{"logits", c.logits}, {"codes", c.codes}}));
}

TEST(QueryLosses, PassOverUnknownVelocitiesAndIgnoredQueries) {
  Case c;
  c.batch.targets[0].boxes.select(1, 7).fill_(std::numeric_limits<float>::quiet_NaN());
  auto targets = c.targets();
  targets.ignored = torch::ones({2, 6}, torch::kBool);
  const auto losses = query_losses(c.logits, c.codes, targets, c.batch, c.options, 3, 2);
  EXPECT_EQ(losses.classes.abs().sum().item<double>(), 0);
  ASSERT_TRUE(losses.boxes.isfinite().all().item<bool>());
  losses.boxes.sum().backward();
  EXPECT_EQ(c.codes.grad()[0][0][1][8].item<double>(), 0);
  EXPECT_NE(c.codes.grad()[0][0][1][9].item<double>(), 0);
}

TEST(QueryLosses, AreNotNumbersWhereAPredictionOrATrueBoxIsNone) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto losses_with = [](const std::function<void(Case&)>& change) {
    Case c;
    const torch::NoGradGuard guard;
    change(c);
    return query_losses(c.logits, c.codes, c.targets(), c.batch, c.options, 3, 2);
  };
  const auto broken = [](const torch::Tensor& losses) { return losses.isnan().nonzero().squeeze(1); };
  const auto none = torch::empty({0}, torch::kLong), first = torch::tensor({0}), second = torch::tensor({1});
  auto losses = losses_with([nan](Case& c) { c.logits[1][0][3][2] = nan; });
  EXPECT_TRUE(torch::equal(broken(losses.classes), second));
  EXPECT_TRUE(torch::equal(broken(losses.boxes), none));
  losses = losses_with([nan](Case& c) { c.codes[0][1][4][0] = nan; });
  EXPECT_TRUE(torch::equal(broken(losses.classes), none));
  EXPECT_TRUE(torch::equal(broken(losses.boxes), first));
  // Only a velocity may be unknown: a true box without a centre or a size is broken data.
  losses = losses_with([nan](Case& c) { c.batch.targets[1].boxes[1][0] = nan; });
  EXPECT_TRUE(torch::equal(broken(losses.boxes), first));
  losses = losses_with([](Case& c) { c.batch.targets[0].boxes[0][4] = 0; });  // its logarithm is -inf
  EXPECT_FALSE(losses.boxes[1].isfinite().item<bool>());
  EXPECT_TRUE(losses.boxes[0].isfinite().item<bool>());
}

TEST(DenseLosses, MarkTheCellsOfCentresAndSkipWrongSensors) {
  Case c;
  const auto layout = c.batch.scene.layout();
  DetectorOutput output;
  output.grid_logits = draw({2, layout.maps[0].keys(), 4}, 5);
  output.camera_logits = draw({2, layout.keys() - layout.maps[0].keys(), 4}, 6);
  const auto sum = [&] {
    const auto losses = dense_losses(output, c.batch, c.options, 5);
    return losses.grid + losses.cameras;
  };
  EXPECT_TRUE(gradients_match(sum, {{"grid", output.grid_logits}, {"cameras", output.camera_logits}}));
  auto hot = torch::zeros({2, layout.maps[0].keys(), 4}, torch::kDouble);
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t g = 0; g < c.batch.targets[static_cast<std::size_t>(b)].labels.size(0); ++g) {
      const auto& targets = c.batch.targets[static_cast<std::size_t>(b)];
      const auto cell =
          c.batch.scene.grid.cell_at(targets.boxes[g][0].item<double>(), targets.boxes[g][1].item<double>());
      hot[b][cell->row * c.batch.scene.grid.columns() + cell->column][targets.labels[g].item<std::int64_t>()] = 1;
    }
  const auto grid = dense_losses(output, c.batch, c.options, 5).grid;
  EXPECT_TRUE(close(grid, 2.0 / 5 * focal_loss(output.grid_logits, hot, 0.25, 2).sum(), 1e-9));
  c.batch.quality[0][0] = 0;        // the first frame's cloud is another place's
  c.batch.available[1][0] = false;  // the second's LiDAR is off
  EXPECT_EQ(dense_losses(output, c.batch, c.options, 5).grid.item<double>(), 0);
}

TEST(DenseMotion, IsTheBoxLossOfHeadingAndVelocityAtTheCellsOfCentres) {
  Case c;
  c.options.loss.code_smoothing = {0, 0, 0, 0, 0, 0, 2, 2, 5, 5};
  const auto& grid = c.batch.scene.grid;
  DetectorOutput output;
  output.grid_motion = draw({2, grid.keys(), 4}, 7);
  c.batch.targets[0].boxes[0][8] = std::numeric_limits<float>::quiet_NaN();
  const auto loss = [&] { return dense_motion_loss(output, c.batch, c.options, 5); };
  double expected = 0;
  for (std::int64_t b = 0; b < 2; ++b) {
    const auto& boxes = c.batch.targets[static_cast<std::size_t>(b)].boxes;
    const auto codes = encode_boxes(boxes, BoxCode::kCamber);
    for (std::int64_t g = 0; g < boxes.size(0); ++g) {
      const auto cell = grid.cell_at(boxes[g][0].item<double>(), boxes[g][1].item<double>());
      for (std::int64_t i = 0; i < 4; ++i) {
        const double wanted = codes[g][6 + i].item<double>(), below = i < 2 ? 2 : 5, weight = i < 2 ? 1 : 0.2;
        if (std::isnan(wanted)) continue;
        const auto found = output.grid_motion[b][cell->row * grid.columns() + cell->column][i].item<double>();
        const double error = std::abs(found - wanted);
        expected += 0.25 / 5 * weight * (error < below ? error * error / (2 * below) : error - below / 2);
      }
    }
  }
  EXPECT_NEAR(loss().item<double>(), expected, 1e-5);
  EXPECT_TRUE(gradients_match(loss, {{"motion", output.grid_motion}}));
  c.batch.quality[0][0] = 0;        // the first frame's cloud is another place's
  c.batch.available[1][0] = false;  // the second's LiDAR is off
  EXPECT_EQ(loss().item<double>(), 0);
}

TEST(DetectorLosses, AreNamedInAFixedOrderAndFiniteWithoutObjects) {
  auto options = examples::tiny_options();
  options.router.mode = nn::RouterMode::kSupervised;
  options.bias.scale.l2_weight = 0.01;
  Detector detector(options, 1);
  detector->train();
  auto batch = example_batch(options, 2, 2);
  const auto losses = detector->losses(detector->forward(batch), batch);
  std::vector<std::string> names;
  names.reserve(losses.terms.size());
  for (const auto& [name, value] : losses.terms) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"class_0", "box_0", "class_1", "box_1", "denoising_class_0",
                                             "denoising_box_0", "denoising_class_1", "denoising_box_1", "dense_grid",
                                             "dense_camera", "router", "scale"}));
  for (auto& targets : batch.targets)
    targets = {targets.boxes.narrow(0, 0, 0), targets.labels.narrow(0, 0, 0), targets.trust.narrow(0, 0, 0), {}, {}};
  const auto empty = detector->losses(detector->forward(batch), batch);
  EXPECT_TRUE(empty.total.isfinite().item<bool>());
  empty.total.backward();
  for (const auto& parameter : detector->named_parameters()) {
    if (!parameter.value().grad().defined()) continue;
    EXPECT_TRUE(parameter.value().grad().isfinite().all().item<bool>()) << parameter.key();
  }
}

}  // namespace
}  // namespace camber::detection
