#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "camber/health/finding.h"
#include "camber/health/metric.h"

namespace camber::health {

/// A line of metrics.jsonl.
struct Record {
  std::int64_t step = 0;
  double time = 0;
  Metrics metrics{};
};

/// The steps at which a metric was written, and its values.
struct Series {
  std::vector<double> steps{};
  std::vector<double> values{};
};

/// Reads metrics.jsonl while it is written or after a crash: an unfinished last line is passed over. Any other line
/// that is no record is a std::runtime_error that names file and line. A file that does not exist has no records.
std::vector<Record> read_records(const std::filesystem::path& file);
/// The same for health.jsonl.
Findings read_findings(const std::filesystem::path& file);

/// Records turned round: one series a name.
std::map<std::string, Series> to_series(const std::vector<Record>& records);

}  // namespace camber::health
