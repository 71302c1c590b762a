#include "camber/health/records.h"

#include <functional>
#include <limits>
#include <stdexcept>
#include <string_view>

#include <fmt/format.h>
#include <simdjson.h>

#include "camber/config/renamed.h"
#include "camber/storage/file.h"

namespace camber::health {
namespace {

using simdjson::dom::element;
using simdjson::dom::object;

double number_of(const element& value) {
  if (value.is_string()) {
    const std::string_view word = value.get_string();
    if (word == "NaN") return std::numeric_limits<double>::quiet_NaN();
    if (word == "Infinity") return std::numeric_limits<double>::infinity();
    if (word == "-Infinity") return -std::numeric_limits<double>::infinity();
  }
  return value.get_double();
}

// Doubles hold every step that may come: curves are drawn over them.
std::int64_t step_in(const element& value) {
  constexpr std::int64_t kMostSteps = std::int64_t{1} << 53;
  const std::int64_t step = value.get_int64();
  if (step < 0 || step > kMostSteps)
    throw std::invalid_argument(fmt::format("step must be between 0 and {}, got {}", kMostSteps, step));
  return step;
}

Record record_of(const object& line) {
  Record record;
  for (const auto& [key, value] : line)
    if (key == "step")
      record.step = step_in(value);
    else if (key == "time")
      record.time = value.get_double();
    else
      record.metrics.push_back({config::present_metric(key), number_of(value)});
  return record;
}

Finding finding_of(const object& line) {
  const auto text = [&line](const char* key) { return std::string(std::string_view(line.at_key(key))); };
  return {.step = step_in(line.at_key("step")),
          .severity = severity_from(text("severity")),
          .rule = text("rule"),
          .subject = text("subject"),
          .value = number_of(line.at_key(line.at_key("value").error() == simdjson::SUCCESS ? "value" : "figure")),
          .sentence = text("sentence")};
}

void for_each_line(const std::filesystem::path& file, const std::function<void(const object&)>& take) {
  if (!std::filesystem::exists(file)) return;
  const std::string text = storage::read_file(file);
  simdjson::dom::parser parser;
  std::size_t line_number = 0, position = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', position)) {
    ++line_number;
    try {
      take(parser.parse(text.data() + position, end - position).get_object());
    } catch (const std::exception& error) {
      throw std::runtime_error(
          fmt::format("[records] {}: line {} is no record: {}", file.string(), line_number, error.what()));
    }
    position = end + 1;
  }
}

}  // namespace

std::vector<Record> read_records(const std::filesystem::path& file) {
  std::vector<Record> records;
  for_each_line(file, [&records](const object& line) { records.push_back(record_of(line)); });
  return records;
}

Findings read_findings(const std::filesystem::path& file) {
  Findings findings;
  for_each_line(file, [&findings](const object& line) { findings.push_back(finding_of(line)); });
  return findings;
}

std::map<std::string, Series> to_series(const std::vector<Record>& records) {
  std::map<std::string, Series> series;
  for (const Record& record : records)
    for (const Metric& metric : record.metrics) {
      Series& one = series[metric.name];
      one.steps.push_back(static_cast<double>(record.step));
      one.values.push_back(metric.value);
    }
  return series;
}

}  // namespace camber::health
