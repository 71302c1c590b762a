// The detector under the training loop: what breaks in one sample is named and leaves no trace.
#include <cmath>
#include <limits>

#include <camber/train/training_loop.h>
#include <gtest/gtest.h>

#include "detection/example_batch.h"

namespace camber::runs {
namespace {

using detection::Detector;
using detection::DetectorBatch;
using detection::examples::example_batch;
using detection::examples::tiny_options;

std::vector<torch::Tensor> copy_of(const Detector& detector) {
  std::vector<torch::Tensor> copies;
  for (const auto& tensor : detector->parameters()) {
    copies.push_back(tensor.detach().clone());
  }
  for (const auto& tensor : detector->buffers()) {
    copies.push_back(tensor.detach().clone());
  }
  return copies;
}

bool same(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const torch::Tensor& x, const torch::Tensor& y) { return torch::equal(x, y); });
}

struct Training {
  explicit Training(std::int64_t stop_after = 3)
      : detector(tiny_options(), 1),
        loop(*detector, {.steps = 10, .average = {.enabled = true}, .guard = {.stop_after = stop_after}}) {
    detector->train();
  }
  train::StepReport step(const DetectorBatch& batch) {
    return loop.train_step([&](std::int64_t number) -> train::NamedLosses {
      return detector->losses(detector->forward(batch, {.step = number}), batch).terms;
    });
  }
  Detector detector;
  train::TrainingLoop loop;
};

// The second of two frames with a number that is none, at such an index.
DetectorBatch broken_batch(const std::string& position) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  DetectorBatch batch = example_batch(tiny_options(), 2, 2);
  if (position == "point") {
    batch.points.narrow(0, 400, 1).copy_(torch::tensor({{1.0F, 1.0F, 0.0F, nan, 0.0F}}));
  } else if (position == "image") {
    batch.images[0][1][0][2][3][4] = nan;
  } else if (position == "true centre") {
    batch.targets[1].boxes[0][0] = nan;
  } else if (position == "true size") {
    batch.targets[1].boxes[0][4] = 0;
  }
  return batch;
}

TEST(DetectorTraining, ASampleThatBrokeSkipsItsStepByNameAndLeavesNoTrace) {
  for (const std::string position : {"point", "image", "true centre", "true size"}) {
    Training training;
    ASSERT_FALSE(training.step(broken_batch("nowhere")).skipped);
    const auto before = copy_of(training.detector);
    const train::StepReport report = training.step(broken_batch(position));
    EXPECT_TRUE(report.skipped) << position;
    ASSERT_TRUE(report.finding) << position;
    // What broke in a true box stays in the queries that were made from it.
    const std::string named = position == "true size"     ? "loss/box_0 holds Infinity"
                              : position == "true centre" ? "loss/box_0 holds NaN"
                                                          : "loss/class_0 holds NaN";
    EXPECT_TRUE(report.finding->sentence.starts_with("Step 2 was skipped because " + named))
        << position << ": " << report.finding->sentence;
    EXPECT_TRUE(same(before, copy_of(training.detector))) << position;
    EXPECT_FALSE(training.step(broken_batch("nowhere")).skipped) << position;
  }
}

TEST(DetectorTraining, StopsAfterEnoughBrokenSamples) {
  Training training(2);
  const DetectorBatch batch = broken_batch("point");
  EXPECT_FALSE(training.step(batch).stops);
  const train::StepReport report = training.step(batch);
  EXPECT_TRUE(report.stops);
  EXPECT_NE(report.finding->sentence.find("2 steps in a row"), std::string::npos) << report.finding->sentence;
}

TEST(DetectorTraining, NamesTheParameterThatBroke) {
  Training training;
  {
    const torch::NoGradGuard no_grad;
    training.detector->named_parameters()["head.decoder.layers.1.norm2.weight"][3] = NAN;
  }
  const train::StepReport report = training.step(broken_batch("nowhere"));
  ASSERT_TRUE(report.finding);
  EXPECT_NE(report.finding->sentence.find("parameter head.decoder.layers.1.norm2.weight holds 1 NaN"),
            std::string::npos)
      << report.finding->sentence;
}

}  // namespace
}  // namespace camber::runs
