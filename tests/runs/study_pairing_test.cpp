#include <cstdlib>
#include <cstring>
#include <map>
#include <stdexcept>
#include <tuple>

#include <camber/config/options.h>
#include <camber/detection/detector.h>
#include <camber/detection/weights.h>
#include <camber/runs/detector_passes.h>
#include <camber/runs/detector_run.h>
#include <camber/runs/study_options.h>
#include <camber/runs/study_run.h>
#include <camber/simulation/simulate.h>
#include <camber/study/record.h>
#include <camber/weights/state_file.h>
#include <gtest/gtest.h>

#include <ATen/Parallel.h>

#include "storage/scratch_folder.h"

// Adding the router changes no other parameter's start, no batch and no noise; a scale of 0 is no bias, bit for bit.
namespace camber::runs {
namespace {

// The plan that was run; without it nothing here would be proved, so its absence fails.
StudyOptions real_study() {
  const char* source = std::getenv("CAMBER_SOURCE");
  if (source == nullptr)
    throw std::runtime_error("CAMBER_SOURCE must name the source tree, as ctest sets it; got none");
  return config::load({.file = std::string(source) + "/configs/study.toml"}, StudyOptions{});
}

bool same_bytes(const torch::Tensor& a, const torch::Tensor& b) {
  return a.sizes() == b.sizes() && std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

std::map<std::string, torch::Tensor> state(const detection::Detector& detector) {
  std::map<std::string, torch::Tensor> all;
  for (auto& [name, tensor] : weights::tensors_of(*detector)) all.emplace(name, tensor);
  return all;
}

auto members_of(const sensors::FrameOptions& frame) {
  const auto& range = frame.range;
  return std::tie(frame.lidars, frame.cameras, frame.camera_order, frame.image_width, frame.image_height,
                  frame.feature_stride, frame.resampling, frame.load_points, frame.load_images, frame.sweeps.previous,
                  frame.sweeps.minimum_distance, frame.sweeps.filter_key_frame, frame.sweeps.repeat_key_frame,
                  frame.sweeps.arithmetic, range.x_min, range.x_max, range.y_min, range.y_max, range.z_min,
                  range.z_max);
}

auto members_of(const sensors::LoaderOptions& options) {
  return std::tuple_cat(members_of(options.frame),
                        std::tie(options.fixed_faults, options.batch_size, options.shuffle, options.epochs,
                                 options.batches_ahead, options.cues, options.cue_errors, options.fault_pool));
}

bool load_alike(const sensors::LoaderOptions& first, const sensors::LoaderOptions& second) {
  return members_of(first) == members_of(second) && config::differences(first.faults, second.faults).empty() &&
         config::differences(first.augmentation, second.augmentation).empty();
}

// Wherever the configurations lie, or else a published study could not be gone on with.
// What the plan says today is what the published detectors were trained with: an option that gets another default, and
// one of a preset, has to be written into configs/study.toml as it was.
TEST(StudyPlan, IsStillThatOfThePublishedBases) {
  const std::string source = std::getenv("CAMBER_SOURCE");
  DetectorTrainingOptions published = options_of_checkpoint(source + "/study/bases/base_s0.safetensors");
  const DetectorTrainingOptions planned = training_of(real_study(), {.arm = kBase, .seed = 0}).options;
  published.data.root = planned.data.root;  // paths of another machine
  published.evaluation.config = planned.evaluation.config;
  EXPECT_EQ(config::to_toml(published), config::to_toml(planned));
}

TEST(Pairing, ThePublishedRecordsAreOfTheShippedPlan) {
  const StudyOptions study = real_study();
  const auto records = study::read_run_records(std::filesystem::path(std::getenv("CAMBER_SOURCE")) / "study/records");
  ASSERT_FALSE(records.empty());
  for (const study::RunRecord& record : records)
    if (is_planned(study.plan, record.arm)) {
      EXPECT_EQ(hash_of(study, {record.arm, record.seed}, record.data_fingerprint), record.config_hash) << record.key();
    }
}

TEST(Pairing, EveryArmOfTheStudyStartsAlikeAndMeetsTheSameBatches) {
  const StudyOptions study = real_study();
  const RunTraining plain = training_of(study, {"plain", 3});
  const auto of_plain = state(detection::Detector(plain.options.detector, plain.options.seed));
  for (const study::StudyArm& arm : study.plan.arms) {
    if (arm.from_scratch) continue;
    const RunTraining training = training_of(study, {arm.name, 3});
    EXPECT_EQ(training.options.seed, plain.options.seed);
    EXPECT_TRUE(training.branches);
    EXPECT_TRUE(config::differences(training.options.data, plain.options.data).empty()) << arm.name;
    EXPECT_TRUE(load_alike(training.options.loader(), plain.options.loader())) << arm.name;
    EXPECT_TRUE(config::differences(training.options.loop.schedule, plain.options.loop.schedule).empty()) << arm.name;
    const auto own = state(detection::Detector(training.options.detector, training.options.seed));
    for (const auto& [name, tensor] : of_plain) {
      ASSERT_TRUE(own.contains(name)) << arm.name << " " << name;
      EXPECT_TRUE(same_bytes(own.at(name), tensor)) << arm.name << " " << name;
    }
  }
}

TEST(Pairing, LearnableArmsTakeTheSmallestMultipleThatReaches) {
  StudyOptions study = real_study();
  EXPECT_EQ(training_of(study, {"plain", 0}).scale_lr_mult, 0);
  EXPECT_EQ(training_of(study, {"fixed", 0}).scale_lr_mult, 0);
  EXPECT_EQ(training_of(study, {"constant", 0}).scale_lr_mult, 5);
  EXPECT_EQ(training_of(study, {"trust", 0}).scale_lr_mult, 10);
  EXPECT_EQ(training_of(study, {"slow_scale", 0}).scale_lr_mult, 0.1);
  EXPECT_EQ(training_of(study, {"slow_scale", 0}).options.loop.groups.scale_lr_mult, 0.1);
  study.plan.branch_steps = 600;
  try {
    training_of(study, {"trust", 0});
    ADD_FAILURE() << "600 steps must be too few for the segments' bounds";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("arm 'trust' must have scales that reach their bounds"), std::string::npos)
        << error.what();
  }
}

TEST(Pairing, TheHashIsOfWhatTheNumbersDependOn) {
  StudyOptions study = real_study();
  const StudyRun run{"trust", 0};
  const std::string hash = hash_of(study, run, "data");
  study.plan.world.root = "elsewhere";
  study.plan.processes = 1;
  EXPECT_EQ(hash_of(study, run, "data"), hash);
  EXPECT_NE(hash_of(study, run, "other data"), hash);
  EXPECT_NE(hash_of(study, {"trust", 1}, "data"), hash);
  study.plan.base_steps += 1;
  EXPECT_NE(hash_of(study, run, "data"), hash);
  study.plan.base_steps -= 1;
  study.plan.conditions.pop_back();
  EXPECT_NE(hash_of(study, run, "data"), hash);
}

TEST(Pairing, RunsComeBaseFirstThenBySeed) {
  const StudyOptions study = real_study();
  EXPECT_EQ(base_runs(study.plan).size(), 8U + 2);
  const std::vector<StudyRun> runs = arm_runs(study.plan);
  EXPECT_EQ(runs[0], (StudyRun{"plain", 0}));
  EXPECT_EQ(runs[8], (StudyRun{"plain", 1}));
  EXPECT_EQ(runs[64].seed, 0);
  const RunChoice few{.only = {"plain", "fixed_0"}, .seeds = 2};
  EXPECT_EQ(arm_runs(study.plan, few).size(), 4U);
  EXPECT_EQ(base_runs(study.plan, few).size(), 2U);
  EXPECT_EQ(StudyRun::parse("from_1_5_s12"), (StudyRun{"from_1_5", 12}));
  EXPECT_THROW(StudyRun::parse("trust"), std::invalid_argument);
}

StudyOptions alarms_study() {
  return config::load<StudyOptions>(
      {.file = (std::filesystem::path(std::getenv("CAMBER_SOURCE")) / "configs/study_alarms.toml").string()});
}

// The plan of the second study as it was fixed: who is trained, who shares a model, what is compared.
TEST(Alarms, ThePlanHoldsTogether) {
  const StudyOptions study = alarms_study();
  EXPECT_NO_THROW(study.validate());
  const std::vector<StudyRun> runs = arm_runs(study.plan);
  EXPECT_EQ(runs.size(), 5U * 8 + 9U * 3);
  for (const StudyRun& run : runs) EXPECT_NO_THROW(training_of(study, run)) << run.key();
  EXPECT_EQ(study.plan.sharing("plain").size(), 2U);
  EXPECT_EQ(study.plan.comparisons.size(), 4U);
  EXPECT_NE(study.plan.test_world.seed, study.plan.world.seed);
  for (const StudyRun& base : base_runs(study.plan)) EXPECT_TRUE(training_of(study, base).given);
}

TEST(Alarms, ArmsThatShareAModelAreTrainedAlikeAndEvaluatedOtherwise) {
  const StudyOptions study = alarms_study();
  const StudyRun bias{"bias", 1}, verified{"verified_bias", 1};
  EXPECT_TRUE(config::differences(training_of(study, bias).options, training_of(study, verified).options).empty());
  EXPECT_EQ(training_of(study, verified).policy, "verified_bias");
  EXPECT_NE(hash_of(study, bias, "data"), hash_of(study, verified, "data"));
  EXPECT_EQ(arm_runs(study.plan, {.only = {"verified_bias"}, .seeds = 1}), (std::vector<StudyRun>{{"bias", 0}}));
  // Its base is the first study's, to the last option.
  EXPECT_TRUE(config::differences(training_of(study, {kBase, 2}).options, training_of(real_study(), {kBase, 2}).options)
                  .empty());
  StudyOptions other = alarms_study();
  other.plan.streams[0].misses = 0.2;
  EXPECT_NE(hash_of(other, bias, "data"), hash_of(study, bias, "data"));
}

TEST(Rule, IsThePlainDetectorEvaluatedOtherwise) {
  const StudyOptions study = real_study();
  const StudyRun run{"rule", 1};
  EXPECT_EQ(training_of(study, run).absent_above_age, 0.75);
  EXPECT_TRUE(config::differences(training_of(study, run).options, training_of(study, {"plain", 1}).options).empty());
  EXPECT_NE(hash_of(study, run, "data"), hash_of(study, {"plain", 1}, "data"));
}

TEST(Rule, TakesOutTheSensorsWhoseCueOfAgeIsAboveIt) {
  detection::DetectorBatch batch;
  batch.age = torch::tensor({0.0F, 0.5F, 0.75F, 0.76F, 1.0F, 0.0F}).view({2, 3});
  batch.available = torch::tensor({true, true, true, true, true, false}).view({2, 3});
  const torch::Tensor left = without_old_sensors(batch, 0.75).available;
  EXPECT_TRUE(torch::equal(left, torch::tensor({true, true, true, false, false, false}).view({2, 3}))) << left;
  EXPECT_TRUE(torch::equal(without_old_sensors(batch, 0).available, batch.available));
}

// Bases that were published before this build must be readable, and be those that their records speak of.
TEST(PublishedBases, AreThoseOfTheirRecords) {
  const char* source = std::getenv("CAMBER_SOURCE");
  ASSERT_NE(source, nullptr);
  const std::filesystem::path published = std::filesystem::path(source) / "study";
  std::size_t bases = 0;
  for (const study::RunRecord& record : study::read_run_records(published / "records")) {
    EXPECT_EQ(record.numerics, 1) << record.key();
    if (record.arm != kBase) continue;
    const auto detector = detection::Detector::load(published / "bases" / (record.key() + ".safetensors"));
    EXPECT_EQ(sum_of_weights(*detector), record.weights) << record.key();
    ++bases;
  }
  EXPECT_EQ(bases, 8U);
}

class ScaleZero : public storage::ScratchFolder {};

TEST_F(ScaleZero, IsNoBiasBitForBitOverAWholeRun) {
  StudyOptions study = real_study();
  at::set_num_threads(1);
  simulation::SimulationOptions world{.scenes = 4};
  world.world.frames = 3;
  simulation::simulate(world, 7, 2, folder_ / "world");
  study.plan.world.root = (folder_ / "world").string();
  study.plan.base_steps = 6;
  study.plan.branch_steps = 12;
  // A small bound makes the clipping of gradients count, where zeros of the router could move a rounding.
  study.training.loop.optimizer.clip_norm = 0.5;
  const auto train = [&](const char* arm) {
    const RunTraining training = training_of(study, {arm, 0});
    DetectorRunRequest request{.options = training.options, .out = folder_ / arm, .evaluate = false};
    if (training.branches) request.from = folder_ / "base/model.safetensors";
    train_detector(request);
    return state(detection::Detector::load(folder_ / arm / "model.safetensors"));
  };
  const auto base = train(kBase), plain = train("plain"), zero = train("fixed_0");
  std::size_t moved = 0;
  for (const auto& [name, tensor] : plain) {
    EXPECT_TRUE(same_bytes(zero.at(name), tensor)) << name;
    moved += same_bytes(base.at(name), tensor) ? 0 : 1;
  }
  EXPECT_GT(moved, plain.size() / 2) << "the branch must have learned something";
  EXPECT_TRUE(zero.contains("model.head.router.content.weight"));
  EXPECT_EQ(zero.at("model.head.router.content.weight").abs().max().item<double>(), 0) << "no gradient ever came";
}

}  // namespace
}  // namespace camber::runs
