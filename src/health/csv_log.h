#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "camber/health/metric.h"
#include "health/append_file.h"

namespace camber::health {

/// metrics.csv: step, time, one column a name. A name that comes new widens the header: the file is then written anew
/// beside the old one and renamed over it.
class CsvLog {
 public:
  /// With a step to resume from, later rows and an unfinished last one are cut.
  CsvLog(const std::filesystem::path& path, std::optional<std::int64_t> resume_step);

  void write(std::int64_t step, double time, const Metrics& metrics);
  void flush() { file_.flush(); }

 private:
  void widen(const Metrics& metrics);
  std::string header() const;

  std::filesystem::path path_;
  AppendFile file_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::size_t> columns_;
};

}  // namespace camber::health
