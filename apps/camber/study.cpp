#include "camber/runs/study.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include <ATen/Parallel.h>

#include "apps/camber/commands.h"
#include "apps/console/progress.h"
#include "camber/report/study_report.h"
#include "camber/runs/study_published.h"
#include "camber/storage/atomic_file.h"
#include "camber/storage/file.h"
#include "camber/study/analysis.h"
#include "camber/study/findings.h"
#include "camber/study/tables.h"
#include "camber/threads/tasks.h"

namespace camber::app {
namespace {

namespace fs = std::filesystem;

// Of run and estimate.
struct StudyArguments {
  std::string out{}, start{}, one{};
  std::vector<std::string> only{};
  std::int64_t seeds = 0;
  bool resume = false, estimate = false;
  runs::StudyOptions options{};
};

struct TablesArguments {
  std::string from{}, into{}, images{};
};

struct PublishArguments {
  std::string from{}, to{};
};

// What lies below --config: the study's own configuration when it goes on.
runs::StudyOptions defaults_of(const StudyArguments& arguments) {
  runs::StudyOptions options;
  const bool begun = !arguments.out.empty() && (arguments.resume || !arguments.one.empty());
  if (begun) options = runs::options_of_study<runs::StudyOptions>({arguments.out});
  return options;
}

int run_one(const StudyArguments& arguments, const CommonOptions& common) {
  at::set_num_threads(1);  // records do not depend on it; many runs at a time are what a machine is filled with
  if (arguments.one == "probe_s0") {
    runs::probe_costs(arguments.options, {arguments.out});
    return kSuccess;
  }
  const auto tell = [](const char* phase) {
    return [phase, last = -1.0](double share) mutable {
      if (share < last + 0.01 && share < 1) return;
      last = share;
      std::printf("%s %.3f\n", phase, share);
      std::fflush(stdout);
    };
  };
  const auto say = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  runs::run_named({.options = arguments.options,
                   .out = arguments.out,
                   .choice = {.only = arguments.only, .seeds = arguments.seeds},
                   .simulation_threads = threads::resolve_threads(static_cast<int>(common.threads)),
                   .say = say},
                  arguments.one, {.trained = tell("trained"), .evaluated = tell("evaluated"), .say = say});
  return kSuccess;
}

int write_tables(const TablesArguments& arguments) {
  const study::StudyResults results = study::read_study(arguments.from);
  const std::string tables = study::findings_in_markdown(results) + to_markdown(all_tables(results));
  if (!arguments.images.empty()) {
    fs::create_directories(arguments.images);
    for (const report::StudyImage& image : report::study_images(results))
      storage::write_file(fs::path(arguments.images) / (image.name + ".svg"), image.svg);
  }
  if (arguments.into.empty()) {
    print_answer(tables);
    return kSuccess;
  }
  storage::write_file(arguments.into, study::with_tables(storage::read_file(arguments.into), tables));
  print_answer("wrote the tables into " + arguments.into + "\n");
  return kSuccess;
}

std::string written(const runs::StudyResult& result, const StudyArguments& arguments, Format format) {
  if (format == Format::kJson)
    return nlohmann::ordered_json({{"runs", result.runs},
                                   {"done_before", result.done_before},
                                   {"failed", result.failed.size()},
                                   {"estimated_hours", result.estimated_hours},
                                   {"stopped_at_gates", result.stopped_at_gates}})
               .dump(2) +
           "\n";
  if (arguments.estimate) return {};
  if (result.stopped_at_gates)
    return "a gate fails: improve the world or the recipe, or set gates.stop = false to go on\n";
  const study::StudyResults results = study::read_study(arguments.out);
  std::string text = to_markdown(study::gates_table(results)) + "\n" + study::findings_in_markdown(results) +
                     to_markdown(study::arms_table(results));
  return text + "\nall tables: camber study tables --from " + arguments.out + "\n";
}

void check_choice(StudyArguments& arguments) {
  if (arguments.seeds < 0)
    throw std::invalid_argument("[study] --seeds must be at least 0, got " + std::to_string(arguments.seeds));
  // More than the plan has is a larger plan: `--seeds=4` is written like its field.
  arguments.options.plan.seeds = std::max(arguments.options.plan.seeds, arguments.seeds);
  for (const std::string& arm : arguments.only)
    if (arm != runs::kDoubled) arguments.options.plan.arm(arm);
}

int list_study(StudyArguments& arguments, const CommonOptions& common) {
  check_choice(arguments);
  const auto runs = runs::list_study({.options = arguments.options,
                                      .out = fs::absolute(arguments.out).lexically_normal(),
                                      .start = arguments.start,
                                      .choice = {.only = arguments.only, .seeds = arguments.seeds}});
  print_answer(common.format == Format::kJson ? to_json(runs) : to_text(runs));
  return kSuccess;
}

int run_study(StudyArguments& arguments, const CommonOptions& common) {
  check_choice(arguments);
  if (!arguments.one.empty()) return run_one(arguments, common);
  std::unique_ptr<console::Progress> progress;
  std::int64_t shown = 0;
  runs::StudyRequest request{.options = arguments.options,
                             .out = arguments.out,
                             .start = arguments.start,
                             .choice = {.only = arguments.only, .seeds = arguments.seeds},
                             .estimate_only = arguments.estimate,
                             .simulation_threads = threads::resolve_threads(static_cast<int>(common.threads))};
  request.say = [&](const std::string& line) {
    if (common.quiet) return;
    if (progress)
      progress->log(line);
    else
      std::fprintf(stderr, "%s\n", line.c_str());
  };
  request.progress = [&](double done, double total) {
    const auto seconds = static_cast<std::int64_t>(done);
    if (!progress) {
      progress = std::make_unique<console::Progress>(console::ProgressOptions{.task = "study",
                                                                              .unit = "s of work",
                                                                              .total = static_cast<std::int64_t>(total),
                                                                              .start = seconds,
                                                                              .quiet = common.quiet});
      shown = seconds;
    }
    if (seconds > shown) progress->advance(seconds - shown);
    shown = std::max(shown, seconds);
  };
  const runs::StudyResult result = runs::run_study(request);
  progress.reset();
  print_answer(written(result, arguments, common.format));
  runs::throw_if_failed({arguments.out}, result.failed, result.runs);
  return result.stopped_at_gates ? kFailure : kSuccess;
}

// What run, list and estimate have in common.
void take_study(Command& command, const std::shared_ptr<StudyArguments>& arguments) {
  command.option("--out", arguments->out, "folder of the study", Presence::kRequired);
  command.option("--resume", arguments->resume, "go on with the configuration of the study's own folder");
  command.option("--start", arguments->start, "published study whose records and base models are taken over");
  command.option("--only", arguments->only, "these arms alone");
  command.option("--seeds", arguments->seeds,
                 "so many seeds of the main arms, and of the others no more; 0: as the plan says");
  command.configuration<runs::StudyOptions>(arguments->options, [arguments] { return defaults_of(*arguments); });
}

void register_study_run(Command& study) {
  auto arguments = std::make_shared<StudyArguments>();
  Command& command = study.add({.name = "run",
                                .summary = "train and evaluate every run of the plan; continues where it stopped",
                                .example = "camber study run --config configs/study.toml --out runs/study"});
  command.option("run", arguments->one,
                 "one run alone of a study that was begun, by its name in camber study list; none: all of them");
  take_study(command, arguments);
  command.run([arguments](const CommonOptions& common) { return run_study(*arguments, common); });
}

void register_study_list(Command& study) {
  auto arguments = std::make_shared<StudyArguments>();
  Command& command =
      study.add({.name = "list",
                 .summary = "begin a study and print each of its runs as one command, with what it needs",
                 .example = "camber study list --config configs/study.toml --out runs/study"});
  take_study(command, arguments);
  command.run([arguments](const CommonOptions& common) { return list_study(*arguments, common); });
}

void register_study_estimate(Command& study) {
  auto arguments = std::make_shared<StudyArguments>(StudyArguments{.estimate = true});
  Command& command = study.add({.name = "estimate",
                                .summary = "say how long a study would take, and leave nothing behind",
                                .example = "camber study estimate --config configs/study.toml --out runs/study"});
  take_study(command, arguments);
  command.run([arguments](const CommonOptions& common) { return run_study(*arguments, common); });
}

void register_study_tables(Command& study) {
  auto arguments = std::make_shared<TablesArguments>();
  Command& command = study.add({.name = "tables",
                                .summary = "make every sentence and table again from the records alone",
                                .example = "camber study tables --from study/records"});
  command.option("--from", arguments->from, "folder of a study, or of its records", Presence::kRequired);
  command.option("--into", arguments->into, "Markdown file with <!-- tables --> ... to put them in");
  command.option("--images", arguments->images, "folder for the images, as SVG");
  command.run([arguments](const CommonOptions&) { return write_tables(*arguments); }, {Format::kText});
}

void register_study_publish(Command& study) {
  auto arguments = std::make_shared<PublishArguments>();
  Command& command = study.add({.name = "publish",
                                .summary = "copy plan, records and base models, for others to go on from",
                                .example = "camber study publish --from runs/study --to study"});
  command.option("--from", arguments->from, "folder of the study", Presence::kRequired);
  command.option("--to", arguments->to, "folder to write", Presence::kRequired);
  command.run(
      [arguments](const CommonOptions&) {
        runs::publish({arguments->from}, {arguments->to});
        print_answer("published " + arguments->from + " in " + arguments->to + "\n");
        return kSuccess;
      },
      {Format::kText});
}

}  // namespace

void register_study(Command& program) {
  Command& command = program.add({.name = "study",
                                  .summary = "compare arms over seeds, from one file",
                                  .example = "camber study run --config configs/study.toml --out runs/study"});
  command.moved({{"--tables", "camber study tables --from FOLDER"},
                 {"--publish", "camber study publish --from FOLDER --to FOLDER"},
                 {"--estimate", "camber study estimate --out FOLDER"},
                 {"--run", "camber study run RUN --out FOLDER"},
                 {"--", "camber study run --out FOLDER"}});
  register_study_run(command);
  register_study_list(command);
  register_study_estimate(command);
  register_study_tables(command);
  register_study_publish(command);
  register_study_fewshot(command);
}

}  // namespace camber::app
