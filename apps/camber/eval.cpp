#include <memory>

#include "apps/camber/commands.h"
#include "apps/camber/detector_arguments.h"
#include "apps/camber/processes.h"
#include "apps/console/progress.h"
#include "camber/runs/detector_evaluation.h"
#include "camber/sensors/fault.h"
#include "camber/storage/atomic_file.h"

namespace camber::app {
namespace {

struct EvalArguments {
  DetectorArguments detector{};
  std::string faults = "none", trust = "model", policy{}, cue_errors = "none", config{}, out{};
};

int run_eval(const EvalArguments& arguments, const CommonOptions& common) {
  const std::vector<sensors::Fault> faults = sensors::parse_faults(arguments.faults);
  const detection::TrustControl trust = runs::trust_control(arguments.trust, "[eval] --trust");
  const auto policy = runs::trust_policy(arguments.policy, "[eval] --policy");
  const sensors::CueErrorOptions cue_errors = sensors::parse_cue_errors(arguments.cue_errors);
  const auto group = processes("eval");
  if (!arguments.out.empty() && group->is_first()) storage::check_writable(arguments.out);
  OpenedDetector opened = open_detector(arguments.detector, common, "eval");
  if (!arguments.config.empty()) opened.config = arguments.config;
  const auto config = opened.config.empty() ? eval::EvaluationConfig{} : eval::EvaluationConfig::read(opened.config);
  const auto frames = static_cast<std::int64_t>(opened.split.samples.size() * (1 + faults.size()));
  console::Progress progress(
      {.task = "eval", .unit = "frames", .total = frames, .quiet = common.quiet || !group->is_first()});
  const runs::FaultReport report =
      runs::evaluate_detector(opened.detector,
                              {.dataset = *opened.dataset,
                               .split = opened.split,
                               .seed = common.seed,
                               .batch_size = opened.batch_size,
                               .policy = policy,
                               .cue_errors = cue_errors,
                               .progress = [&progress](std::int64_t done) { progress.advance(done); },
                               .group = group},
                              faults, config, trust);
  progress.finish();
  if (!group->is_first()) return kSuccess;
  if (!arguments.out.empty()) storage::write_file(arguments.out, report.to_json());
  print_answer(common.format == Format::kJson  ? report.to_json()
               : common.format == Format::kCsv ? report.to_csv()
                                               : report.to_text());
  return kSuccess;
}

}  // namespace

void register_eval(Command& program) {
  auto arguments = std::make_shared<EvalArguments>();
  Command& command = program.add({.name = "eval",
                                  .summary = "evaluate a trained detector, clean and under sensor faults",
                                  .example = "camber eval --run runs/demo --split test --faults lidar_off,frozen:4"});
  arguments->detector.declare(command);
  command.option("--config", arguments->config,
                 "evaluation configuration in the devkit's JSON format; the run's own by default");
  command.option("--faults", arguments->faults, "none, all, or a list such as lidar_off,frozen:4:other_scene");
  command.option("--trust", arguments->trust, "control: the model's, zero, mean, shuffled or oracle");
  command.option(
      "--policy", arguments->policy,
      "what is done with the cues' alarms: none, rule, verified_rule, bias or verified_bias; the model's own by "
      "default");
  command.option("--cue-errors", arguments->cue_errors,
                 "none, or how the cues err: false_alarms:0.1,misses:0.1,wrong_culprit:0.1,burst:4");
  command.option("--out", arguments->out, "also write the metrics there, as JSON");
  command.run([arguments](const CommonOptions& common) { return run_eval(*arguments, common); },
              {Format::kText, Format::kJson, Format::kCsv});
}

}  // namespace camber::app
