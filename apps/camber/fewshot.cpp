#include <filesystem>
#include <memory>
#include <stdexcept>

#include "apps/camber/commands.h"
#include "apps/camber/interruption.h"
#include "camber/config/options.h"
#include "camber/console/progress.h"
#include "camber/episodes/run.h"
#include "camber/storage/file.h"

namespace camber::app {
namespace {

struct FewshotArguments {
  episodes::FewshotOptions options{};
  std::string out{};
  std::string resume{};
  bool print_groups = false;
};

// A resumed run is the run it was: its own configuration, whatever the command line says.
episodes::FewshotOptions resumed_options(const std::string& folder) {
  return config::load<episodes::FewshotOptions>(
      {.file = (std::filesystem::path(folder) / "config.toml").string(), .arguments = {}});
}

int run(FewshotArguments& arguments, const CommonOptions& common) {
  if (arguments.print_groups) {
    print_answer(episodes::parameter_groups(arguments.options));
    return kSuccess;
  }
  if (!arguments.out.empty() && !arguments.resume.empty())
    throw std::invalid_argument("[fewshot] --out must not be given with --resume, which names the folder");
  const bool resume = !arguments.resume.empty();
  auto options = resume ? resumed_options(arguments.resume) : arguments.options;
  if (common.seed_given && !resume) options.seed = static_cast<std::int64_t>(common.seed);
  std::unique_ptr<console::Progress> line;
  std::int64_t seen = 0;
  episodes::FewshotRun plan{.threads = common.threads,
                            .out = resume ? arguments.resume : arguments.out,
                            .resume = resume,
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
  plan.stop_requested = [] { return interrupted.load(); };
  const auto result = episodes::run_fewshot(options, plan);
  line.reset();
  print_answer(common.format == Format::kJson ? to_json(result) : to_text(result));
  return result.complete ? kSuccess : kFailure;
}

}  // namespace

void register_fewshot(Command& program) {
  auto arguments = std::make_shared<FewshotArguments>();
  Command& command = program.add({.name = "fewshot",
                                  .summary = "train and test a model on episodes",
                                  .example = "camber fewshot --training.episodes=20 --tests.0.episodes=50"});
  command.option("--out", arguments->out, "folder to write the run to: metrics, checkpoints, result");
  command.option("--resume", arguments->resume, "folder of a run to continue");
  command.option("--print-groups", arguments->print_groups, "print the optimiser's groups, and do nothing else");
  command.configuration(arguments->options);
  command.run([arguments](const CommonOptions& common) { return run(*arguments, common); });
}

}  // namespace camber::app
