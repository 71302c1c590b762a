#include "health/json_line.h"

#include <cmath>
#include <iterator>

#include <fmt/format.h>

namespace camber::health {

std::string json_text(std::string_view text) {
  std::string quoted = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\')
      (quoted += '\\') += letter;
    else if (static_cast<unsigned char>(letter) < 0x20)
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned>(letter));
    else
      quoted += letter;
  }
  return quoted += '"';
}

std::string json_number(double value) {
  if (std::isnan(value)) return "\"NaN\"";
  if (std::isinf(value)) return value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  return fmt::format("{}", value);
}

std::string json_line(std::int64_t step, double time, const Metrics& metrics) {
  std::string line = fmt::format("{{\"step\":{},\"time\":{:.3f}", step, time);
  for (const Metric& metric : metrics) {
    line += ',';
    line += json_text(metric.name);
    line += ':';
    line += json_number(metric.value);
  }
  return line += "}\n";
}

std::string json_line(double time, const Finding& finding) {
  return fmt::format(
      "{{\"step\":{},\"time\":{:.3f},\"severity\":\"{}\",\"rule\":{},\"subject\":{},\"value\":{},\"sentence\":{}}}\n",
      finding.step, time, name(finding.severity), json_text(finding.rule), json_text(finding.subject),
      json_number(finding.value), json_text(finding.sentence));
}

}  // namespace camber::health
