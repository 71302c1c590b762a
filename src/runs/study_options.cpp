#include <algorithm>
#include <sstream>
#include <stdexcept>

#include <camber/config/options.h>
#include <camber/runs/study_options.h>
#include <camber/train/reachable_range.h>
#include <camber/train/run_folder.h>
#include <camber/train/schedule.h>

namespace camber::runs {
namespace {

// Branches meet other batches than the base did with the same seed.
constexpr std::uint64_t kBranchSeeds = 1000;
constexpr double kMultiples[] = {1, 2, 5, 10};
const std::filesystem::path kEvaluations = "configs/evaluation";

struct LearnableScale {
  const char* name;
  nn::BoundedScaleOptions options;
};

std::vector<LearnableScale> learnable_scales(const detection::DetectorOptions& detector) {
  std::vector<LearnableScale> scales;
  if (!detector.has_router()) return scales;
  const bool on_windows = detector.bias.windows && detector.bias.window_trust;
  if (on_windows && detector.bias.scale.learnable) scales.push_back({"scale", detector.bias.scale});
  if (detector.bias.segments && detector.bias.segment_scale.learnable)
    scales.push_back({"segment_scale", detector.bias.segment_scale});
  if (detector.bias.locality && detector.bias.locality_scale.learnable)
    scales.push_back({"locality_scale", detector.bias.locality_scale});
  return scales;
}

train::ScheduleOptions schedule_of_scales(const train::TrainingLoopOptions& loop) {
  for (const train::GroupScheduleOptions& own : loop.group_schedules)
    if (own.group == "scales") return own.schedule;
  return loop.schedule;
}

train::ReachableRange reach_of(const train::TrainingLoopOptions& loop, const LearnableScale& scale, double multiple) {
  const train::Schedule schedule(schedule_of_scales(loop), loop.steps);
  return train::reachable_range(
      loop.optimizer, [&](std::int64_t step) { return loop.optimizer.learning_rate * schedule.rate_factor(step); },
      loop.steps, scale.options, multiple);
}

double smallest_multiple(const study::StudyArm& arm, const train::TrainingLoopOptions& loop,
                         const std::vector<LearnableScale>& scales) {
  for (const double multiple : kMultiples)
    if (std::all_of(scales.begin(), scales.end(),
                    [&](const LearnableScale& scale) { return reach_of(loop, scale, multiple).covers_bounds(); }))
      return multiple;
  for (const LearnableScale& scale : scales) {
    const train::ReachableRange reach = reach_of(loop, scale, kMultiples[3]);
    if (!reach.covers_bounds())
      throw std::invalid_argument("[study] arm '" + arm.name +
                                  "' must have scales that reach their bounds with a learning rate times 1, 2, 5 or " +
                                  "10 (or be exempt): at 10, " + train::reach_sentence(reach, scale.name));
  }
  throw std::logic_error("[study] a scale that does not reach its bounds must be found");
}

DetectorTrainingOptions common_options(const StudyOptions& options, std::uint64_t seed, std::int64_t steps) {
  DetectorTrainingOptions common = options.training;
  common.seed = seed;
  common.data.root = options.plan.world.root;
  common.loop.steps = steps;
  return common;
}

}  // namespace

bool is_planned(const study::StudyPlan& plan, const std::string& arm) {
  return arm == kBase || arm == kDoubled ||
         std::any_of(
             plan.arms.begin(), plan.arms.end(), [&arm](const study::StudyArm& known) { return known.name == arm; });
}

RunTraining training_of(const StudyOptions& options, const StudyRun& run) {
  const study::StudyPlan& plan = options.plan;
  const auto seed = static_cast<std::uint64_t>(run.seed);
  if (run.arm == kBase || run.arm == kDoubled) {
    RunTraining base{.options = common_options(options, seed, (run.arm == kBase ? 1 : 2) * plan.base_steps)};
    base.options.detector.router.mode = nn::RouterMode::kOff;
    base.given = plan.published_bases && run.arm == kBase;
    return base;
  }
  const study::StudyArm& arm = plan.arm(run.arm);
  if (!arm.shares.empty()) {
    RunTraining shared = training_of(options, {arm.shares, run.seed});
    shared.absent_above_age = arm.absent_above_age;
    shared.policy = arm.policy;
    return shared;
  }
  const std::int64_t steps = plan.branch_steps + (arm.from_scratch ? plan.base_steps : 0);
  RunTraining training{.branches = !arm.from_scratch, .absent_above_age = arm.absent_above_age, .policy = arm.policy};
  training.options = config::load<DetectorTrainingOptions>(
      {.arguments = arm.options}, common_options(options, arm.from_scratch ? seed : kBranchSeeds + seed, steps));
  const std::vector<LearnableScale> scales = learnable_scales(training.options.detector);
  if (scales.empty()) return training;
  double& multiple = training.options.loop.groups.scale_lr_mult;
  if (!arm.exempt) multiple = smallest_multiple(arm, training.options.loop, scales);
  training.scale_lr_mult = multiple;
  return training;
}

std::string data_fingerprint(const StudyOptions& options) {
  const auto of = [&](const std::string& root) {
    return train::fingerprint_of_tables(std::filesystem::path(root) / options.training.data.version);
  };
  const study::StudyPlan& plan = options.plan;
  return plan.test_world.root.empty() ? of(plan.world.root) : of(plan.world.root) + "+" + of(plan.test_world.root);
}

std::string hash_of(const StudyOptions& options, const StudyRun& run, const std::string& data_fingerprint) {
  const auto text_of = [&options](const StudyRun& of) {
    DetectorTrainingOptions training = training_of(options, of).options;
    training.data.root.clear();
    // The file's name alone, wherever the configurations lie: written as the published records have it.
    std::filesystem::path& metric_config = training.evaluation.config;
    if (!metric_config.empty()) metric_config = kEvaluations / metric_config.filename();
    return changed_lines(config::differences(DetectorTrainingOptions{}, training));
  };
  study::StudyPlan evaluated = options.plan;
  evaluated.world.root.clear();
  std::ostringstream text;
  text << text_of(run);
  const RunTraining training = training_of(options, run);
  if (training.branches) text << text_of({kBase, run.seed});
  // Only where there is a rule: the sums of runs without one stay what they were.
  if (training.absent_above_age > 0) text << "absent above age " << training.absent_above_age << '\n';
  // Likewise.
  if (!training.policy.empty()) text << "policy " << training.policy << '\n';
  if (evaluated.calibration.enabled)
    text << changed_lines(config::differences(study::StudyCalibration{}, evaluated.calibration));
  if (evaluated.wrong_culprits) text << "wrong culprits\n";
  for (const study::StudyStream& stream : evaluated.streams)
    text << "stream " << stream.name << '\n' << changed_lines(config::differences(study::StudyStream{}, stream));
  text << evaluated.split << '\n'
       << evaluated.frames << '\n'
       << evaluated.replicates << '\n'
       << data_fingerprint << '\n';
  for (const auto* names :
       {&evaluated.conditions, &evaluated.controls, &evaluated.control_conditions, &evaluated.swapped_cues}) {
    for (const std::string& name : *names) text << name << ',';
    text << '\n';
  }
  return sum_of_text(text.str());
}

namespace {

bool chosen(const RunChoice& choice, const std::string& arm) {
  return choice.only.empty() || std::find(choice.only.begin(), choice.only.end(), arm) != choice.only.end();
}

std::int64_t limited(const RunChoice& choice, std::int64_t seeds) {
  return choice.seeds > 0 ? std::min(choice.seeds, seeds) : seeds;
}

}  // namespace

std::vector<StudyRun> base_runs(const study::StudyPlan& plan, const RunChoice& choice) {
  std::int64_t bases = 0;
  for (const StudyRun& run : arm_runs(plan, choice))
    if (!plan.arm(run.arm).from_scratch) bases = std::max(bases, run.seed + 1);
  if (choice.only.empty()) bases = std::max(bases, limited(choice, plan.gates.doubled_seeds));
  std::vector<StudyRun> runs;
  if (chosen(choice, kDoubled))  // the longest first, or one would run alone at the end with the arms waiting for it
    for (std::int64_t seed = 0; seed < limited(choice, plan.gates.doubled_seeds); ++seed)
      runs.push_back({kDoubled, seed});
  for (std::int64_t seed = 0; seed < bases; ++seed) runs.push_back({kBase, seed});
  return runs;
}

std::vector<StudyRun> arm_runs(const study::StudyPlan& plan, const RunChoice& choice) {
  std::vector<StudyRun> runs;
  const auto wanted = [&](const study::StudyArm& arm) {
    const auto sharing = plan.sharing(arm.name);
    return arm.shares.empty() &&
           (chosen(choice, arm.name) || std::any_of(sharing.begin(), sharing.end(), [&](const study::StudyArm* other) {
              return chosen(choice, other->name);
            }));
  };
  for (const bool main : {true, false})
    for (std::int64_t seed = 0; seed < limited(choice, std::max(plan.seeds, plan.few_seeds)); ++seed)
      for (const study::StudyArm& arm : plan.arms)
        if ((arm.role == study::ArmRole::kMain) == main && seed < limited(choice, plan.seeds_of(arm)) && wanted(arm))
          runs.push_back({arm.name, seed});
  return runs;
}

}  // namespace camber::runs
