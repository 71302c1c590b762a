#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "camber/health/records.h"
#include "camber/health/rules.h"

namespace camber::health {

/// What the rules say about a run, finished or running.
struct RunDiagnosis {
  std::filesystem::path run{};
  std::int64_t first_step = 0;
  std::int64_t last_step = 0;
  std::size_t records = 0;
  std::size_t samples = 0;  ///< records with health metrics
  Findings findings{};      ///< worst first
};

/// The rules over the records, and the skipped steps that the run itself told of in health.jsonl.
RunDiagnosis diagnose(const std::vector<Record>& records, const Findings& told, const RuleOptions& options = {});

/// The same for a folder. Throws std::invalid_argument when it holds no metrics.jsonl.
///
///   std::cout << to_text(diagnose_run("runs/a"));
RunDiagnosis diagnose_run(const std::filesystem::path& run, const RuleOptions& options = {});

std::string to_text(const RunDiagnosis& diagnosis);
/// {"run", "first_step", "last_step", "records", "samples", "findings": [{"severity", "step", "rule", "subject",
/// "value", "sentence"}]}
std::string to_json(const RunDiagnosis& diagnosis);
/// One row a finding.
std::string to_csv(const RunDiagnosis& diagnosis);

}  // namespace camber::health
