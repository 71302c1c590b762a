#include "camber/eval/metrics_report.h"

#include <chrono>
#include <memory>
#include <stdexcept>
#include <unordered_set>
#include <utility>

namespace camber::eval {
namespace {

struct LoadedBoxes {
  std::unique_ptr<nuscenes::Dataset> dataset{};
  EvaluationBoxes boxes{};
};

LoadedBoxes load_from_file(const MetricsRequest& request, MetricsReport& report) {
  ResultsFile results = read_results(
      request.results, {.max_boxes_per_sample = report.config.max_boxes_per_sample, .threads = request.threads});
  report.meta = std::move(results.meta);
  report.split = request.ground_truth.stem().string();
  report.split_source = request.ground_truth.string();
  LoadedBoxes loaded;
  loaded.boxes =
      pair_boxes(nullptr, nullptr, read_ground_truth(request.ground_truth, request.threads), std::move(results.boxes));
  return loaded;
}

LoadedBoxes load_from_tables(const MetricsRequest& request, MetricsReport& report) {
  LoadedBoxes loaded;
  loaded.dataset = std::make_unique<nuscenes::Dataset>(request.data, request.version, request.threads);
  const nuscenes::Split split = request.scenes.empty() ? nuscenes::find_split(*loaded.dataset, request.split)
                                                       : nuscenes::read_scenes(*loaded.dataset, request.scenes);
  report.split = split.name;
  report.split_source = split.source;
  SampleBoxes truth = load_ground_truth(*loaded.dataset, split);
  const std::unordered_set<std::string_view> tokens(truth.tokens.begin(), truth.tokens.end());
  ResultsFile results = read_results(request.results, {.max_boxes_per_sample = report.config.max_boxes_per_sample,
                                                       .wanted = split.official ? nullptr : &tokens,
                                                       .threads = request.threads});
  report.meta = std::move(results.meta);
  loaded.boxes = pair_boxes(&split, loaded.dataset.get(), std::move(truth), std::move(results.boxes));
  return loaded;
}

// Predictions are filtered already.
void evaluate_into(MetricsReport& report, const nuscenes::Dataset* dataset, EvaluationBoxes& boxes,
                   const MetricsRequest& request) {
  report.samples = boxes.truth.samples();
  report.truth = filter_boxes(dataset, report.config, "the ground truth", boxes.truth);
  const auto start = std::chrono::steady_clock::now();
  report.evaluation = evaluate(boxes, report.config, request.threads);
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!request.distance_edges.empty())
    report.by_distance = by_distance(boxes, report.config, request.distance_edges, request.threads);
  if (!request.point_edges.empty())
    report.by_points = by_points(boxes, report.config, report.evaluation, request.point_edges);
  if (request.bootstrap > 0)
    report.intervals =
        bootstrap(boxes, report.config, report.evaluation, request.bootstrap, request.seed, request.threads);
  if (request.draws > 0)
    report.drawn_mean_aps = drawn_mean_aps(boxes, report.config, report.evaluation, request.draws, request.seed);
}

}  // namespace

void MetricsRequest::validate() const {
  if (results.empty()) throw std::invalid_argument("[metrics] results must name a file, got nothing");
  if (data.empty() == ground_truth.empty())
    throw std::invalid_argument(
        "[metrics] either data (a data set's folder) or ground_truth (a file) must be given, got " +
        std::string(data.empty() ? "neither" : "both"));
  if (bootstrap < 0)
    throw std::invalid_argument("[metrics] bootstrap must be at least 0, got " + std::to_string(bootstrap));
}

MetricsReport evaluate_results(const MetricsRequest& request) {
  request.validate();
  MetricsReport report;
  if (!request.config.empty()) report.config = EvaluationConfig::read(request.config);
  LoadedBoxes loaded = request.data.empty() ? load_from_file(request, report) : load_from_tables(request, report);
  report.predictions = filter_boxes(loaded.dataset.get(), report.config, "the results", loaded.boxes.predictions);
  evaluate_into(report, loaded.dataset.get(), loaded.boxes, request);
  return report;
}

MetricsReport evaluate_predictions(const nuscenes::Dataset& dataset, const nuscenes::Split& split,
                                   SampleBoxes predictions, const EvaluationConfig& config,
                                   const MetricsRequest& request) {
  MetricsReport report{.config = config, .split = split.name, .split_source = split.source};
  const bool any = !predictions.boxes.empty();
  EvaluationBoxes boxes = pair_boxes(&split, &dataset, load_ground_truth(dataset, split), std::move(predictions));
  if (any) report.predictions = filter_boxes(&dataset, config, "the results", boxes.predictions);
  evaluate_into(report, &dataset, boxes, request);
  return report;
}

}  // namespace camber::eval
