#pragma once
#include <cstddef>
#include <filesystem>

#include "camber/report/page.h"

namespace camber::report {

struct RunReportOptions {
  std::size_t points = 6000;       ///< most points of a curve
  std::size_t head_points = 1000;  ///< of a curve of a single head
  double refresh_seconds = 0;
};

/// The page of a run, finished or running, from the files of its folder: metrics.jsonl, health.jsonl, config.toml,
/// environment.json, and where they are there
///
///   result.json   `clean` and `faults` with the keys of the metrics: fault table, classes
///   curves.json   {"car:0.5": {"recall": [], "precision": []}}, as the devkit's metrics_details.json
///   images/     *.png, *.jpg, *.svg by name, with captions.json {"file": "caption"}
///
/// Throws std::invalid_argument when the folder holds no metrics.jsonl.
Page run_page(const std::filesystem::path& run, const RunReportOptions& options = {});

}  // namespace camber::report
