#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>

#include "apps/camber/commands.h"
#include "apps/camber/interruption.h"
#include "camber/json/text.h"
#include "camber/report/run_report.h"
#include "camber/report/study_report.h"
#include "camber/storage/atomic_file.h"
#include "camber/study/results.h"

namespace camber::app {
namespace {

struct ReportArguments {
  std::string path{};
  std::string out{};
  bool watch = false;
  double interval = 5;
};

// What changes when a run goes on: its records and, at the end, its result. To be looked at before a page is written,
// so that what comes while it is written is not missed.
using RunState = std::pair<std::uintmax_t, bool>;
RunState state_of(const std::filesystem::path& run) {
  std::error_code ignored;
  return {std::filesystem::file_size(run / "metrics.jsonl", ignored), std::filesystem::exists(run / "result.json")};
}

void write_page(const ReportArguments& arguments) {
  const report::RunReportOptions options{.refresh_seconds = arguments.watch ? arguments.interval : 0};
  const bool study = study::is_study(arguments.path);
  if (study && arguments.watch) throw std::invalid_argument("[report] --watch must be given with a run, got a study");
  storage::write_file(arguments.out,
                      to_html(study ? report::study_page(arguments.path) : report::run_page(arguments.path, options)));
}

// Writes the page anew whenever the run has moved, until it has a result or someone presses Ctrl-C.
void watch(const ReportArguments& arguments, RunState written) {
  stop_on_signals();
  auto next = std::chrono::steady_clock::now();
  while (!interrupted && !written.second) {
    next += std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(arguments.interval));
    while (!interrupted && std::chrono::steady_clock::now() < next)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const auto now = state_of(arguments.path);
    if (now == written) continue;
    written = now;
    write_page(arguments);
  }
}

int run_report(ReportArguments& arguments, const CommonOptions& common) {
  if (!(arguments.interval > 0) || !std::isfinite(arguments.interval))
    throw std::invalid_argument(
        fmt::format("[report] --interval must be above 0 seconds, got {:g}", arguments.interval));
  refuse_without(common, "report", "--watch", {"--interval"});
  if (arguments.out.empty()) arguments.out = (std::filesystem::path(arguments.path) / "report.html").string();
  check_ending("report", "--out", arguments.out, {".html", ".htm"});
  const RunState written = state_of(arguments.path);
  write_page(arguments);
  const std::filesystem::path page = std::filesystem::absolute(arguments.out);
  storage::remove_leftovers(page.parent_path(), page.filename().string());
  const auto bytes = std::filesystem::file_size(arguments.out);
  print_answer(common.format == Format::kJson
                   ? fmt::format("{{\"out\": {}, \"bytes\": {}}}\n", json::quoted(arguments.out), bytes)
                   : fmt::format("wrote {} ({:.1f} MB)\n", arguments.out, static_cast<double>(bytes) / 1e6));
  if (arguments.watch) watch(arguments, written);
  return kSuccess;
}

}  // namespace

void register_report(Command& program) {
  auto arguments = std::make_shared<ReportArguments>();
  Command& command = program.add({.name = "report",
                                  .summary = "one self-contained HTML page of a run or a study, finished or not",
                                  .example = "camber report runs/demo --out report.html"});
  command.option("PATH", arguments->path, "folder of the run or of the study", Presence::kRequired);
  command.option("--out", arguments->out, "HTML file to write; PATH/report.html by default");
  command.option("--watch", arguments->watch, "go on writing the page while the run goes on, until it has a result");
  command.option("--interval", arguments->interval, "seconds between two looks at the run with --watch");
  command.run([arguments](const CommonOptions& common) { return run_report(*arguments, common); });
}

}  // namespace camber::app
