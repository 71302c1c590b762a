#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "camber/study/fewshot_plan.h"
#include "camber/study/plan.h"
#include "camber/study/record.h"

namespace camber::study {

/// What is left of a study when its models are gone: the plan and a record a run.
struct StudyResults {
  StudyPlan plan{};
  std::vector<RunRecord> records{};  ///< in the plan's order of arms, then by seed; base and doubled first
};

/// Whether this is the folder of a study or of its records.
bool is_study(const std::filesystem::path& path);
/// Reads plan.toml and the records, from the folder of a study or from that of its records alone.
StudyResults read_study(const std::filesystem::path& path);

/// The same of a few-shot study.
struct FewshotResults {
  FewshotPlan plan{};
  std::vector<RunRecord> records{};  ///< by arm, then by seed
};
FewshotResults read_fewshot_study(const std::filesystem::path& path);

}  // namespace camber::study
