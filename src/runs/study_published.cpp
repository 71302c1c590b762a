#include "camber/runs/study_published.h"

#include <stdexcept>

#include <fmt/format.h>

#include "camber/config/options.h"
#include "camber/runs/study_run.h"
#include "camber/storage/atomic_file.h"
#include "camber/storage/file.h"
#include "camber/study/plan.h"
#include "camber/study/record.h"

namespace camber::runs {
namespace {

namespace fs = std::filesystem;

void copy_whole(const fs::path& from, const fs::path& to) {
  fs::create_directories(to.parent_path());
  storage::write_file(to, storage::read_file(from));
}

}  // namespace

void publish(const StudyFolder& from, const PublishedStudy& to) {
  if (!fs::exists(from.plan()))
    throw std::invalid_argument("[study] --from must hold a study that was begun, got " + from.path.string() +
                                " without records");
  copy_whole(from.plan(), to.records() / from.plan().filename());
  // Bases that another study published are kept there. (A few-shot study has none, and another plan.)
  const auto own_bases = [&] { return !config::load_stored(from.plan().string(), study::StudyPlan{}).published_bases; };
  for (const study::RunRecord& record : study::read_run_records(from.records())) {
    const StudyRun run{record.arm, record.seed};
    copy_whole(from.record(run), to.records() / from.record(run).filename());
    if (run.arm == kBase && fs::exists(from.weights(run)) && own_bases())
      copy_whole(from.weights(run), to.base(run.seed));
  }
}

void import_published(const PublishedStudy& from, const StudyFolder& to,
                      const std::function<bool(const std::string& arm)>& is_planned) {
  const std::vector<study::RunRecord> records = study::read_run_records(from.records());
  if (records.empty())
    throw std::invalid_argument("[study] --start must hold a published study with records/, got " + from.path.string());
  for (const study::RunRecord& record : records) {
    const StudyRun run{record.arm, record.seed};
    if (!is_planned(run.arm)) continue;
    if (!fs::exists(to.record(run))) copy_whole(from.records() / to.record(run).filename(), to.record(run));
    if (run.arm == kBase && !fs::exists(to.weights(run)) && fs::exists(from.base(run.seed)))
      copy_whole(from.base(run.seed), to.weights(run));
  }
}

void import_bases(const PublishedStudy& from, const StudyFolder& to, const std::vector<StudyRun>& bases) {
  for (const StudyRun& base : bases) {
    if (fs::exists(to.weights(base))) continue;
    const fs::path record = from.records() / to.record(base).filename();
    if (base.arm != kBase || !fs::exists(from.base(base.seed)) || !fs::exists(record))
      throw std::invalid_argument("[study] --start must hold " + base.key() + " with its record, got " +
                                  from.path.string());
    const std::string wanted = study::parse_record(storage::read_file(record), record.string()).weights;
    const std::string found = sum_of_weights(*detection::Detector::load(from.base(base.seed)));
    if (found != wanted)
      throw std::runtime_error(
          fmt::format("[study] {} must have the weights {} of its record, got {}", base.key(), wanted, found));
    copy_whole(from.base(base.seed), to.weights(base));
  }
}

}  // namespace camber::runs
