#include "camber/study/results.h"

#include <algorithm>
#include <stdexcept>
#include <tuple>

#include <fmt/format.h>

#include "camber/config/options.h"

namespace camber::study {
namespace {

std::filesystem::path records_folder(const std::filesystem::path& path) {
  return std::filesystem::exists(path / "plan.toml") ? path : path / "records";
}

// Plan and records as they lie there.
template <class Results>
Results read_as(const std::filesystem::path& path) {
  if (!is_study(path))
    throw std::invalid_argument(
        fmt::format("[study] the folder must hold a study's records with plan.toml, got {}", path.string()));
  const std::filesystem::path folder = records_folder(path);
  Results results;
  results.plan = config::load_stored((folder / "plan.toml").string(), results.plan);
  results.records = read_run_records(folder);
  return results;
}

}  // namespace

bool is_study(const std::filesystem::path& path) {
  return std::filesystem::exists(records_folder(path) / "plan.toml");
}

FewshotResults read_fewshot_study(const std::filesystem::path& path) {
  auto results = read_as<FewshotResults>(path);
  std::stable_sort(results.records.begin(), results.records.end(), [](const RunRecord& a, const RunRecord& b) {
    return std::tie(a.arm, a.seed) < std::tie(b.arm, b.seed);
  });
  return results;
}

StudyResults read_study(const std::filesystem::path& path) {
  auto results = read_as<StudyResults>(path);
  const auto position = [&results](const RunRecord& record) -> std::int64_t {
    const auto& arms = results.plan.arms;
    if (record.arm == "base") return -2;
    if (record.arm == "doubled") return -1;
    return std::find_if(
               arms.begin(), arms.end(), [&](const StudyArm& arm) { return arm.name == record.arm; }) -
           arms.begin();
  };
  std::erase_if(
      results.records, [&](const RunRecord& record) { return position(record) == std::ssize(results.plan.arms); });
  std::stable_sort(results.records.begin(), results.records.end(), [&](const RunRecord& a, const RunRecord& b) {
    return std::pair(position(a), a.seed) < std::pair(position(b), b.seed);
  });
  return results;
}

}  // namespace camber::study
