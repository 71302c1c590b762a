#include <algorithm>
#include <iomanip>
#include <map>
#include <sstream>
#include <stdexcept>

#include <camber/config/options.h>
#include <camber/eval/evaluation_config.h>
#include <camber/ops/numerics.h>
#include <camber/runs/detector_evaluation.h>
#include <camber/runs/study.h>
#include <camber/runs/study_published.h>
#include <camber/simulation/simulate.h>
#include <camber/storage/atomic_file.h>
#include <camber/storage/file.h>
#include <camber/storage/folder_lock.h>
#include <camber/study/analysis.h>
#include <camber/study/queue.h>
#include <camber/train/run_folder.h>
#include <camber/weights/state_file.h>
#include <unistd.h>

#include "runs/study_list.h"

namespace camber::runs {
namespace {

namespace fs = std::filesystem;

std::string hours(double seconds) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(seconds < 3600 ? 2 : 1) << seconds / 3600 << " h";
  return text.str();
}

class Study {
 public:
  explicit Study(const StudyRequest& request)
      : request_(request), plan_(request.options.plan), folder_{request.out}, lock_(folder_.lock(), 10) {}

  StudyResult run();
  std::vector<ListedRun> list();
  StudyResult estimate_alone(double evaluated_share);

 private:
  void say(const std::string& line) const {
    if (request_.say) request_.say(line);
  }
  void import_records() const;
  void check_records() const;
  void write_plan() const;
  void tell_of_other_numerics() const;
  bool is_done(const StudyRun& run) const { return runs::is_done(request_.options, folder_, run); }
  double cost(const StudyRun& run) const { return costs_.training(request_.options, run) + costs_.evaluation(run); }
  void measure();
  void estimate();
  void run_all(const std::vector<StudyRun>& runs);
  void on_output(const study::QueueTask& task, const std::string& line);
  void ended(const study::QueueTask& task, const std::string& failure);
  void show_progress() const;

  const StudyRequest& request_;
  const study::StudyPlan& plan_;
  const StudyFolder folder_;
  const storage::FolderLock lock_;
  StudyCosts costs_;
  StudyResult result_;
  double total_seconds_ = 0, done_seconds_ = 0;
  std::map<std::string, double> running_;  // seconds of work that are done, by run
};

void Study::import_records() const {
  if (plan_.published_bases)  // also when it goes on: they must be there
    return import_bases({request_.start}, folder_, base_runs(plan_, request_.choice));
  if (request_.start.empty()) return;
  import_published({request_.start}, folder_, [this](const std::string& arm) { return is_planned(plan_, arm); });
}

void Study::check_records() const {
  const std::string fingerprint = data_fingerprint(request_.options);
  runs::check_records(folder_, [&](const StudyRun& run) {
    return is_planned(plan_, run.arm) ? hash_of(request_.options, run, fingerprint) : std::string();
  });
}

void Study::write_plan() const {
  fs::create_directories(folder_.records());
  storage::write_file(folder_.config(), config::to_toml(request_.options));
  storage::write_file(folder_.plan(), config::to_toml(plan_));
}

// Once, before hours of work: the bits of such records cannot be had from this program.
void Study::tell_of_other_numerics() const {
  std::map<std::int64_t, std::vector<std::string>> others;
  for (const study::RunRecord& record : study::read_run_records(folder_.records()))
    if (record.numerics != ops::kNumerics) others[record.numerics].push_back(record.key());
  for (const auto& [numerics, keys] : others)
    say(weights::numerics_sentence(
        keys[0] + (keys.size() > 1 ? " (and " + std::to_string(keys.size() - 1) + " more)" : ""), numerics));
}

void Study::measure() {
  if (!fs::exists(folder_.probe()) && study::read_run_records(folder_.records()).empty()) {
    say("measuring a few steps");
    const StudyRun probe{"probe", 0};
    std::string problem;
    study::run_queue({queue_task(request_, probe.key())}, 1,
                     {.ends = [&problem](const study::QueueTask&, const std::string& failure) { problem = failure; }});
    if (!problem.empty()) throw std::runtime_error("[study] the probe failed: " + problem);
  }
  costs_ = known_costs(folder_);
}

void Study::estimate() {
  double left = 0;
  std::vector<StudyRun> runs = base_runs(plan_, request_.choice);
  const std::vector<StudyRun> arms = arm_runs(plan_, request_.choice);
  runs.insert(runs.end(), arms.begin(), arms.end());
  for (const StudyRun& run : runs) {
    total_seconds_ += cost(run);
    (is_done(run) ? done_seconds_ : left) += cost(run);
    result_.done_before += is_done(run) ? 1 : 0;
  }
  result_.runs = std::ssize(runs);
  result_.estimated_hours = left / 3600 / static_cast<double>(plan_.processes);
  std::ostringstream line;
  line << runs.size() << " runs, " << result_.done_before << " of them done; about "
       << hours(left / static_cast<double>(plan_.processes)) << " to go with " << plan_.processes << " at a time (by "
       << costs_.source << ": " << std::fixed << std::setprecision(0) << 1e3 * costs_.base_step << " ms a step plain, "
       << 1e3 * costs_.branch_step << " with the bias, " << costs_.base_evaluation << " and "
       << costs_.branch_evaluation << " s an evaluation)";
  say(line.str());
}

void Study::on_output(const study::QueueTask& task, const std::string& line) {
  const StudyRun run = StudyRun::parse(task.key);
  std::istringstream words(line);
  std::string phase;
  double share = 0;
  if (!(words >> phase >> share)) return;
  const double training = costs_.training(request_.options, run);
  running_[task.key] = phase == "trained" ? share * training : training + share * costs_.evaluation(run);
  show_progress();
}

void Study::show_progress() const {
  double running = 0;
  for (const auto& [key, seconds] : running_) running += seconds;
  if (request_.progress) request_.progress(done_seconds_ + running, total_seconds_);
}

void Study::ended(const study::QueueTask& task, const std::string& failure) {
  const StudyRun run = StudyRun::parse(task.key);
  running_.erase(task.key);
  done_seconds_ += cost(run);
  const double left = std::max(0.0, total_seconds_ - done_seconds_) / static_cast<double>(plan_.processes);
  keep_failure(folder_, task.key, failure);
  if (failure.empty()) {
    const study::RunRecord record = study::parse_record(storage::read_file(folder_.record(run)), task.key);
    std::ostringstream line;
    line << task.key << ": clean mAP " << std::fixed << std::setprecision(3) << record.find("clean")->mean_ap
         << ", outcome " << study::outcome_of(plan_, record).value_or(0) << "; about " << hours(left) << " left";
    say(line.str());
  } else {
    result_.failed.push_back(task.key);
    say(task.key + " failed: " + failure);
  }
  show_progress();
}

void Study::run_all(const std::vector<StudyRun>& runs) {
  std::vector<study::QueueTask> tasks;
  for (const StudyRun& run : runs) {
    if (is_done(run)) {
      if (run.arm != kBase) fs::remove_all(folder_.run(run));  // left by a kill just after its record
      continue;
    }
    study::QueueTask task = queue_task(request_, run.key());
    const StudyRun base{kBase, run.seed};
    const bool branches = run.arm != kBase && training_of(request_.options, run).branches;
    if (branches && !is_done(base)) {
      ended(task, base.key() + ", which it needs, failed");
      continue;
    }
    tasks.push_back(std::move(task));
  }
  study::run_queue(
      tasks, plan_.processes,
      {.says = [this](const study::QueueTask& task, const std::string& line) { on_output(task, line); },
       .ends = [this](const study::QueueTask& task, const std::string& failure) { ended(task, failure); }});
}

std::vector<ListedRun> Study::list() {
  import_records();
  if (has_world(request_.options)) check_records();
  write_plan();
  return listed_runs(request_);
}

StudyResult Study::run() {
  make_world(request_);
  import_records();
  check_records();
  tell_of_other_numerics();
  write_plan();
  measure();
  estimate();
  run_all(base_runs(plan_, request_.choice));
  if (!gates_hold(plan_, folder_, request_.say) && plan_.gates.stop) {
    result_.stopped_at_gates = true;
    return result_;
  }
  run_all(arm_runs(plan_, request_.choice));
  return result_;
}

// In a folder that is removed afterwards. What is known of the study's costs was copied there; otherwise a few steps
// are measured, where there is no world yet in a small one, whose evaluations see `evaluated_share` of the frames.
StudyResult Study::estimate_alone(double evaluated_share) {
  const bool real = has_world(request_.options);
  make_world(request_);
  import_records();
  if (real) check_records();
  write_plan();
  measure();
  if (costs_.probed) {
    costs_.base_evaluation /= evaluated_share;
    costs_.branch_evaluation /= evaluated_share;
  }
  estimate();
  return result_;
}

// A folder of its own that is gone with the object.
class ScratchStudy {
 public:
  ScratchStudy() : path_(fs::temp_directory_path() / ("camber_estimate_" + std::to_string(getpid()))) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~ScratchStudy() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchStudy(const ScratchStudy&) = delete;
  ScratchStudy& operator=(const ScratchStudy&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// Records, costs and the bases' weights: what is_done and known_costs look at.
void copy_known(const StudyFolder& from, const StudyFolder& to) {
  fs::create_directories(to.records());
  if (fs::exists(from.records())) fs::copy(from.records(), to.records(), fs::copy_options::recursive);
  if (fs::exists(from.probe())) fs::copy_file(from.probe(), to.probe());
  for (const study::RunRecord& record : study::read_run_records(from.records())) {
    const StudyRun run{record.arm, record.seed};
    if (!fs::exists(from.weights(run))) continue;
    fs::create_directories(to.run(run));
    fs::copy_file(from.weights(run), to.weights(run));
  }
}

StudyResult estimate_study(const StudyRequest& request) {
  constexpr std::int64_t kFewScenes = 8;
  const ScratchStudy scratch;
  StudyRequest trial = request;
  trial.out = scratch.path() / "study";
  copy_known({request.out}, {trial.out});
  study::StudyPlan& plan = trial.options.plan;
  const auto absent = [&](const study::StudyWorld& of) {
    return !of.root.empty() && !fs::exists(fs::path(of.root) / request.options.training.data.version);
  };
  study::StudyWorld& world = plan.test_world.root.empty() ? plan.world : plan.test_world;
  double share = 1;
  if (&world != &plan.world && absent(plan.world)) {
    plan.world.root = (scratch.path() / "training_world").string();
    plan.world.scenes = std::min(plan.world.scenes, kFewScenes);
  }
  if (absent(world)) {
    const auto frames_of = [&](std::int64_t scenes) {
      for (const auto& split : simulation::SimulationOptions{.scenes = scenes}.splits())
        if (split.name == request.options.plan.split) return split.scenes * world.frames;
      return std::int64_t{0};
    };
    const std::int64_t few = std::min(world.scenes, kFewScenes), wanted = request.options.plan.frames;
    const auto evaluated = [wanted](std::int64_t there) { return wanted == 0 ? there : std::min(wanted, there); };
    const std::int64_t all = evaluated(frames_of(world.scenes));
    if (all > 0) share = static_cast<double>(evaluated(frames_of(few))) / static_cast<double>(all);
    world.root = (scratch.path() / "world").string();
    world.scenes = few;
  }
  return Study(trial).estimate_alone(share);
}

}  // namespace

namespace {

// What can be refused before hours of work.
void check_study(const StudyRequest& request) {
  request.options.validate();
  if (request.options.plan.arms.empty())
    throw std::invalid_argument("[study] arms must not be empty: give a configuration with --config");
  const std::vector<std::string>& conditions = request.options.plan.conditions;  // clean, then faults
  parse_conditions({conditions.begin() + 1, conditions.end()});
  for (const study::StudyArm& arm : request.options.plan.arms)
    training_of(request.options, {arm.name, 0});  // refuses scales out of reach
  const fs::path& metric_config = request.options.training.evaluation.config;
  if (!metric_config.empty())
    eval::EvaluationConfig::read(metric_config);  // before a world is made, not after its first model
}

}  // namespace

StudyResult run_study(const StudyRequest& request) {
  check_study(request);
  return request.estimate_only ? estimate_study(request) : Study(request).run();
}

std::vector<ListedRun> list_study(const StudyRequest& request) {
  check_study(request);
  StudyRequest anywhere = request;  // its commands are started from any folder
  for (std::string* root : {&anywhere.options.plan.world.root, &anywhere.options.plan.test_world.root})
    if (!root->empty()) *root = fs::absolute(*root).lexically_normal().string();
  return Study(anywhere).list();
}

}  // namespace camber::runs
