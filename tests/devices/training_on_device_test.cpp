#include <cmath>
#include <fstream>

#include <gtest/gtest.h>

#include "camber/config/options.h"
#include "camber/detection/weights.h"
#include "camber/nn/device.h"
#include "camber/ops/deferred_check.h"
#include "camber/runs/detector_run.h"
#include "camber/runs/fewshot_run.h"
#include "camber/simulation/simulate.h"
#include "camber/verification/verification.h"
#include "detection/example_batch.h"
#include "storage/scratch_folder.h"
#include "support/comparison.h"
#include "support/test_device.h"

// Whole runs whose weights lie on another device: training, health, checkpoints, resuming elsewhere, evaluation.
namespace camber::runs {
namespace {

using camber::proof::error_of;
using camber::proof::reset_traffic;
using camber::proof::test_device;
using camber::proof::traffic;

class TrainingOnDevice : public storage::ScratchFolder {
 protected:
  void SetUp() override {
    storage::ScratchFolder::SetUp();
    at::set_num_threads(1);
  }

  DetectorTrainingOptions small_run() const {
    simulation::SimulationOptions world{.scenes = 4};
    world.world.frames = 3;
    simulation::simulate(world, 7, 1, folder_ / "world");
    DetectorTrainingOptions options;
    options.data.root = (folder_ / "world").string();
    options.data.version = "v1.0-simulated";
    options.data.threads = 1;
    options.detector.router.mode = nn::RouterMode::kLearned;
    options.detector.bias.segments = true;
    options.detector.head.num_queries = 20;
    options.loop.steps = 6;
    options.loop.checkpoint_every = 3;
    options.loop.average = {.enabled = true};
    options.evaluation.limit = 2;
    options.health.interval = 2;
    options.log_every = 2;
    return options;
  }

  DetectorRunResult train(const DetectorTrainingOptions& options, const char* folder, const std::string& device,
                          std::int64_t stop_after = -1, bool resume = false) const {
    std::int64_t done = 0;
    DetectorRunRequest request{.options = options, .out = folder_ / folder, .resume = resume, .device = device};
    request.after_step = [&](const train::StepReport& report, const std::string&) {
      EXPECT_TRUE(std::isfinite(report.loss));
      losses_.push_back(report.loss);
      ++done;
    };
    request.stop_requested = [&] { return stop_after >= 0 && done >= stop_after; };
    return train_detector(request);
  }
  mutable std::vector<double> losses_;
};

TEST_F(TrainingOnDevice, ADetectorTrainsThereAndGoesOnHere) {
  const auto options = small_run();
  const std::string there = test_device().str();
  EXPECT_TRUE(train(options, "host", "cpu").finished);
  const auto expected = losses_;
  losses_.clear();
  EXPECT_FALSE(train(options, "moved", there, 3).finished);
  const auto result = train(options, "moved", "cpu", -1, true);
  EXPECT_TRUE(result.finished);
  EXPECT_EQ(result.first_step, 3);
  ASSERT_EQ(losses_.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(losses_[i], expected[i], 2e-3 * std::abs(expected[i])) << "step " << i + 1;
  // The other way round, and to the end, with the evaluation there.
  losses_.clear();
  EXPECT_FALSE(train(options, "back", "cpu", 3).finished);
  const auto back = train(options, "back", there, -1, true);
  EXPECT_TRUE(back.finished);
  ASSERT_TRUE(back.evaluation);
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(losses_[i], expected[i], 2e-3 * std::abs(expected[i])) << "step " << i + 1;
}

TEST_F(TrainingOnDevice, FewShotTrainsThereAndGoesOnHere) {
  FewshotOptions options;
  options.source.test_classes = 5;
  options.source.glyphs = {.classes = 13, .hands = 6, .size = 16, .domains = {"ink", "inverted", "noisy"}};
  options.episode = {.n_way = 4, .k_shot = 2, .queries = 2, .cross_domain = true};
  options.model.encoder.channels = 8;
  options.model.domain_width = 16;
  options.training.episodes = 8;
  options.training.checkpoint_every = 4;
  options.training.log_every = 2;
  options.tests = {{.n_way = 5, .k_shot = 1, .queries = 3, .episodes = 10}};
  options.leak_episodes = 4;
  const std::string config = config::to_toml(options), there = test_device().str();
  int asked = 0;
  const auto stopped = run_fewshot(
      options, {.threads = 1, .out = folder_ / "few", .device = there, .config = config, .stop_requested = [&asked] {
                  return ++asked > 2;
                }});
  EXPECT_FALSE(stopped.complete);
  const auto resumed =
      run_fewshot(options, {.threads = 1, .out = folder_ / "few", .resume = true, .device = "cpu", .config = config});
  EXPECT_TRUE(resumed.complete);
  EXPECT_EQ(resumed.episodes, 8);
  const auto whole = run_fewshot(options, {.threads = 1, .device = there});
  EXPECT_TRUE(whole.complete);
  EXPECT_TRUE(std::isfinite(whole.last_loss));
  EXPECT_EQ(whole.leaks.size(), 3U);
}

// A detector on the device, one batch, a loop round both.
struct OneBatch {
  detection::DetectorOptions options;
  detection::Detector detector;
  detection::DetectorBatch batch;
  train::TrainingLoop loop;
  std::int64_t passes = 0;

  OneBatch(const detection::DetectorOptions& given, at::Device device,
           train::TrainingPrecision precision = train::TrainingPrecision::kFloat)
      : options(given),
        detector(given, 1),
        batch(detection::examples::example_batch(given, 2, 3)),
        loop(moved(device), {.steps = 3, .precision = precision, .average = {.enabled = true}}) {
    detector->train();
  }
  torch::nn::Module& moved(at::Device device) {
    detector->to(device);
    return *detector;
  }
  train::StepReport step(bool statistics = false) {
    return loop.train_step([&](std::int64_t number) -> train::NamedLosses {
      ++passes;
      return detector->losses(detector->forward(batch, {.step = number, .statistics = statistics}), batch).terms;
    });
  }
};

detection::DetectorOptions learned_router() {
  auto options = detection::examples::tiny_options();
  options.router.mode = nn::RouterMode::kLearned;
  options.bias.segments = true;
  return options;
}

// Of a step, with statistics of its attention or without: what matching reads, the losses and the gradient's norm.
// Nothing else.
TEST(TrainingStep, WaitsForTheHostInMatchingAndLoggingAlone) {
  for (const auto centre : {nn::WindowCentre::kInitial, nn::WindowCentre::kRefined}) {
    auto options = learned_router();
    options.bias.centre = centre;
    OneBatch run(options, test_device());
    run.step();  // the optimiser makes its state
    for (const bool statistics : {false, true}) {
      reset_traffic();
      EXPECT_FALSE(run.step(statistics).repeated);
      const auto seen = traffic();
      constexpr std::int64_t kMatching = 2, kLogging = 2;
      EXPECT_EQ(seen.numbers_read, 0);
      EXPECT_EQ(seen.waits(), kMatching + kLogging);
      // Operators whose result has as many elements as the device finds: CUDA's wait for it.
      for (const char* name : {"aten::nonzero", "aten::masked_select", "aten::_unique2", "aten::unique_consecutive",
                               "aten::index", "aten::equal", "aten::is_nonzero"})
        EXPECT_EQ(seen.calls.count(name), 0U) << name;
    }
    EXPECT_EQ(run.passes, 3);
  }
}

// Asking for statistics changes no step: the losses and weights of a run that never did.
TEST(TrainingStep, StatisticsChangeNoBit) {
  const auto options = learned_router();
  OneBatch watched(options, test_device()), plain(options, test_device());
  for (int i = 0; i < 2; ++i) EXPECT_EQ(watched.step(true).loss, plain.step(false).loss);
  const auto wanted = plain.detector->named_parameters();
  for (const auto& parameter : watched.detector->named_parameters())
    EXPECT_TRUE(camber::proof::same_bits(parameter.value().cpu(), wanted[parameter.key()].cpu())) << parameter.key();
}

// Queries that all cameras see leave no room for their windows: the pass is thrown away and made again by waiting, with
// the losses and the running statistics of one pass. From then on there is room.
TEST(TrainingStep, IsRepeatedWhereACheckFails) {
  auto options = learned_router();
  OneBatch there(options, test_device()), here(options, at::kCPU);
  for (OneBatch* run : {&there, &here})
    for (auto& cameras : run->batch.scene.cameras)
      for (auto& camera : cameras) camera.lidar_to_image = cameras[0].lidar_to_image;
  for (int i = 0; i < 3; ++i) {
    const auto report = there.step(), expected = here.step();
    EXPECT_EQ(report.repeated, i == 0);
    EXPECT_FALSE(expected.repeated);
    EXPECT_NEAR(report.loss, expected.loss, 1e-3 * expected.loss);
  }
  EXPECT_EQ(there.passes, 4);
  EXPECT_EQ(here.passes, 3);
  const auto wanted = here.detector->named_buffers();
  for (const auto& buffer : there.detector->named_buffers())
    EXPECT_TRUE(camber::proof::close(buffer.value().cpu().to(at::kDouble), wanted[buffer.key()].to(at::kDouble), 2e-3))
        << buffer.key();
}

// Such a row is no matter of room: every step of this kind is repeated.
TEST(TrainingStep, RowsToRecomputeRepeatEveryStep) {
  OneBatch run(learned_router(), test_device());
  for (int i = 0; i < 2; ++i) {
    const auto report = run.loop.train_step([&](std::int64_t number) -> train::NamedLosses {
      ++run.passes;
      const auto losses = run.detector->losses(run.detector->forward(run.batch, {.step = number}), run.batch).terms;
      if (auto* check = ops::DeferredCheck::current(test_device())) check->add(torch::ones({}).to(test_device()));
      return losses;
    });
    EXPECT_TRUE(report.repeated);
  }
  EXPECT_EQ(run.passes, 4);
}

// Products in lower precision on either device: losses near float's, everything that learns in float, the scale within
// its bounds, no further wait.
TEST(TrainingStep, RunsInLowerPrecisionHereAndThere) {
  const auto options = learned_router();
  OneBatch plain(options, at::kCPU);
  const double expected = plain.step().loss;
  for (const auto device : {at::Device(at::kCPU), test_device()})
    for (const auto precision : {train::TrainingPrecision::kBfloat16, train::TrainingPrecision::kHalf}) {
      OneBatch run(options, device, precision);
      const auto first = run.step();
      EXPECT_NEAR(first.loss, expected, 0.03 * expected);
      for (const auto& parameter : run.detector->named_parameters()) {
        EXPECT_EQ(parameter.value().scalar_type(), torch::kFloat) << parameter.key();
        if (!parameter.value().grad().defined()) continue;
        EXPECT_EQ(parameter.value().grad().scalar_type(), torch::kFloat) << parameter.key();
      }
      reset_traffic();
      const auto second = run.step();
      EXPECT_TRUE(std::isfinite(second.loss));
      EXPECT_FALSE(first.skipped && !first.overflowed);
      EXPECT_LE(traffic().waits(), 4);
      const auto scale = run.loop.projector().scales().at(0).scale;
      EXPECT_LE(scale->raw().max().item<double>(), scale->max());
    }
}

TEST(VerifyOnDevice, EveryPromiseHolds) {
  const auto checks = verification::verify({}, 1, test_device().str());
  EXPECT_GE(checks.size(), 9U);
  for (const auto& check : checks) EXPECT_TRUE(check.passed) << check.promise << ": " << check.measured;
}

TEST(DeviceNames, OthersAreRefusedInASentence) {
  EXPECT_EQ(nn::device_from("cpu"), torch::kCPU);
  EXPECT_EQ(nn::device_from(test_device().str()), test_device());
  EXPECT_EQ(error_of([] { nn::device_from("gpu"); }), "device must be cpu, cuda or cuda:N, got \"gpu\"");
  if (test_device().is_cuda()) return;
  EXPECT_EQ(error_of([] { nn::device_from("cuda:1"); }),
            "device must be cpu, cuda or cuda:N, got \"cuda:1\": this torch was built without cuda");
}

}  // namespace
}  // namespace camber::runs
