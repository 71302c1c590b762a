#include <cstdio>
#include <memory>

#include <nlohmann/json.hpp>

#include "apps/camber/commands.h"
#include "apps/console/progress.h"
#include "camber/runs/fewshot_study.h"
#include "camber/storage/atomic_file.h"
#include "camber/storage/file.h"
#include "camber/study/fewshot_tables.h"

// `camber study fewshot`: the few-shot study.
namespace camber::app {
namespace {

struct FewshotStudyArguments {
  std::string out{}, start{}, one{};
  std::vector<std::string> only{};
  bool resume = false;
  study::FewshotPlan plan{};
};

struct FewshotTablesArguments {
  std::string from{}, into{};
};

// What lies below --config: the study's own plan when it goes on.
study::FewshotPlan plan_below(const FewshotStudyArguments& arguments) {
  const bool begun = !arguments.out.empty() && (arguments.resume || !arguments.one.empty());
  return begun ? runs::options_of_study<study::FewshotPlan>({arguments.out}) : study::FewshotPlan{};
}

int run_fewshot_study(const FewshotStudyArguments& arguments, const CommonOptions& common) {
  if (!arguments.one.empty()) {
    runs::run_named_fewshot(arguments.plan, {arguments.out}, arguments.one);
    return kSuccess;
  }
  std::unique_ptr<console::Progress> progress;
  const auto say = [&](const std::string& line) {
    if (common.quiet) return;
    if (progress)
      progress->log(line);
    else
      std::fprintf(stderr, "%s\n", line.c_str());
  };
  const auto show = [&](std::int64_t done, std::int64_t total) {
    if (!progress)
      progress = std::make_unique<console::Progress>(console::ProgressOptions{
          .task = "study", .unit = "runs", .total = total, .start = done - 1, .quiet = common.quiet});
    progress->advance(1);
  };
  const runs::FewshotStudyResult result = runs::run_fewshot_study({.plan = arguments.plan,
                                                                   .out = arguments.out,
                                                                   .start = arguments.start,
                                                                   .only = arguments.only,
                                                                   .say = say,
                                                                   .progress = show});
  progress.reset();
  if (common.format == Format::kJson)
    print_answer(nlohmann::ordered_json(
                     {{"runs", result.runs}, {"done_before", result.done_before}, {"failed", result.failed.size()}})
                     .dump(2) +
                 "\n");
  else
    print_answer(study::fewshot_tables(study::read_fewshot_study(arguments.out)));
  runs::throw_if_failed({arguments.out}, result.failed, result.runs);
  return kSuccess;
}

int list_fewshot_study(const FewshotStudyArguments& arguments, const CommonOptions& common) {
  const auto runs = runs::list_fewshot_study({.plan = arguments.plan,
                                              .out = std::filesystem::absolute(arguments.out).lexically_normal(),
                                              .start = arguments.start,
                                              .only = arguments.only});
  print_answer(common.format == Format::kJson ? to_json(runs) : to_text(runs));
  return kSuccess;
}

// What run and list have in common.
void take_fewshot_study(Command& command, const std::shared_ptr<FewshotStudyArguments>& arguments) {
  command.option("--out", arguments->out, "folder of the study", Presence::kRequired);
  command.option("--resume", arguments->resume, "go on with the configuration of the study's own folder");
  command.option("--start", arguments->start, "published study whose records are taken over");
  command.option("--only", arguments->only, "these parts or arms alone");
  command.configuration<study::FewshotPlan>(arguments->plan, [arguments] { return plan_below(*arguments); });
}

int write_fewshot_tables(const FewshotTablesArguments& arguments) {
  const study::FewshotResults results = study::read_fewshot_study(arguments.from);
  if (arguments.into.empty()) {
    print_answer(study::fewshot_tables(results));
    return kSuccess;
  }
  storage::write_file(arguments.into, study::with_fewshot_tables(storage::read_file(arguments.into), results));
  print_answer("wrote the tables into " + arguments.into + "\n");
  return kSuccess;
}

}  // namespace

void register_study_fewshot(Command& study) {
  Command& fewshot = study.add({.name = "fewshot",
                                .summary = "the few-shot study: arms with seeds, from one file",
                                .example = "camber study fewshot tables --from study/fewshot"});
  auto arguments = std::make_shared<FewshotStudyArguments>();
  Command& runs =
      fewshot.add({.name = "run",
                   .summary = "train and test every run of the plan; continues where it stopped",
                   .example = "camber study fewshot run --config configs/fewshot_study.toml --out runs/fewshot_study"});
  runs.option("run", arguments->one,
              "one run alone of a study that was begun, by its name in camber study fewshot list; none: all of them");
  take_fewshot_study(runs, arguments);
  runs.run([arguments](const CommonOptions& common) { return run_fewshot_study(*arguments, common); });

  auto listed = std::make_shared<FewshotStudyArguments>();
  Command& lists = fewshot.add(
      {.name = "list",
       .summary = "begin a study and print each of its runs as one command",
       .example = "camber study fewshot list --config configs/fewshot_study.toml --out runs/fewshot_study"});
  take_fewshot_study(lists, listed);
  lists.run([listed](const CommonOptions& common) { return list_fewshot_study(*listed, common); });

  auto tables = std::make_shared<FewshotTablesArguments>();
  Command& writes = fewshot.add({.name = "tables",
                                 .summary = "make every table again from the records alone",
                                 .example = "camber study fewshot tables --from study/fewshot"});
  writes.option("--from", tables->from, "folder of a study, or of its records", Presence::kRequired);
  writes.option("--into", tables->into, "Markdown file with <!-- table: PART --> ... to put them in");
  writes.run([tables](const CommonOptions&) { return write_fewshot_tables(*tables); }, {Format::kText});
}

}  // namespace camber::app
