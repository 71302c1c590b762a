// The loop: resumed runs have the bits of unbroken ones, also after kill -9; broken steps leave no trace.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <random>
#include <stdexcept>
#include <thread>

#include <camber/storage/file.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "train/tiny_model.h"

namespace camber::train {
namespace {

using testing::losses_of;
using testing::TemporaryFolder;
using testing::tiny_options;
using testing::TinyModel;

void train_until(TrainingLoop& loop, TinyModel& model, const CheckpointFolder& checkpoints, std::int64_t until) {
  TrainingHooks hooks;
  hooks.stop_requested = [&loop, until] { return loop.step() >= until; };
  loop.run([&model](std::int64_t batch) { return losses_of(model, batch); }, &checkpoints, hooks);
}

TEST(TrainingLoop, ResumedRunsHaveTheBitsOfUnbrokenOnes) {
  for (const OptimizerKind kind : {OptimizerKind::kSgd, OptimizerKind::kAdam, OptimizerKind::kAdamW}) {
    const TemporaryFolder folder("resume");
    TrainingLoopOptions options = tiny_options();
    options.optimizer.kind = kind;
    const CheckpointFolder unbroken(folder.path() / "unbroken"), broken(folder.path() / "broken");
    {
      TinyModel model;
      TrainingLoop loop(*model, options);
      train_until(loop, model, unbroken, options.steps);
    }
    for (const std::int64_t until : {3, 4, 17, 31, 40}) {
      TinyModel model;
      TrainingLoop loop(*model, options);
      loop.resume(broken);
      train_until(loop, model, broken, until);
    }
    EXPECT_EQ(storage::read_file(unbroken.last()), storage::read_file(broken.last()));
  }
}

TEST(TrainingLoop, LearnsAndProjectsTheScale) {
  TinyModel model;
  TrainingLoopOptions options = tiny_options();
  options.steps = 150;
  options.groups.scale_lr_mult = 10;
  TrainingLoop loop(*model, options);
  std::vector<double> losses;
  double largest = 0;
  TrainingHooks hooks;
  hooks.after_step = [&](const StepReport& report) {
    losses.push_back(report.loss);
    largest = std::max(largest, model->scale->raw().item<double>());
    EXPECT_NEAR(report.loss, report.losses[0].second + report.losses[1].second, 1e-12);
  };
  EXPECT_TRUE(loop.run([&](std::int64_t batch) { return losses_of(model, batch); }, nullptr, hooks));
  EXPECT_LT(losses.back(), 0.3 * losses.front());
  EXPECT_EQ(largest, 5);  // the target wants more than the bound gives
}

TEST(TrainingLoop, AccumulatedHalvesEqualOneWholeBatch) {
  TrainingLoopOptions options = tiny_options();
  options.accumulate = 1;
  options.average.enabled = false;
  TinyModel whole, halves;
  whole->eval(), halves->eval();  // running statistics would see other batches
  TrainingLoop one(*whole, options);
  options.accumulate = 2;
  TrainingLoop two(*halves, options);
  const auto square = [](TinyModel& model, const torch::Tensor& x) {
    return NamedLosses{{"square", torch::square(model->forward(x) - 1).mean()}};
  };
  one.train_step([&](std::int64_t) {
    return square(whole, torch::cat({testing::inputs_of(0), testing::inputs_of(1)}));
  });
  two.train_step([&](std::int64_t batch) { return square(halves, testing::inputs_of(batch)); });
  EXPECT_LT(torch::max(torch::abs(whole->first->weight - halves->first->weight)).item<double>(), 1e-5);
}

TEST(TrainingLoop, GroupsMayHaveSchedulesOfTheirOwn) {
  TrainingLoopOptions options = tiny_options();
  options.group_schedules = {{.group = "scales", .schedule = {.kind = ScheduleKind::kConstant, .warmup_share = 0}}};
  options.schedule = {.kind = ScheduleKind::kConstant, .warmup_share = 1};  // nearly nothing at the first step
  TinyModel model;
  TrainingLoop loop(*model, options);
  loop.train_step([&](std::int64_t batch) { return losses_of(model, batch); });
  EXPECT_NEAR(std::abs(model->scale->raw().item<double>() - 2.5), 0.06, 1e-4);  // lr x 3: Adam's first step
  options.group_schedules[0].group = "scale";
  EXPECT_THROW(TrainingLoop(*model, options), std::invalid_argument);
}

TEST(TrainingLoop, SkipsBrokenStepsAndLeavesNoTrace) {
  TinyModel model;
  TrainingLoop loop(*model, tiny_options());
  const auto sound = [&](std::int64_t batch) { return losses_of(model, batch); };
  loop.train_step(sound);
  const torch::Tensor weight = model->first->weight.detach().clone();
  const torch::Tensor mean = model->norm->running_mean.clone();
  const StepReport report = loop.train_step([&](std::int64_t) {
    const torch::Tensor found = model->forward(torch::full({4, 4}, NAN));
    return NamedLosses{{"sound", torch::ones({})}, {"square", found.mean()}};
  });
  EXPECT_TRUE(report.skipped);
  ASSERT_TRUE(report.finding);
  EXPECT_NE(report.finding->sentence.find("loss/square holds NaN"), std::string::npos) << report.finding->sentence;
  EXPECT_TRUE(torch::equal(weight, model->first->weight));
  EXPECT_TRUE(torch::equal(mean, model->norm->running_mean));
  EXPECT_EQ(loop.guard().skipped(), 1);
  EXPECT_FALSE(loop.train_step(sound).skipped);
  EXPECT_EQ(loop.guard().in_a_row(), 0);
}

TEST(TrainingLoop, NamesTheGradientThatBrokeFirst) {
  TinyModel model;
  TrainingLoop loop(*model, tiny_options());
  const StepReport report = loop.train_step([&](std::int64_t batch) {
    NamedLosses losses = losses_of(model, batch);
    // The value is 0, the slope of the root there infinite, times 0: nan, in norm and everything before it.
    losses.emplace_back("root", torch::sqrt(torch::square(model->norm->bias * 0).sum()));
    return losses;
  });
  EXPECT_TRUE(report.skipped);
  ASSERT_TRUE(report.finding);
  EXPECT_NE(report.finding->sentence.find("gradient of norm.bias holds 8 NaN and 0 infinite among 8 values"),
            std::string::npos)
      << report.finding->sentence;
}

TEST(TrainingLoop, StopsWithADiagnosisAndKeepsTheLastSoundCheckpoint) {
  const TemporaryFolder folder("stops");
  const CheckpointFolder checkpoints(folder.path());
  TinyModel model;
  TrainingLoopOptions options = tiny_options();
  options.guard.stop_after = 4;
  TrainingLoop loop(*model, options);
  const auto breaks_at_nine = [&](std::int64_t batch) {
    return batch < 18 ? losses_of(model, batch) : NamedLosses{{"square", model->scale->value() * INFINITY}};
  };
  try {
    loop.run(breaks_at_nine, &checkpoints);
    FAIL() << "the run must stop";
  } catch (const std::runtime_error& error) {
    const std::string sentence = error.what();
    EXPECT_NE(sentence.find("4 steps in a row"), std::string::npos) << sentence;
    EXPECT_NE(sentence.find("first loss/square holds Infinity at step 10"), std::string::npos) << sentence;
  }
  EXPECT_EQ(read_checkpoint_info(checkpoints.last()).counters.at("step"), 5);  // not 10, amid the broken steps
}

TEST(TrainingLoop, AScoreThatIsNoNumberIsNeverTheBest) {
  const TemporaryFolder folder("best");
  const CheckpointFolder checkpoints(folder.path());
  TinyModel model;
  TrainingLoopOptions options = tiny_options();
  options.steps = 4;
  options.evaluate_every = 1;
  TrainingLoop loop(*model, options);
  TrainingHooks hooks;
  hooks.evaluate = [](std::int64_t step) { return step == 1 || step == 3 ? NAN : static_cast<double>(step); };
  std::vector<bool> kept;
  hooks.after_step = [&](const StepReport&) { kept.push_back(std::filesystem::exists(checkpoints.best())); };
  loop.run([&](std::int64_t batch) { return losses_of(model, batch); }, &checkpoints, hooks);
  EXPECT_EQ(kept, (std::vector<bool>{false, false, true, true}));
  EXPECT_EQ(loop.best_score(), 4);
  EXPECT_EQ(read_checkpoint_info(checkpoints.best()).counters.at("step"), 4);
}

TEST(TrainingLoop, TheAverageFollowsItsFormulaAndGivesTheWeightsBack) {
  TinyModel model;
  ExponentialAverage average(*model, {.enabled = true, .decay = 0.75});
  torch::NoGradGuard no_grad;
  auto expected = model->first->weight[0][0].item<double>();
  for (int n = 1; n <= 40; ++n) {
    model->first->weight.add_(0.01);
    average.update();
    const double decay = std::min(0.75, n / (n + 9.0));
    expected += (1 - decay) * (model->first->weight[0][0].item<double>() - expected);
  }
  EXPECT_NEAR(average.entries()[0].average[0][0].item<double>(), expected, 1e-5);
  const torch::Tensor trained = model->first->weight.clone();
  {
    const ExponentialAverage::Applied applied(average);
    EXPECT_NEAR(model->first->weight[0][0].item<double>(), expected, 1e-5);
  }
  EXPECT_TRUE(torch::equal(trained, model->first->weight));
}

// The mean of bounds is no bound, and raw values of a sigmoid before and after new bounds have no mean.
TEST(TrainingLoop, TheAverageCopiesBoundsAndCarriesSigmoidsOver) {
  torch::NoGradGuard no_grad;
  nn::BoundedScale scale(nn::BoundedScaleOptions{.constraint = nn::Constraint::kSigmoid,
                                                 .bounds_schedule = {{.from_step = 20, .min = 0.1, .max = 20}}});
  ExponentialAverage average(*scale, {.enabled = true, .decay = 0.9});
  for (int step = 0; step < 25; ++step) {
    scale->apply_schedule(0, step);
    average.update();
    const ExponentialAverage::Applied applied(average);
    EXPECT_NEAR(scale->value().item<double>(), 2.5, 1e-5) << step;
    EXPECT_EQ(scale->max(), step < 20 ? 5 : 20) << step;
  }
}

TEST(TrainingLoop, StepsAtTheBoundSurviveAResume) {
  const TemporaryFolder folder("at_bound");
  const CheckpointFolder checkpoints(folder.path());
  TrainingLoopOptions options = tiny_options();
  options.optimizer.learning_rate = 2;  // against the bound at once
  TinyModel model, other;
  TrainingLoop loop(*model, options), resumed(*other, options);
  loop.run([&](std::int64_t batch) { return losses_of(model, batch); }, &checkpoints);
  ASSERT_GT(model->scale->share_at_bound().item<double>(), 0);
  resumed.resume(checkpoints);
  EXPECT_EQ(other->scale->num_steps(), model->scale->num_steps());
  EXPECT_EQ(other->scale->share_at_bound().item<double>(), model->scale->share_at_bound().item<double>());
}

// From the value that was loaded, with the schedule of the scales' own group, and the same after a resume.
TEST(TrainingLoop, ReachesBeginWhereTheScaleBeganWithItsGroupsSchedule) {
  const TemporaryFolder folder("reaches");
  const CheckpointFolder checkpoints(folder.path());
  TrainingLoopOptions options = tiny_options();
  options.optimizer.learning_rate = 1e-3;
  options.schedule = {.kind = ScheduleKind::kConstant, .warmup_share = 0};
  TinyModel model;
  {
    torch::NoGradGuard no_grad;
    model->scale->raw().fill_(4);
  }
  TrainingLoop loop(*model, options);
  const ReachableRange range = loop.reaches().at(0);
  EXPECT_NEAR(range.steady.high, 4 + 40 * 3e-3, 1e-6);
  EXPECT_NEAR(range.steady.low, 4 - 40 * 3e-3, 1e-6);
  EXPECT_EQ(range.start, std::vector<double>{4});
  loop.run([&](std::int64_t batch) { return losses_of(model, batch); }, &checkpoints);
  ASSERT_NE(model->scale->value().item<double>(), 4);
  TinyModel other;
  TrainingLoop resumed(*other, options);
  resumed.resume(checkpoints);
  EXPECT_EQ(resumed.reaches().at(0).steady.high, range.steady.high);
  options.group_schedules = {
      {.group = "scales", .schedule = {.kind = ScheduleKind::kConstant, .warmup_share = 1, .warmup_factor = 0}}};
  TinyModel slow;
  EXPECT_LT(TrainingLoop(*slow, options).reaches().at(0).steady.high, 2.5 + 0.6 * 40 * 3e-3);
}

TEST(TrainingLoop, KeepsTheBestByItsScore) {
  const TemporaryFolder folder("best");
  const CheckpointFolder checkpoints(folder.path());
  TrainingLoopOptions options = tiny_options();
  options.evaluate_every = 10;
  TinyModel model;
  TrainingLoop loop(*model, options);
  TrainingHooks hooks;
  hooks.evaluate = [&](std::int64_t step) {
    EXPECT_FALSE(model->is_training());
    return step == 20 ? 2.0 : 1.0 / static_cast<double>(step);
  };
  loop.run([&](std::int64_t batch) { return losses_of(model, batch); }, &checkpoints, hooks);
  EXPECT_EQ(read_checkpoint_info(checkpoints.best()).counters.at("step"), 20);
  EXPECT_EQ(read_checkpoint_info(checkpoints.last()).numbers.at("best_score"), 2);
}

constexpr const char* kKilledFolder = "CAMBER_KILLED_RUN";

// The run that KilledRun.* starts in a process of its own; nothing by itself.
TEST(KilledProcess, Trains) {
  const char* folder = std::getenv(kKilledFolder);
  if (folder == nullptr) {
    GTEST_SKIP() << "runs in the process that KilledRun starts";
  }
  const CheckpointFolder checkpoints{std::filesystem::path(folder)};
  TrainingLoopOptions options = tiny_options();
  options.steps = 160;
  options.checkpoint_every = 1;
  TinyModel model;
  TrainingLoop loop(*model, options);
  loop.resume(checkpoints);
  loop.run([&model](std::int64_t batch) { return losses_of(model, batch); }, &checkpoints);
}

pid_t start_process(const std::filesystem::path& folder) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv(kKilledFolder, folder.c_str(), 1);
    ::execl("/proc/self/exe", "train_test", "--gtest_filter=KilledProcess.Trains", "--gtest_brief=1", nullptr);
    ::_exit(127);
  }
  return child;
}

std::int64_t step_reached(const CheckpointFolder& checkpoints) {
  return std::filesystem::exists(checkpoints.last()) ? read_checkpoint_info(checkpoints.last()).counters.at("step") : 0;
}

TEST(KilledRun, EndsWithTheBitsOfAnUnbrokenOne) {
  const TemporaryFolder folder("killed");
  const CheckpointFolder unbroken(folder.path() / "unbroken"), killed(folder.path() / "killed");
  random::Stream moments(std::random_device{}(), "moments");
  int kills = 0;
  for (std::int64_t part = 0; part < 3; ++part) {
    const pid_t child = start_process(killed.folder());
    const std::int64_t wanted = 40 * part + 1 + static_cast<std::int64_t>(moments.integer(30));
    while (step_reached(killed) < wanted) {
      ASSERT_EQ(::waitpid(child, nullptr, WNOHANG), 0) << "the process must live until it is killed";
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(moments.integer(5000)));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    kills += WIFSIGNALED(status);
  }
  EXPECT_EQ(kills, 3);
  for (const CheckpointFolder* checkpoints : {&killed, &unbroken}) {
    int status = 0;
    ::waitpid(start_process(checkpoints->folder()), &status, 0);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  EXPECT_EQ(storage::read_file(unbroken.last()), storage::read_file(killed.last()));
}

}  // namespace
}  // namespace camber::train
