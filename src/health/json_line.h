#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "camber/health/finding.h"
#include "camber/health/metric.h"

/// Records as single lines of JSON.
namespace camber::health {

/// A string with its quotes.
std::string json_text(std::string_view text);
/// The shortest digits that read back to the same double; "NaN", "Infinity" and "-Infinity" as strings.
std::string json_number(double value);

std::string json_line(std::int64_t step, double time, const Metrics& metrics);
std::string json_line(double time, const Finding& finding);

}  // namespace camber::health
