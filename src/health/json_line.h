#pragma once
#include <cstdint>
#include <string>

#include "camber/health/finding.h"
#include "camber/health/metric.h"

/// Records as single lines of JSON.
namespace camber::health {

/// The shortest digits that read back to the same double; "NaN", "Infinity" and "-Infinity" as strings.
std::string json_number(double value);

std::string json_line(std::int64_t step, double time, const Metrics& metrics);
std::string json_line(double time, const Finding& finding);

}  // namespace camber::health
