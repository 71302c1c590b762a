#pragma once
#include <cstdint>
#include <filesystem>

#include "camber/health/finding.h"
#include "health/made_run.h"

namespace camber::health {

struct MadeFolderOptions {
  MadeRunOptions run{};
  std::int64_t steps = 600;
  std::int64_t interval = 10;      ///< of health samples
  std::int64_t loss_interval = 1;  ///< of losses
  bool finished = true;            ///< with result.json, curves and images
  bool resumed = false;            ///< half-way it is stopped and continued from 30 steps before
};

/// Writes the whole folder of a run: metrics, findings, configuration, environment, result, curves, images. Returns
/// what the monitor said.
Findings write_made_run(const std::filesystem::path& folder, const MadeFolderOptions& options);

}  // namespace camber::health
