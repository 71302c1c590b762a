#include <memory>
#include <stdexcept>
#include <string>

#include "apps/camber/commands.h"
#include "camber/eval/metrics_report.h"
#include "camber/storage/atomic_file.h"

namespace camber::app {
namespace {

struct MetricsArguments {
  std::string results{}, data{}, split{}, scenes{}, ground_truth{}, config{}, curves{}, details{};
  bool no_bins = false;
  eval::MetricsRequest request{};
};

std::string written(const eval::MetricsReport& report, Format format) {
  switch (format) {
    case Format::kJson:
      return eval::to_json(report);
    case Format::kCsv:
      return eval::to_csv(report);
    case Format::kText:
      break;
  }
  return eval::to_text(report);
}

void leave_bins_out(eval::MetricsRequest& request) {
  const eval::MetricsRequest standard;
  if (request.distance_edges != standard.distance_edges || request.point_edges != standard.point_edges)
    throw std::invalid_argument("[metrics] --no-bins must not be given with --distances or --points");
  request.distance_edges.clear();
  request.point_edges.clear();
}

int run_metrics(const MetricsArguments& arguments, const CommonOptions& common) {
  eval::MetricsRequest request = arguments.request;
  request.results = arguments.results;
  request.data = arguments.data;
  if (!arguments.split.empty() && !arguments.scenes.empty())
    throw std::invalid_argument("[metrics] --split and --scenes must not be given together");
  if (!arguments.split.empty()) request.split = arguments.split;
  request.scenes = arguments.scenes;
  request.ground_truth = arguments.ground_truth;
  request.config = arguments.config;
  request.seed = common.seed;
  request.threads = static_cast<int>(common.threads);
  if (arguments.no_bins) leave_bins_out(request);
  if (!arguments.curves.empty()) check_ending("metrics", "--curves", arguments.curves, {".svg"});
  if (!arguments.details.empty()) check_ending("metrics", "--details", arguments.details, {".json"});
  for (const std::string& file : {arguments.curves, arguments.details})
    if (!file.empty()) storage::check_writable(file);
  const eval::MetricsReport report = eval::evaluate_results(request);
  if (!arguments.curves.empty()) storage::write_file(arguments.curves, eval::curves_to_svg(report));
  if (!arguments.details.empty()) storage::write_file(arguments.details, eval::details_to_json(report));
  print_answer(written(report, common.format));
  return kSuccess;
}

}  // namespace

void register_metrics(Command& program) {
  auto arguments = std::make_shared<MetricsArguments>();
  eval::MetricsRequest& request = arguments->request;
  Command& command =
      program.add({.name = "metrics",
                   .summary = "the nuScenes detection evaluation of anyone's results, to the devkit's last digit",
                   .example = "camber metrics --results results_nusc.json --data /data/nuscenes --split val"});
  command.option("--results", arguments->results, "predictions in the submission format", Presence::kRequired);
  command.option("--data", arguments->data, "the data set's folder");
  command.option("--version", request.version, "folder of its tables");
  command.option("--split", arguments->split,
                 "from splits.json, or an official split; " + request.split + " by default");
  command.option("--scenes", arguments->scenes, "a file of scene names instead of a split");
  command.option("--ground-truth", arguments->ground_truth,
                 "true objects in the same box format instead of a data set");
  command.option("--config", arguments->config, "evaluation configuration in the devkit's JSON format");
  command.option("--distances", request.distance_edges, "edges of the rings for the table by distance, metres");
  command.option("--points", request.point_edges, "edges for the table by points inside the object");
  command.option("--no-bins", arguments->no_bins, "leave both of these tables out");
  command.option("--bootstrap", request.bootstrap, "replicates for 95 % intervals over scenes; 0: none");
  command.option("--curves", arguments->curves, "write precision over recall there, as an SVG");
  command.option("--details", arguments->details, "write every curve there, in the devkit's format");
  command.run([arguments](const CommonOptions& common) { return run_metrics(*arguments, common); },
              {Format::kText, Format::kJson, Format::kCsv});
}

}  // namespace camber::app
