#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <camber/runs/fewshot_options.h>
#include <camber/runs/study_folder.h>
#include <camber/study/fewshot_plan.h>

/// The few-shot study: arms with seeds, each run a process with a record. No torch header here.
namespace camber::runs {

struct FewshotStudyRequest {
  study::FewshotPlan plan{};
  std::filesystem::path out{};
  std::filesystem::path start{};    ///< a published study whose records are taken over; empty: none
  std::vector<std::string> only{};  ///< parts, or arms such as letter_fixed; empty: all
  std::function<void(const std::string& line)> say{};
  std::function<void(std::int64_t done, std::int64_t total)> progress{};  ///< runs
};

struct FewshotStudyResult {
  std::int64_t runs = 0, done_before = 0;
  std::vector<std::string> failed{};  ///< names of the runs that failed
};

/// The runs of a plan, in its order; std::invalid_argument when `only` names what it does not have.
std::vector<StudyRun> fewshot_runs(const study::FewshotPlan& plan, const std::vector<std::string>& only = {});

/// The configuration of one run: its part's file, the part's options, the arm's, the seed.
FewshotOptions options_of(const study::FewshotPlan& plan, const StudyRun& run);
/// What its numbers depend on, as a short hexadecimal sum.
std::string hash_of(const FewshotOptions& options);

/// Carries out a study or what is left of it. A run that has a record is not repeated; half of a run goes on from its
/// checkpoint; a run that fails leaves a sentence in failed/ and is tried again when the study is started again. Throws
/// std::invalid_argument before any run when a configuration is wrong, and when the folder, or the published study that
/// it starts from, holds records of another configuration.
FewshotStudyResult run_fewshot_study(const FewshotStudyRequest& request);

/// Writes the plan into the folder, trains nothing, and lists the runs. Refuses what run_fewshot_study refuses.
std::vector<ListedRun> list_fewshot_study(const FewshotStudyRequest& request);
/// Does one of them, once (do_once).
void run_named_fewshot(const study::FewshotPlan& plan, const StudyFolder& folder, const std::string& name);

/// Trains and tests one run, or what is left of it, and writes its record, at last and in one piece.
void execute_fewshot_run(const study::FewshotPlan& plan, const StudyFolder& folder, const StudyRun& run);

}  // namespace camber::runs
