#include <memory>
#include <stdexcept>

#include "apps/camber/commands.h"
#include "apps/camber/detector_arguments.h"
#include "apps/console/progress.h"
#include "camber/config/options.h"
#include "camber/detection/weights.h"
#include "camber/runs/agreement_calibration.h"
#include "camber/storage/atomic_file.h"
#include "camber/storage/safetensors.h"
#include "camber/train/run_folder.h"

namespace camber::app {
namespace {

// The policy is the one that the study of alarms supports (docs/study_alarms.md).
struct CalibrateArguments {
  DetectorArguments detector{};
  std::string faults = "frozen:5,stale:5", out{}, policy = "verified_rule";
};

// The file's other metadata stays: it says how the model was trained.
void keep_threshold(const CalibrateArguments& arguments, detection::Detector detector,
                    runs::AgreementCalibration& found) {
  const std::filesystem::path from = arguments.detector.run.empty()
                                         ? std::filesystem::path(arguments.detector.checkpoint)
                                         : train::weights_of_run(arguments.detector.run);
  auto metadata = storage::SafetensorsFile(from).metadata();
  detection::AlarmOptions alarms = detector->options().alarms;
  found.policy_before = config::choice_name(alarms.policy);
  alarms.threshold = found.threshold;
  alarms.policy = runs::trust_policy(arguments.policy, "[calibrate-agreement] --policy").value_or(alarms.policy);
  found.policy = config::choice_name(alarms.policy);
  detector->set_alarms(alarms);
  detection::check_policy(detector->options(), alarms.policy);
  detection::save(*detector, arguments.out, std::move(metadata));
}

int run_calibrate(const CalibrateArguments& arguments, const CommonOptions& common) {
  if (arguments.out.empty())
    throw std::invalid_argument("[calibrate-agreement] --out must name the file of the calibrated model, got nothing");
  sensors::refuse_cue_errors(arguments.faults, "[calibrate-agreement] --faults",
                             "agreement is what the sensors show, and looks at no cue");
  const std::vector<sensors::Fault> faults = sensors::parse_faults(arguments.faults);
  if (faults.empty()) throw std::invalid_argument("[calibrate-agreement] --faults must name at least one, got none");
  runs::trust_policy(arguments.policy, "[calibrate-agreement] --policy");
  storage::check_writable(arguments.out);
  OpenedDetector opened = open_detector(arguments.detector, common, "calibrate-agreement");
  const auto frames = static_cast<std::int64_t>(opened.split.samples.size() * (1 + faults.size()));
  console::Progress progress({.task = "calibrate", .unit = "frames", .total = frames, .quiet = common.quiet});
  runs::AgreementCalibration found =
      runs::calibrate_agreement(opened.detector,
                                {.dataset = *opened.dataset,
                                 .split = opened.split,
                                 .seed = common.seed,
                                 .batch_size = opened.batch_size,
                                 .progress = [&progress](std::int64_t done) { progress.advance(done); }},
                                faults);
  progress.finish();
  keep_threshold(arguments, opened.detector, found);
  print_answer(common.format == Format::kJson ? found.to_json() : found.to_text());
  return kSuccess;
}

}  // namespace

void register_calibrate_agreement(Command& program) {
  auto arguments = std::make_shared<CalibrateArguments>();
  Command& command = program.add(
      {.name = "calibrate-agreement",
       .summary = "find the agreement of sensors from which on an alarm is dropped, and keep it in a model's file",
       .example = "camber calibrate-agreement --run runs/demo --out verified.safetensors"});
  arguments->detector.declare(command);
  command.option("--faults", arguments->faults, "what the clean frames are told from, such as frozen:5,stale:5");
  command.option("--policy", arguments->policy,
                 "what the model does with alarms from now on: none, rule, verified_rule, bias or verified_bias");
  command.option("--out", arguments->out, "the model with its threshold, .safetensors");
  command.run([arguments](const CommonOptions& common) { return run_calibrate(*arguments, common); },
              {Format::kText, Format::kJson});
}

}  // namespace camber::app
