#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "camber/eval/breakdown.h"
#include "camber/eval/detection_metrics.h"

namespace camber::eval {

/// What `camber metrics` evaluates.
struct MetricsRequest {
  std::filesystem::path results{};  ///< anyone's results_nusc.json
  std::filesystem::path data{};     ///< the data set's folder, with `version` and `split` or `scenes`
  std::string version = "v1.0-trainval";
  std::string split = "val";
  std::filesystem::path scenes{};        ///< a file of scene names instead of a split
  std::filesystem::path ground_truth{};  ///< true objects in the same box format instead of a data set
  std::filesystem::path config{};        ///< the devkit's JSON format; empty: the official configuration
  std::vector<double> distance_edges{0, 10, 20, 30, 40, 50};  ///< empty: no bins
  std::vector<double> point_edges{1, 5, 20, 100};             ///< empty: no bins
  std::int64_t bootstrap = 0;                                 ///< replicates; 0: no intervals
  std::int64_t draws = 0;                                     ///< of scenes for MetricsReport::drawn_mean_aps; 0: none
  std::uint64_t seed = 0;
  int threads = 0;

  void validate() const;
};

/// Everything that was found out.
struct MetricsReport {
  EvaluationConfig config{};
  std::string split{}, split_source{};
  std::size_t samples = 0;
  FilterCounts truth{}, predictions{};
  Evaluation evaluation{};
  std::vector<BinMetrics> by_distance{}, by_points{};
  std::optional<BootstrapIntervals> intervals{};
  std::vector<double> drawn_mean_aps{};  ///< eval::drawn_mean_aps with the request's draws and seed
  std::string meta{};                    ///< of the results, JSON text
  double seconds = 0;                    ///< of the comparison itself, as the devkit counts it
};

/// Loads, pairs, filters and evaluates.
MetricsReport evaluate_results(const MetricsRequest& request);

/// The same for predictions that are in memory; the request's files, data and split are not looked at. No prediction at
/// all is an answer too: every metric is that of a detector that finds nothing.
MetricsReport evaluate_predictions(const nuscenes::Dataset& dataset, const nuscenes::Split& split,
                                   SampleBoxes predictions, const EvaluationConfig& config,
                                   const MetricsRequest& request = {});

std::string to_text(const MetricsReport& report);
/// One row a class.
std::string to_csv(const MetricsReport& report);
/// The keys of the devkit's metrics_summary.json, then `configuration`, `split`, `counts`, `by_distance`, `by_points`
/// and `bootstrap`. A metric that is not defined is a bare NaN, as the devkit writes it;
/// the open end of the last bin is null.
std::string to_json(const MetricsReport& report);
/// Precision over recall, one chart a distance, one line a class.
std::string curves_to_svg(const MetricsReport& report);
/// The curves in the format of the devkit's metrics_details.json.
std::string details_to_json(const MetricsReport& report);

}  // namespace camber::eval
