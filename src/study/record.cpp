#include "camber/study/record.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "camber/config/renamed.h"
#include "camber/storage/file.h"
#include "camber/storage/one_line.h"

namespace camber::study {
namespace {

using Json = nlohmann::ordered_json;

Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

double number_in(const Json& object, const char* key) {
  const Json& value = object.at(key);
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

// Curves are for the eye: six digits.
Json rounded(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values)
    list.push_back(std::isfinite(value) ? Json(std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr))
                                        : Json(nullptr));
  return list;
}

Json to_json(const Measurement& measured) {
  Json json = {{"condition", measured.condition},
               {"control", measured.control},
               {"mean_ap", number(measured.mean_ap)},
               {"nd_score", number(measured.nd_score)},
               {"by_distance", measured.by_distance}};
  if (std::isfinite(measured.trust_lidar))
    json["trust"] = {{"lidar", measured.trust_lidar}, {"camera", number(measured.trust_camera)}};
  json["replicates"] = measured.replicates;
  return json;
}

// nlohmann turns any number into a whole one without a word.
std::int64_t whole_number(const Json& value, const char* key, std::int64_t least, std::int64_t most) {
  const bool fits = value.is_number_unsigned() ? std::cmp_less_equal(value.get<std::uint64_t>(), most)
                                               : value.is_number_integer() && value.get<std::int64_t>() >= least;
  if (!fits || value.get<std::int64_t>() < least)
    throw std::invalid_argument(fmt::format("{} that is no whole number from {} to {}", key, least, most));
  return value.get<std::int64_t>();
}

Measurement measurement_in(const Json& json) {
  Measurement measured{.condition = config::present_condition(json.at("condition").get<std::string>()),
                       .control = config::present_condition(json.at("control").get<std::string>()),
                       .mean_ap = number_in(json, "mean_ap"),
                       .nd_score = number_in(json, "nd_score"),
                       .by_distance = json.at("by_distance").get<std::vector<double>>()};
  measured.trust_lidar = measured.trust_camera = std::numeric_limits<double>::quiet_NaN();
  if (json.contains("trust")) {
    measured.trust_lidar = number_in(json.at("trust"), "lidar");
    measured.trust_camera = number_in(json.at("trust"), "camera");
  }
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  for (const Json& value : json.at("replicates"))
    measured.replicates.push_back(static_cast<std::int32_t>(whole_number(value, "replicates", -kMost, kMost)));
  return measured;
}

// One entry a line: a record is read and compared by people too.
std::string written(const Json& json) {
  std::string text = "{\n";
  for (auto entry = json.begin(); entry != json.end(); ++entry) {
    text += fmt::format("  {}: ", Json(entry.key()).dump());
    if (entry->is_array() && !entry->empty() && entry->front().is_object()) {
      text += "[\n";
      for (std::size_t i = 0; i < entry->size(); ++i)
        text += fmt::format("    {}{}\n", (*entry)[i].dump(), i + 1 < entry->size() ? "," : "");
      text += "  ]";
    } else {
      text += entry->dump();
    }
    text += std::next(entry) == json.end() ? "\n" : ",\n";
  }
  return text + "}\n";
}

}  // namespace

const Measurement* RunRecord::find(const std::string& condition, const std::string& control) const {
  const auto found = std::find_if(measurements.begin(), measurements.end(), [&](const Measurement& measured) {
    return measured.condition == condition && measured.control == control;
  });
  return found == measurements.end() ? nullptr : &*found;
}

std::string to_json(const RunRecord& record) {
  Json measurements = Json::array(), curves = Json::array();
  for (const Measurement& measured : record.measurements) measurements.push_back(to_json(measured));
  for (const auto& [name, curve] : record.curves)
    curves.push_back({{"name", name}, {"steps", curve.steps}, {"values", rounded(curve.values)}});
  Json json = {{"arm", record.arm},
               {"seed", record.seed},
               {"steps", record.steps},
               {"scale_lr_mult", record.scale_lr_mult},
               {"scales", record.scales},
               {"config_hash", record.config_hash},
               {"data_fingerprint", record.data_fingerprint},
               {"weights", record.weights},
               {"commit", record.commit},
               {"instruction_set", record.instruction_set},
               {"numerics", record.numerics},
               {"measurements", measurements},
               {"curves", curves},
               {"milliseconds_a_step", number(record.milliseconds_a_step)},
               {"training_seconds", number(record.training_seconds)},
               {"evaluation_seconds", number(record.evaluation_seconds)}};
  for (const auto& [name, value] : record.values) json["values"][name] = number(value);
  return written(json);
}

RunRecord parse_record(const std::string& text, const std::string& name) {
  try {
    const Json json = Json::parse(text);
    constexpr std::int64_t kMostSeeds = 999999999, kMostSteps = std::int64_t{1} << 53;
    RunRecord record{
        .arm = json.at("arm"),
        .seed = whole_number(json.at("seed"), "a seed", 0, kMostSeeds),
        .steps = whole_number(json.at("steps"), "steps", 0, kMostSteps),
        .scale_lr_mult = json.at("scale_lr_mult"),
        .scales = json.at("scales").get<std::map<std::string, double>>(),
        .config_hash = json.at("config_hash"),
        .data_fingerprint = json.at("data_fingerprint"),
        .weights = json.at("weights"),
        .commit = json.at("commit"),
        .instruction_set = json.at("instruction_set"),
        .numerics = json.contains("numerics") ? whole_number(json["numerics"], "numerics", 1, 1000000) : 1};
    for (const Json& measured : json.at("measurements")) record.measurements.push_back(measurement_in(measured));
    for (const Json& curve : json.at("curves")) {
      RunCurve& added = record.curves[config::present_metric(curve.at("name").get<std::string>())];
      for (const Json& value : curve.at("steps")) added.steps.push_back(whole_number(value, "steps", 0, kMostSteps));
      for (const Json& value : curve.at("values"))
        added.values.push_back(value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>());
      if (added.steps.size() != added.values.size())
        throw std::invalid_argument(
            fmt::format("a curve of {} steps and {} values", added.steps.size(), added.values.size()));
    }
    record.milliseconds_a_step = number_in(json, "milliseconds_a_step");
    record.training_seconds = number_in(json, "training_seconds");
    record.evaluation_seconds = number_in(json, "evaluation_seconds");
    if (json.contains("values"))
      for (const auto& entry : json.at("values").items())
        record.values[entry.key()] = number_in(json.at("values"), entry.key().c_str());
    return record;
  } catch (const Json::exception& error) {
    throw std::runtime_error(
        fmt::format("[study] {} must be a run's record, got {}", name, storage::one_line(error.what())));
  } catch (const std::invalid_argument& error) {
    throw std::runtime_error(
        fmt::format("[study] {} must be a run's record, got {}", name, storage::one_line(error.what())));
  }
}

std::vector<const RunRecord*> runs_of(const std::vector<RunRecord>& records, const std::string& arm) {
  std::vector<const RunRecord*> runs;
  for (const RunRecord& record : records)
    if (record.arm == arm) runs.push_back(&record);
  return runs;
}

std::vector<RunRecord> read_run_records(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code absent;
  for (const auto& entry : std::filesystem::directory_iterator(folder, absent))
    if (entry.path().extension() == ".json" && !entry.path().filename().string().starts_with('.'))
      files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<RunRecord> records;
  records.reserve(files.size());
  for (const std::filesystem::path& file : files)
    records.push_back(parse_record(storage::read_file(file), file.string()));
  return records;
}

}  // namespace camber::study
