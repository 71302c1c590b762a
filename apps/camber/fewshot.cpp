#include <filesystem>
#include <memory>
#include <stdexcept>

#include "apps/camber/commands.h"
#include "apps/camber/interruption.h"
#include "apps/console/progress.h"
#include "camber/config/options.h"
#include "camber/runs/fewshot_run.h"
#include "camber/train/run_folder.h"

namespace camber::app {
namespace {

struct FewshotArguments {
  runs::FewshotOptions options{};
  std::string out{};
  std::string resume{};
  std::string device = "cpu";
  bool print_groups = false;
};

// What lies below --config and --a.b=value: a resumed run's own configuration.
runs::FewshotOptions defaults_of(const FewshotArguments& arguments) {
  if (arguments.resume.empty()) return {};
  const auto folder = train::RunFolder::open(arguments.resume);
  return config::load_stored<runs::FewshotOptions>(folder.config().string());
}

// Data that lie here are named so that the run finds them from any folder; others are looked for below CAMBER_DATA.
runs::FewshotOptions from_any_folder(runs::FewshotOptions options) {
  for (std::string* path : {&options.source.path, &options.source.test_path, &options.source.runs_path})
    if (!path->empty() && std::filesystem::exists(*path))
      *path = std::filesystem::absolute(*path).lexically_normal().string();
  return options;
}

// A resumed run is the run it was.
void check_resumed(const FewshotArguments& arguments, const CommonOptions& common) {
  const auto own = from_any_folder(defaults_of(arguments));
  const auto changed = config::differences(own, arguments.options);
  if (!changed.empty())
    throw std::invalid_argument("[fewshot] a resumed run keeps its configuration: " + changed[0].path + " must stay " +
                                changed[0].first + ", got " + changed[0].second);
  if (common.seed_given && static_cast<std::int64_t>(common.seed) != own.seed)
    throw std::invalid_argument("[fewshot] a resumed run keeps its seed: --seed must be " + std::to_string(own.seed));
}

int run(FewshotArguments& arguments, const CommonOptions& common) {
  if (arguments.print_groups) {
    print_answer(runs::parameter_groups(arguments.options));
    return kSuccess;
  }
  if (!arguments.out.empty() && !arguments.resume.empty())
    throw std::invalid_argument("[fewshot] --out must not be given with --resume, which names the folder");
  const bool resume = !arguments.resume.empty();
  auto& options = arguments.options;
  options = from_any_folder(options);
  if (resume) check_resumed(arguments, common);
  if (common.seed_given) options.seed = static_cast<std::int64_t>(common.seed);
  std::unique_ptr<console::Progress> line;
  std::int64_t seen = 0;
  runs::FewshotRun plan{.threads = common.threads,
                        .out = resume ? arguments.resume : arguments.out,
                        .resume = resume,
                        .device = arguments.device,
                        .config = config::to_toml(options)};
  plan.progress = [&](std::int64_t done, std::int64_t total, const std::string& note) {
    if (!line) {
      line = std::make_unique<console::Progress>(console::ProgressOptions{
          .task = "fewshot", .unit = "steps", .total = total, .start = done - 1, .quiet = common.quiet});
      seen = done - 1;
    }
    line->note(note);
    line->advance(done - seen);
    seen = done;
  };
  plan.say = [&](const std::string& sentence) {
    if (common.quiet) return;
    if (line)
      line->log(sentence);
    else
      console::Progress({.task = "fewshot"}).log(sentence);
  };
  stop_on_signals();
  plan.stop_requested = [] { return interrupted != 0; };
  const auto result = runs::run_fewshot(options, plan);
  line.reset();
  print_answer(common.format == Format::kJson ? to_json(result) : to_text(result));
  if (result.complete) return kSuccess;
  return stopped(plan.out.empty() ? "nothing was kept, for there was no --out"
                                  : "continue with: camber fewshot --resume " + plan.out.string());
}

}  // namespace

void register_fewshot(Command& program) {
  auto arguments = std::make_shared<FewshotArguments>();
  Command& command = program.add({.name = "fewshot",
                                  .summary = "train and test a model on episodes",
                                  .example = "camber fewshot --training.episodes=20 --tests.0.episodes=50"});
  command.option("--out", arguments->out, "folder to write the run to: metrics, checkpoints, result");
  command.option("--resume", arguments->resume, "folder of a run to continue");
  command.option("--device", arguments->device,
                 "where it trains and tests: cpu, cuda or cuda:N; a run may be continued on another");
  command.option("--print-groups", arguments->print_groups, "print the optimiser's groups, and do nothing else");
  command.configuration<runs::FewshotOptions>(
      arguments->options, [arguments] { return defaults_of(*arguments); });
  command.run([arguments](const CommonOptions& common) { return run(*arguments, common); });
}

}  // namespace camber::app
