#include "camber/runs/fewshot_study.h"

#include <algorithm>
#include <set>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "camber/config/names.h"
#include "camber/runs/fewshot_run.h"
#include "camber/runs/study_published.h"
#include "camber/storage/atomic_file.h"
#include "camber/storage/file.h"
#include "camber/storage/folder_lock.h"
#include "camber/study/record.h"
#include "camber/train/run_folder.h"

namespace camber::runs {
namespace {

namespace fs = std::filesystem;

void check_chosen(const study::FewshotPlan& plan, const std::vector<std::string>& only) {
  std::vector<std::string> known;
  for (const study::FewshotPart& part : plan.parts) {
    known.push_back(part.name);
    for (const study::FewshotArm& arm : part.arms) known.push_back(part.arm_name(arm));
  }
  for (const std::string& name : only)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw std::invalid_argument(
          fmt::format("[study] --only must name parts or arms of the plan, got '{}' (did you "
                      "mean '{}'?)",
                      name, config::nearest_name(name, known)));
}

// The files' names alone: it is read where the configurations may not lie.
std::string plan_text(study::FewshotPlan plan) {
  for (study::FewshotPart& part : plan.parts) part.config = part.config.filename();
  return config::to_toml(plan);
}

void add_values(study::RunRecord& record, const FewshotResult& result) {
  record.values["train_classes"] = static_cast<double>(result.train_classes);
  record.values["test_classes"] = static_cast<double>(result.test_classes);
  for (const SettingResult& setting : result.settings) {
    record.values[setting.name + "/accuracy"] = setting.accuracy.mean;
    record.values[setting.name + "/interval"] = setting.accuracy.half_width;
    record.values[setting.name + "/episodes"] = static_cast<double>(setting.accuracy.count);
    record.values[setting.name + "/chance"] = setting.chance;
  }
  for (const LeakResult& leak : result.leaks) {
    const std::string name = "leak/" + leak.feature + "/";
    record.values[name + "leak_index"] = leak.leak.index;
    record.values[name + "class_probe"] = leak.class_probe.accuracy;
    record.values[name + "class_chance"] = leak.class_probe.chance;
    record.values[name + "domain_probe"] = leak.domain_probe.accuracy;
    record.values[name + "domain_chance"] = leak.domain_probe.chance;
  }
  for (const ScaleResult& scale : result.scales) {
    const std::string name = "scale/" + scale.name + "/";
    record.scales[scale.name] = scale.value;
    record.values[name + "start"] = scale.start;
    record.values[name + "raw"] = scale.raw;
    record.values[name + "share_at_bound"] = scale.share_at_bound;
    for (const auto& [step, value] : scale.curve) {
      record.curves[name + "value"].steps.push_back(step);
      record.curves[name + "value"].values.push_back(value);
    }
  }
  for (const auto& [name, value] : result.statistics) record.values["sap/" + name] = value;
}

}  // namespace

std::vector<StudyRun> fewshot_runs(const study::FewshotPlan& plan, const std::vector<std::string>& only) {
  check_chosen(plan, only);
  const auto chosen = [&only](const std::string& name) {
    return only.empty() || std::find(only.begin(), only.end(), name) != only.end();
  };
  std::vector<StudyRun> runs;
  for (const study::FewshotPart& part : plan.parts)
    for (const study::FewshotArm& arm : part.arms)
      for (const std::int64_t seed : plan.seeds)
        if (chosen(part.name) || chosen(part.arm_name(arm))) runs.push_back({part.arm_name(arm), seed});
  return runs;
}

FewshotOptions options_of(const study::FewshotPlan& plan, const StudyRun& run) {
  for (const study::FewshotPart& part : plan.parts)
    for (const study::FewshotArm& arm : part.arms) {
      if (part.arm_name(arm) != run.arm) continue;
      std::vector<std::string> changes = part.options;
      changes.insert(changes.end(), arm.options.begin(), arm.options.end());
      auto options = config::load<FewshotOptions>({.file = part.config.string(), .arguments = std::move(changes)});
      options.seed = run.seed;
      return options;
    }
  throw std::invalid_argument(fmt::format("[study] a run must be one of the plan's arms, got '{}'", run.key()));
}

std::string hash_of(const FewshotOptions& options) {
  return sum_of_text(changed_lines(config::differences(FewshotOptions{}, options)));
}

namespace {

const std::vector<std::string> kFewshotCommand = {"study", "fewshot", "run"};

// Refuses what is wrong before the folder is touched; the names of all arms.
std::set<std::string> planned_arms(const FewshotStudyRequest& request) {
  const study::FewshotPlan& plan = request.plan;
  plan.validate();
  if (plan.parts.empty())
    throw std::invalid_argument("[study] parts must not be empty: give a configuration with --config");
  fewshot_runs(plan, request.only);
  std::set<std::string> planned;
  for (const StudyRun& run : fewshot_runs(plan)) {
    options_of(plan, run);  // refuses a wrong configuration before any run
    planned.insert(run.arm);
  }
  return planned;
}

// Takes published records over and writes the plan.
void begin_fewshot_study(const FewshotStudyRequest& request, const std::set<std::string>& planned) {
  const study::FewshotPlan& plan = request.plan;
  const StudyFolder folder{request.out};
  const auto is_planned = [&planned](const std::string& arm) { return planned.contains(arm); };
  if (!request.start.empty()) import_published({request.start}, folder, is_planned);
  check_records(folder, [&](const StudyRun& run) {
    return is_planned(run.arm) ? hash_of(options_of(plan, run)) : std::string();
  });
  fs::create_directories(folder.records());
  storage::write_file(folder.config(), config::to_toml(plan));
  storage::write_file(folder.plan(), plan_text(plan));
}

}  // namespace

std::vector<ListedRun> list_fewshot_study(const FewshotStudyRequest& request) {
  const std::set<std::string> planned = planned_arms(request);
  const StudyFolder folder{request.out};
  const storage::FolderLock lock(folder.lock(), 10);
  begin_fewshot_study(request, planned);
  std::vector<ListedRun> listed;
  for (const StudyRun& run : fewshot_runs(request.plan, request.only))
    listed.push_back({.name = run.key(),
                      .command = task_of(folder, kFewshotCommand, run.key()).command,
                      .done = fs::exists(folder.record(run))});
  return listed;
}

void run_named_fewshot(const study::FewshotPlan& plan, const StudyFolder& folder, const std::string& name) {
  const StudyRun run = StudyRun::parse(name);
  do_once(
      folder, name, [&] { return fs::exists(folder.record(run)); }, [&] { execute_fewshot_run(plan, folder, run); });
}

FewshotStudyResult run_fewshot_study(const FewshotStudyRequest& request) {
  const study::FewshotPlan& plan = request.plan;
  const std::set<std::string> planned = planned_arms(request);
  const StudyFolder folder{request.out};
  const storage::FolderLock lock(folder.lock(), 10);
  begin_fewshot_study(request, planned);
  const std::vector<StudyRun> runs = fewshot_runs(plan, request.only);
  std::vector<study::QueueTask> tasks;
  for (const StudyRun& run : runs)
    if (fs::exists(folder.record(run)))
      fs::remove_all(folder.run(run));  // left by a kill just after its record
    else
      tasks.push_back(task_of(folder, kFewshotCommand, run.key()));
  FewshotStudyResult result{.runs = std::ssize(runs), .done_before = std::ssize(runs) - std::ssize(tasks)};
  if (request.say) request.say(fmt::format("{} runs, {} of them done", result.runs, result.done_before));
  std::int64_t done = result.done_before;
  const auto ended = [&](const study::QueueTask& task, const std::string& failure) {
    keep_failure(folder, task.key, failure);
    if (!failure.empty()) result.failed.push_back(task.key);
    if (!failure.empty() && request.say) request.say(task.key + " failed: " + failure);
    if (request.progress) request.progress(++done, result.runs);
  };
  study::run_queue(tasks, plan.processes, {.ends = ended});
  return result;
}

void execute_fewshot_run(const study::FewshotPlan& plan, const StudyFolder& folder, const StudyRun& run) {
  const FewshotOptions options = options_of(plan, run);
  const std::string config = config::to_toml(options);
  const fs::path own = folder.run(run);
  const bool resume = train::RunFolder::can_resume(own, config);
  if (!resume) fs::remove_all(own);
  const FewshotResult result = run_fewshot(options, {.threads = 1, .out = own, .resume = resume, .config = config});
  const train::Environment environment = train::Environment::of_this_program();
  const auto kept = nlohmann::json::parse(storage::read_file(train::RunFolder::open(own).environment()));
  study::RunRecord record{.arm = run.arm,
                          .seed = run.seed,
                          .steps = result.episodes / options.training.episodes_per_step,
                          .scale_lr_mult = result.scales.empty() ? 0 : options.training.scale_lr_mult,
                          .config_hash = hash_of(options),
                          .data_fingerprint = kept.at("data_fingerprint"),
                          .commit = environment.commit,
                          .instruction_set = environment.instruction_set,
                          .numerics = environment.numerics};
  // Of the steps of this session, which may be the rest of a run; infinite, and kept as none, when there was no step.
  const auto episodes_a_step = static_cast<double>(options.training.episodes_per_step);
  record.milliseconds_a_step = 1e3 * episodes_a_step / result.episodes_per_second;
  record.training_seconds = record.milliseconds_a_step / 1e3 * static_cast<double>(record.steps);
  add_values(record, result);
  storage::write_file(folder.record(run), to_json(record));
  fs::remove_all(own);
}

}  // namespace camber::runs
