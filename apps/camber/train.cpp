#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include <ATen/Parallel.h>

#include "apps/camber/commands.h"
#include "apps/camber/interruption.h"
#include "apps/camber/processes.h"
#include "apps/console/progress.h"
#include "camber/runs/detector_run.h"

namespace camber::app {
namespace {

struct TrainArguments {
  std::string out{}, resume{}, from{}, preset{}, device = "cpu";
  bool go_on = false;
  std::vector<std::string> exclude{};
  runs::DetectorTrainingOptions options{};
};

// What lies below --config and --a.b=value: the run's own configuration, or that of the checkpoint it starts from.
runs::DetectorTrainingOptions defaults_of(const TrainArguments& arguments) {
  if (!arguments.resume.empty()) return runs::options_of_run(arguments.resume);
  runs::DetectorTrainingOptions options;
  if (!arguments.from.empty()) options = runs::options_of_checkpoint(arguments.from);
  if (!arguments.preset.empty()) options.detector.bias.scale = nn::scale_preset(arguments.preset);
  return options;
}

// A run that goes on keeps its configuration.
void check_unchanged(const TrainArguments& arguments, const std::string& folder, const CommonOptions& common) {
  const auto own = runs::options_of_run(folder).from_any_folder();
  const auto changed = config::differences(own, arguments.options);
  if (!changed.empty())
    throw std::invalid_argument("[train] a resumed run keeps its configuration: " + changed[0].path + " must stay " +
                                changed[0].first + ", got " + changed[0].second);
  if (common.seed_given && common.seed != own.seed)
    throw std::invalid_argument("[train] a resumed run keeps its seed: --seed must be " + std::to_string(own.seed));
}

void check(const TrainArguments& arguments, const CommonOptions& common) {
  if (arguments.out.empty() == arguments.resume.empty())
    throw std::invalid_argument("[train] one of --out RUN (a new run) and --resume RUN must be given");
  if (arguments.go_on && arguments.out.empty())
    throw std::invalid_argument("[train] --continue must come with --out RUN");
  if (arguments.from.empty() && !arguments.exclude.empty())
    throw std::invalid_argument("[train] --exclude must come with --from, got '" + arguments.exclude[0] + "' alone");
  if (arguments.resume.empty()) return;
  if (!arguments.from.empty()) throw std::invalid_argument("[train] --from must not be given with --resume");
  if (!arguments.preset.empty()) throw std::invalid_argument("[train] --preset must not be given with --resume");
  check_unchanged(arguments, arguments.resume, common);
}

// How far the run in the folder is, by what rank 0 sees before it touches anything.
enum class Progress { kNone, kBegun, kFinished };

Progress progress_of(const std::string& folder, distributed::ProcessGroup& group) {
  const std::filesystem::path path(folder);
  const char* seen = !std::filesystem::exists(path / "config.toml")   ? "none"
                     : !std::filesystem::exists(path / "result.json") ? "begun"
                                                                      : "finished";
  const std::string all = group.from_first(seen);
  return all == "none" ? Progress::kNone : all == "begun" ? Progress::kBegun : Progress::kFinished;
}

std::string written(const runs::DetectorRunResult& result, const std::string& folder, Format format) {
  const std::int64_t done = result.steps - result.first_step;
  const double per_step = done > 0 ? 1e3 * result.seconds / static_cast<double>(done) : 0;
  if (format == Format::kJson) {
    nlohmann::ordered_json json = {
        {"run", folder},         {"finished", result.finished}, {"first_step", result.first_step},
        {"steps", result.steps}, {"seconds", result.seconds},   {"milliseconds_a_step", per_step}};
    for (const auto& [name, value] : result.scales) json["scales"][name] = value;
    if (result.evaluation) {
      json["validation"] = {{"mean_ap", result.evaluation->clean().mean_ap},
                            {"nd_score", result.evaluation->clean().nd_score}};
    }
    return json.dump(2) + "\n";
  }
  char line[160];
  std::snprintf(line, sizeof line, "%s at step %lld after %s (%.1f ms a step)\n",
                result.finished ? "finished" : "stopped", static_cast<long long>(result.steps),
                console::readable_duration(result.seconds).c_str(), per_step);
  std::string text = line;
  for (const auto& [name, value] : result.scales) {
    std::snprintf(line, sizeof line, "scale %s ended at %.3f\n", name.c_str(), value);
    text += line;
  }
  if (result.evaluation) text += "\nvalidation\n" + result.evaluation->to_text();
  return text + "\nrun: " + folder + "\n";
}

int run_train(TrainArguments& arguments, CommonOptions common) {
  arguments.options = arguments.options.from_any_folder();
  check(arguments, common);
  if (common.seed_given) arguments.options.seed = common.seed;
  const auto group = processes("train");
  common.quiet = common.quiet || !group->is_first();
  bool resume = !arguments.resume.empty();
  if (arguments.go_on || (is_restarted() && !resume)) {
    const Progress found = progress_of(arguments.out, *group);
    if (found != Progress::kNone) check_unchanged(arguments, arguments.out, common);
    if (found == Progress::kFinished) {
      if (group->is_first()) print_answer("the run in " + arguments.out + " is finished already\n");
      return kSuccess;
    }
    resume = found == Progress::kBegun;
  }
  if (common.threads > 0) at::set_num_threads(static_cast<int>(common.threads));
  stop_on_signals();
  const std::string& folder = arguments.resume.empty() ? arguments.out : arguments.resume;
  std::unique_ptr<console::Progress> progress;
  runs::DetectorRunRequest request{.options = arguments.options,
                                   .out = folder,
                                   .resume = resume,
                                   .from = arguments.from,
                                   .exclude = arguments.exclude,
                                   .device = arguments.device,
                                   .group = group};
  request.after_step = [&](const train::StepReport& report, const std::string& note) {
    if (!progress)
      progress = std::make_unique<console::Progress>(console::ProgressOptions{.task = "train",
                                                                              .unit = "steps",
                                                                              .total = arguments.options.loop.steps,
                                                                              .start = report.step - 1,
                                                                              .quiet = common.quiet});
    progress->note(note);
    progress->advance();
  };
  request.say = [&](const std::string& line) {
    if (common.quiet) return;
    if (progress)
      progress->log(line);
    else
      std::fprintf(stderr, "%s\n", line.c_str());
  };
  for (const std::string& sentence : runs::unused_options(arguments.options, {})) request.say(sentence);
  request.stop_requested = [] { return interrupted != 0; };
  const runs::DetectorRunResult result = runs::train_detector(request);
  progress.reset();
  if (group->is_first()) print_answer(written(result, folder, common.format));
  return result.finished ? kSuccess : stopped("continue with: camber train --resume " + folder);
}

}  // namespace

void register_train(Command& program) {
  auto arguments = std::make_shared<TrainArguments>();
  Command& command = program.add({.name = "train",
                                  .summary = "train the detector into a run folder, or continue one",
                                  .example = "camber train --config configs/demo.toml --out runs/demo"});
  command.option("--out", arguments->out, "folder of a new run");
  command.option("--resume", arguments->resume, "folder of a run to continue");
  command.option("--continue", arguments->go_on, "with --out: go on where the run in it stopped, if there is one");
  command.option("--device", arguments->device,
                 "where it trains: cpu, cuda or cuda:N; a run may be continued on another");
  command.option(
      "--from", arguments->from,
      "checkpoint whose weights are taken where they fit; bounds, constraints and clips are the configuration's");
  command.option(
      "--preset", arguments->preset,
      "of the scale: conservative, aggressive, ultra_conservative, fixed, strong_fixed or logit; below --config");
  command.option("--exclude", arguments->exclude, "with --from: parts of names that are not taken");
  command.configuration<runs::DetectorTrainingOptions>(
      arguments->options, [arguments] { return defaults_of(*arguments); });
  command.run([arguments](const CommonOptions& common) { return run_train(*arguments, common); });
}

}  // namespace camber::app
