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
  AlarmArguments alarms{};
  std::string faults = "none", trust = "model", config{}, out{};
};

int run_eval(const EvalArguments& arguments, const CommonOptions& common) {
  const std::vector<sensors::Fault> faults = sensors::parse_faults(arguments.faults);
  const detection::TrustControl trust = runs::trust_control(arguments.trust, "[eval] --trust");
  arguments.alarms.check("eval");
  const auto group = processes("eval");
  if (!arguments.out.empty() && group->is_first()) storage::check_writable(arguments.out);
  OpenedDetector opened = open_detector(arguments.detector, common, "eval");
  if (!arguments.config.empty()) opened.config = arguments.config;
  const auto config = opened.config.empty() ? eval::EvaluationConfig{} : eval::EvaluationConfig::read(opened.config);
  const auto frames = static_cast<std::int64_t>(opened.split.samples.size() * (1 + faults.size()));
  console::Progress progress(
      {.task = "eval", .unit = "frames", .total = frames, .quiet = common.quiet || !group->is_first()});
  runs::DetectionRequest request{.dataset = *opened.dataset,
                                 .split = opened.split,
                                 .seed = common.seed,
                                 .batch_size = opened.batch_size,
                                 .progress = [&progress](std::int64_t done) { progress.advance(done); },
                                 .group = group};
  arguments.alarms.put(request, "eval");
  const runs::FaultReport report = runs::evaluate_detector(opened.detector, request, faults, config, trust);
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
  arguments->alarms.declare(command);
  command.option("--out", arguments->out, "also write the metrics there, as JSON");
  command.run([arguments](const CommonOptions& common) { return run_eval(*arguments, common); },
              {Format::kText, Format::kJson, Format::kCsv});
}

}  // namespace camber::app
