#include "health/json_line.h"

#include <cmath>

#include <fmt/format.h>

#include "camber/json/text.h"

namespace camber::health {

std::string json_number(double value) {
  if (std::isnan(value)) return "\"NaN\"";
  if (std::isinf(value)) return value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  return fmt::format("{}", value);
}

std::string json_line(std::int64_t step, double time, const Metrics& metrics) {
  std::string line = fmt::format("{{\"step\":{},\"time\":{:.3f}", step, time);
  for (const Metric& metric : metrics) {
    line += ',';
    line += json::quoted(metric.name);
    line += ':';
    line += json_number(metric.value);
  }
  return line += "}\n";
}

std::string json_line(double time, const Finding& finding) {
  return fmt::format(
      "{{\"step\":{},\"time\":{:.3f},\"severity\":\"{}\",\"rule\":{},\"subject\":{},\"value\":{},\"sentence\":{}}}\n",
      finding.step, time, name(finding.severity), json::quoted(finding.rule), json::quoted(finding.subject),
      json_number(finding.value), json::quoted(finding.sentence));
}

}  // namespace camber::health
