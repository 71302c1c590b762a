#include "camber/eval/evaluation_config.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "camber/json/fields.h"
#include "camber/json/file.h"
#include "camber/json/text.h"

namespace camber::eval {

namespace {

void read_class_ranges(json::Value value, std::vector<ClassRange>& ranges) {
  ranges.clear();
  json::for_each_field(value, "class_range", [&ranges](std::string_view name, json::Value range) {
    const auto label = detection_class(name);
    if (!label) throw json::ValueError("class_range names an unknown class '" + json::shown_text(name) + "'");
    const double metres = json::any_number(range, "class_range");
    const auto found =
        std::find_if(ranges.begin(), ranges.end(), [&](const ClassRange& r) { return r.label == *label; });
    if (found == ranges.end())
      ranges.push_back({*label, metres});
    else
      found->range = metres;
  });
}

}  // namespace

std::optional<double> EvaluationConfig::range_of(DetectionClass label) const {
  for (const ClassRange& entry : class_ranges)
    if (entry.label == label) return entry.range;
  return std::nullopt;
}

void EvaluationConfig::validate() const {
  const auto refuse = [this](const std::string& what) {
    throw std::invalid_argument("[EvaluationConfig] " + name + ": " + what);
  };
  if (class_ranges.empty()) refuse("class_range must name at least one class");
  if (distance_thresholds.empty()) refuse("dist_ths must have at least one distance");
  if (distance_names.size() != distance_thresholds.size())
    refuse("distance_names must have one name a distance, got " + std::to_string(distance_names.size()));
  if (std::find(distance_thresholds.begin(), distance_thresholds.end(), tp_threshold) == distance_thresholds.end())
    refuse("dist_th_tp must be one of dist_ths, got " + std::to_string(tp_threshold));
  if (!(min_precision >= 0 && min_precision < 1))
    refuse("min_precision must lie between 0 and 1, below 1, got " + std::to_string(min_precision));
  if (!(min_recall >= 0 && min_recall <= 1))
    refuse("min_recall must lie between 0 and 1, got " + std::to_string(min_recall));
}

EvaluationConfig EvaluationConfig::read(const std::filesystem::path& path) {
  EvaluationConfig config;
  config.name = path.stem().string();
  json::read_file(path, "EvaluationConfig", [&](json::Value value) {
    json::read_fields(
        value, "an evaluation configuration",
        json::required("class_range", [&](json::Value v) { read_class_ranges(v, config.class_ranges); }),
        json::required("dist_fcn",
                       [](json::Value v) {
                         const std::string_view function = json::text(v, "dist_fcn");
                         if (function != "center_distance")
                           throw json::ValueError("dist_fcn must be 'center_distance', got '" +
                                                  json::shown_text(function) + "'");
                       }),
        json::required("dist_ths",
                       [&](json::Value v) {
                         auto& thresholds = config.distance_thresholds;
                         thresholds.clear();
                         config.distance_names.clear();
                         json::for_each_element(v, "dist_ths", [&](json::Value item) {
                           bool whole = false;
                           if (item.is_integer().get(whole)) whole = false;
                           const double metres = json::any_number(item, "dist_ths");
                           if (std::find(thresholds.begin(), thresholds.end(), metres) != thresholds.end()) return;
                           thresholds.push_back(metres);
                           config.distance_names.push_back(json::number_text(metres, whole));
                         });
                       }),
        json::required("dist_th_tp", [&](json::Value v) { config.tp_threshold = json::number(v, "dist_th_tp"); }),
        json::required("min_recall", [&](json::Value v) { config.min_recall = json::number(v, "min_recall"); }),
        json::required("min_precision",
                       [&](json::Value v) { config.min_precision = json::number(v, "min_precision"); }),
        json::required("max_boxes_per_sample",
                       [&](json::Value v) { config.max_boxes_per_sample = json::integer(v, "max_boxes_per_sample"); }),
        json::required("mean_ap_weight",
                       [&](json::Value v) { config.mean_ap_weight = json::number(v, "mean_ap_weight"); }));
  });
  config.validate();
  return config;
}

}  // namespace camber::eval
