#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "camber/storage/file.h"
#include "camber/storage/one_line.h"
#include "report/run_parts.h"

namespace camber::report {
namespace {

using Json = nlohmann::ordered_json;

// Metrics hold bare NaN and Infinity where a metric is not defined; JSON has no such words.
Json read_json(const std::filesystem::path& file) {
  std::string text = storage::read_file(file);
  for (const std::string_view word : {"NaN", "-Infinity", "Infinity"})
    for (std::size_t position = text.find(word); position != std::string::npos; position = text.find(word, position)) {
      const bool bare = position == 0 || text[position - 1] != '"';
      if (bare) text.replace(position, word.size(), "null");
      position += bare ? 4 : word.size();
    }
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    throw std::runtime_error(fmt::format("[report] {} is no JSON: {}", file.string(), storage::one_line(error.what())));
  }
}

double number(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : std::numeric_limits<double>::quiet_NaN();
}

std::string cell(double value, int digits = 3) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : "-";
}

std::vector<std::string> condition_row(const std::string& name, const Json& metrics, double clean_score) {
  const Json errors = metrics.value("tp_errors", Json::object());
  const double score = number(metrics, "nd_score");
  std::vector<std::string> row = {name, cell(number(metrics, "mean_ap")), cell(score), cell(score / clean_score, 2)};
  for (const char* error : {"trans_err", "scale_err", "orient_err", "vel_err", "attr_err"})
    row.push_back(cell(number(errors, error), 2));
  return row;
}

// Of a detector with dense heads: how far the sensors agree under each condition, and how well that tells it from clean
// frames.
void add_agreement(Table& table, const Json& agreement) {
  if (agreement.empty()) return;
  table.columns.insert(table.columns.end(), {"agreement", "AUC"});
  table.note += " Agreement of the sensors: mean over frames; AUC: how well it tells the condition from clean frames.";
  for (std::vector<std::string>& row : table.rows) {
    const Json own = agreement.value(row.front(), Json::object());
    row.push_back(cell(number(own, "mean")));
    row.push_back(row.front() == "clean" ? "-" : cell(number(own, "area_under_curve"), 2));
  }
}

Table fault_table(const Json& result) {
  Table table{.title = "Under faults",
              .note = "Kept: NDS under the fault over clean NDS.",
              .columns = {"condition", "mAP", "NDS", "kept", "mATE", "mASE", "mAOE", "mAVE", "mAAE"},
              .bar_columns = {1, 2, 3}};
  const Json& clean = result.at("clean");
  const double clean_score = number(clean, "nd_score");
  table.rows.push_back(condition_row("clean", clean, clean_score));
  const Json faults = result.value("faults", Json::object());
  for (const auto& [name, metrics] : faults.items()) table.rows.push_back(condition_row(name, metrics, clean_score));
  if (const double mean = number(result, "mean_resilience"); std::isfinite(mean))
    table.note += fmt::format(" Mean over the faults: {:.2f}.", mean);
  add_agreement(table, result.value("agreement", Json::object()));
  return table;
}

Table class_table(const Json& clean) {
  Table table{.title = "By class", .note = "Average precision at the distances, clean.", .columns = {"class", "mean"}};
  const Json means = clean.value("mean_dist_aps", Json::object());
  const Json by_label = clean.value("label_aps", Json::object());
  for (const auto& [label, precisions] : by_label.items()) {
    std::vector<std::string> row = {label, cell(number(means, label.c_str()))};
    for (const auto& [distance, value] : precisions.items()) {
      if (table.rows.empty()) table.columns.push_back(distance + " m");
      row.push_back(value.is_number() ? cell(value.get<double>()) : "-");
    }
    table.rows.push_back(std::move(row));
  }
  for (std::size_t column = 1; column < table.columns.size(); ++column) table.bar_columns.push_back(column);
  return table;
}

// A few-shot run's result: one row a setting.
Table accuracy_table(const Json& settings) {
  Table table{.title = "Accuracy",
              .note = "Mean over episodes with the half width of its 95 % interval; what guessing gets beside it.",
              .columns = {"setting", "accuracy", "interval", "chance", "episodes"},
              .bar_columns = {1, 3}};
  for (const Json& setting : settings)
    table.rows.push_back({setting.value("name", ""), cell(number(setting, "accuracy")),
                          cell(number(setting, "interval")), cell(number(setting, "chance")),
                          cell(number(setting, "episodes"), 0)});
  return table;
}

// Runs what reads a file of the run that may be of another form than a run writes.
template <class Action>
void refuse_other_forms(const std::filesystem::path& run, const std::filesystem::path& file, Action&& action) {
  storage::check_inside(run, file);
  try {
    action();
  } catch (const Json::exception& error) {
    throw std::runtime_error(
        fmt::format("[report] {} must be as a run writes it: {}", file.string(), storage::one_line(error.what())));
  }
}

// One chart a class, one curve a distance.
void add_curves(Section& section, const std::filesystem::path& file, const RunReportOptions& options) {
  std::vector<std::pair<std::string, std::vector<RawSeries>>> by_label;
  const Json curves = read_json(file);
  for (const auto& [name, curve] : curves.items()) {
    const std::string label = name.substr(0, name.find(':'));
    RawSeries series{.name = name.substr(name.find(':') + 1) + " m"};
    for (const Json& value : curve.at("recall")) series.x.push_back(value.get<double>());
    for (const Json& value : curve.at("precision"))
      series.values.push_back(value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN());
    if (by_label.empty() || by_label.back().first != label) by_label.emplace_back(label, std::vector<RawSeries>{});
    by_label.back().second.push_back(std::move(series));
  }
  for (const auto& [label, series] : by_label)
    add_chart(section, {.title = "Precision over recall, " + label, .x_label = "recall", .y_min = 0, .y_max = 1},
              series, options.points);
}

void add_tables(Section& section, const std::filesystem::path& file) {
  const Json result = read_json(file);
  if (!result.is_object()) return;
  if (result.contains("settings")) section.blocks.emplace_back(accuracy_table(result.at("settings")));
  if (!result.contains("clean")) return;
  section.blocks.emplace_back(fault_table(result));
  section.blocks.emplace_back(class_table(result.at("clean")));
}

std::string media_type(const std::filesystem::path& file) {
  const std::string extension = file.extension().string();
  if (extension == ".png") return "image/png";
  if (extension == ".jpg" || extension == ".jpeg") return "image/jpeg";
  return extension == ".svg" ? "image/svg+xml" : "";
}

Images read_images(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (!media_type(entry.path()).empty() && !entry.path().filename().string().starts_with('.'))
      files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  const Json captions =
      std::filesystem::exists(folder / "captions.json") ? read_json(folder / "captions.json") : Json::object();
  Images images;
  for (const std::filesystem::path& file : files) storage::check_inside(folder, file);
  for (const std::filesystem::path& file : files)
    images.push_back({.caption = captions.value(file.filename().string(), file.stem().string()),
                      .media_type = media_type(file),
                      .bytes = storage::read_file(file)});
  return images;
}

}  // namespace

std::optional<Tile> result_tile(const std::filesystem::path& run) {
  const std::filesystem::path file = run / "result.json";
  std::optional<Tile> tile;
  if (!std::filesystem::exists(file)) return tile;
  refuse_other_forms(run, file, [&] {
    const Json result = read_json(file);
    if (!result.is_object()) return;
    if (result.contains("clean")) {
      const Json& clean = result.at("clean");
      tile = {"mAP", percent(number(clean, "mean_ap")), "NDS " + percent(number(clean, "nd_score"))};
    } else if (result.contains("settings") && !result.at("settings").empty()) {
      const Json& first = result.at("settings").front();
      tile = {"Accuracy", percent(number(first, "accuracy")),
              fmt::format("{}, chance {}", first.value("name", ""), percent(number(first, "chance")))};
    }
  });
  return tile;
}

std::vector<Section> result_sections(const std::filesystem::path& run, const SeriesByName& series,
                                     const RunReportOptions& options) {
  Section results{.title = "Results"}, images{.title = "Images"};
  const std::filesystem::path result = run / "result.json", curves = run / "curves.json";
  if (std::filesystem::exists(result)) refuse_other_forms(run, result, [&] { add_tables(results, result); });
  std::vector<RawSeries> validation;
  for (const auto& [name, one] : series)
    if (name == "validation/mean_ap" || name == "validation/nd_score")
      validation.push_back({name == "validation/mean_ap" ? "mAP" : "NDS", one.steps, one.values});
  add_chart(results, {.title = "Validation while training", .y_min = 0}, validation, options.points);
  if (std::filesystem::exists(curves)) refuse_other_forms(run, curves, [&] { add_curves(results, curves, options); });
  for (const char* folder : {"images", "pictures"})  // the second in runs of earlier versions
    if (std::filesystem::is_directory(run / folder))
      refuse_other_forms(run, run / folder / "captions.json", [&] {
        if (Images found = read_images(run / folder); !found.empty()) images.blocks.emplace_back(std::move(found));
      });
  std::vector<Section> sections;
  if (!results.blocks.empty()) sections.push_back(std::move(results));
  if (!images.blocks.empty()) sections.push_back(std::move(images));
  return sections;
}

}  // namespace camber::report
