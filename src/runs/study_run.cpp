#include <algorithm>
#include <chrono>
#include <cmath>
#include <sstream>
#include <stdexcept>

#include <camber/config/options.h>
#include <camber/detection/weights.h>
#include <camber/health/records.h>
#include <camber/runs/detector_run.h>
#include <camber/runs/study_run.h>
#include <camber/storage/atomic_file.h>
#include <camber/storage/file.h>
#include <camber/weights/checksums.h>
#include <camber/weights/load.h>
#include <nlohmann/json.hpp>

#include "runs/study_evaluation.h"

namespace camber::runs {
namespace {

namespace fs = std::filesystem;

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

bool is_kept(const std::string& name) {
  const auto begins = [&name](const char* with) { return name.starts_with(with); };
  return (begins("scale/") && name.ends_with("/value")) ||
         (begins("effective_bias/") && !begins("effective_bias/layer") && name.ends_with("/mean")) ||
         (begins("trust/") && name.ends_with("/mean")) ||
         (begins("attention/") && name.find("/head") == std::string::npos &&
          (name.ends_with("/change") || name.ends_with("/mass/camera") || name.ends_with("/effective_keys")));
}

void add_history(study::RunRecord& record, const fs::path& metrics) {
  const auto series = health::to_series(health::read_records(metrics));
  for (const auto& [name, one] : series) {
    if (!is_kept(name)) continue;
    study::RunCurve& curve = record.curves[name];
    for (const double step : one.steps) curve.steps.push_back(static_cast<std::int64_t>(step));
    curve.values = one.values;
  }
  if (const auto found = series.find("seconds_a_step"); found != series.end()) {
    std::vector<double> seconds = found->second.values;
    std::sort(seconds.begin(), seconds.end());
    record.milliseconds_a_step = 1e3 * seconds[seconds.size() / 2];
  }
}

study::RunRecord record_of(const StudyFolder& folder, const StudyRun& run) {
  return study::parse_record(storage::read_file(folder.record(run)), folder.record(run).string());
}

// Weights that were made again, or came from elsewhere, must be those that the run's record speaks of.
void check_weights(const StudyFolder& folder, const StudyRun& run, const std::string& found) {
  const study::RunRecord record = record_of(folder, run);
  if (found != record.weights)
    throw std::runtime_error("[study] " + run.key() + " must have the weights " + record.weights +
                             " of its record, got " + found +
                             " (another model, build, instruction set or number of threads)");
}

DetectorRunResult train_run(const StudyFolder& folder, const StudyRun& run, const RunTraining& training,
                            const RunListener& listener) {
  const fs::path own = folder.run(run);
  if (training.given) return {.steps = training.options.loop.steps};
  const bool resume = train::RunFolder::can_resume(own, config::to_toml(training.options));
  if (!resume) fs::remove_all(own);
  DetectorRunRequest request{.options = training.options, .out = own, .resume = resume, .evaluate = false};
  if (training.branches) {
    const StudyRun base{kBase, run.seed};
    request.from = folder.weights(base);
    check_weights(folder, base, sum_of_weights(*detection::Detector::load(request.from)));
  }
  request.say = listener.say;
  request.after_step = [&](const train::StepReport& report, const std::string&) {
    if (listener.trained)
      listener.trained(static_cast<double>(report.step) / static_cast<double>(training.options.loop.steps));
  };
  return train_detector(request);
}

}  // namespace

// Mapping and clip follow from the configuration, which has a hash of its own, and older models have none.
std::string sum_of_weights(const detection::DetectorImpl& detector) {
  const weights::SettingNames settings = weights::settings_of(detector);
  std::ostringstream sums;
  for (const auto& [name, tensor] : weights::tensors_of(detector)) {
    if (settings.is_later(name.substr(std::string_view(weights::kModelPrefix).size()))) continue;
    const torch::Tensor whole = tensor.contiguous();
    sums << name << ' '
         << weights::checksum(
                {static_cast<const std::byte*>(whole.const_data_ptr()), static_cast<std::size_t>(whole.nbytes())})
         << '\n';
  }
  return sum_of_text(sums.str());
}

namespace {

// The arms whose records belong to a run: those that share its model, and itself, last.
std::vector<StudyRun> records_of_run(const study::StudyPlan& plan, const StudyRun& run) {
  std::vector<StudyRun> all;
  if (run.arm != kBase && run.arm != kDoubled)
    for (const study::StudyArm* arm : plan.sharing(run.arm))
      if (run.seed < plan.seeds_of(*arm)) all.push_back({arm->name, run.seed});
  all.push_back(run);
  return all;
}

study::RunRecord described(const StudyOptions& options, const StudyFolder& folder, const StudyRun& run,
                           const RunTraining& training, const DetectorRunResult& trained) {
  const train::Environment environment = train::Environment::of_this_program();
  study::RunRecord record{.arm = run.arm,
                          .seed = run.seed,
                          .steps = trained.steps,
                          .scale_lr_mult = training.scale_lr_mult,
                          .scales = {trained.scales.begin(), trained.scales.end()},
                          .data_fingerprint = data_fingerprint(options),
                          .commit = environment.commit,
                          .instruction_set = environment.instruction_set,
                          .numerics = environment.numerics};
  if (!training.given) add_history(record, folder.run(run) / "metrics.jsonl");
  record.training_seconds = record.milliseconds_a_step / 1e3 * static_cast<double>(record.steps);
  return record;
}

// Evaluates what has no record yet of the run's arms, and writes their records, its own last.
void evaluate_run(const StudyOptions& options, const StudyFolder& folder, const StudyRun& run,
                  const std::vector<StudyRun>& left, const study::RunRecord& common, detection::Detector& detector,
                  const RunListener& listener) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<EvaluatedArm> arms;
  arms.reserve(left.size());
  for (const StudyRun& one : left) arms.push_back({one.arm, training_of(options, one)});
  const DetectorTrainingOptions& own = arms.front().training.options;
  const nuscenes::Dataset dataset(own.data.root, own.data.version, 1);
  const study::StudyPlan& plan = options.plan;
  const nuscenes::Dataset tested(plan.test_world.root.empty() ? own.data.root : plan.test_world.root, own.data.version,
                                 1);
  std::map<std::string, double> calibrated;
  if (plan.calibration.enabled) calibrated = calibrate(plan, own, dataset, detector);
  StudyEvaluation evaluation = evaluation_of(options, run, arms, tested);
  std::int64_t done = 0;
  if (listener.evaluated)
    evaluation.request.progress = [&, total = evaluation.frames()](std::int64_t frames) {
      listener.evaluated(static_cast<double>(done += frames) / static_cast<double>(total));
    };
  std::vector<Measured> measured = measure(evaluation, detector, arms.size(), plan.calibration.enabled);
  for (std::size_t i = 0; i < left.size(); ++i) {
    study::RunRecord record = common;
    record.arm = left[i].arm;
    record.config_hash = hash_of(options, left[i], record.data_fingerprint);
    record.measurements = std::move(measured[i].measurements);
    record.values = calibrated;
    record.values.merge(measured[i].values);
    record.evaluation_seconds = seconds_since(begin);
    storage::write_file(folder.record(left[i]), to_json(record));
  }
}

}  // namespace

bool is_done(const StudyOptions& options, const StudyFolder& folder, const StudyRun& run) {
  for (const StudyRun& one : records_of_run(options.plan, run))
    if (!fs::exists(folder.record(one))) return false;
  if (run.arm == kBase) return fs::exists(folder.weights(run));
  const StudyRun base{kBase, run.seed};
  return !training_of(options, run).branches || !fs::exists(folder.record(base)) ||
         record_of(folder, run).numerics >= record_of(folder, base).numerics;
}

void execute_run(const StudyOptions& options, const StudyFolder& folder, const StudyRun& run,
                 const RunListener& listener) {
  if (const bool arm = run.arm != kBase && run.arm != kDoubled; arm && !options.plan.arm(run.arm).shares.empty())
    return execute_run(options, folder, {options.plan.arm(run.arm).shares, run.seed}, listener);
  const RunTraining training = training_of(options, run);
  const DetectorRunResult trained = train_run(folder, run, training, listener);
  study::RunRecord common = described(options, folder, run, training, trained);
  detection::Detector detector = detection::Detector::load(folder.weights(run));
  common.weights = sum_of_weights(*detector);
  std::vector<StudyRun> left = records_of_run(options.plan, run);
  if (fs::exists(folder.record(run)) && record_of(folder, run).numerics == common.numerics) {
    check_weights(folder, run, common.weights);
    std::erase_if(left, [&folder](const StudyRun& one) { return fs::exists(folder.record(one)); });
  }
  if (!left.empty()) evaluate_run(options, folder, run, left, common, detector, listener);
  if (run.arm == kBase)
    fs::remove_all(folder.run(run) / "checkpoints");
  else
    fs::remove_all(folder.run(run));
}

double StudyCosts::training(const StudyOptions& options, const StudyRun& run) const {
  const RunTraining of_run = training_of(options, run);
  if (of_run.given) return 0;
  return static_cast<double>(of_run.options.loop.steps) *
         (of_run.options.detector.has_router() ? branch_step : base_step);
}

double StudyCosts::evaluation(const StudyRun& run) const {
  return run.arm == kBase || run.arm == kDoubled ? base_evaluation : branch_evaluation;
}

namespace {

constexpr std::int64_t kProbeSteps = 12, kProbeFrames = 16;

// Seconds a step and seconds of an evaluation of the whole.
std::pair<double, double> probe(const StudyOptions& options, const StudyFolder& folder, const StudyRun& run) {
  RunTraining training = training_of(options, run);
  training.options.loop.steps = kProbeSteps;
  training.options.log_every = 1;
  const fs::path own = folder.path / "runs" / "probe";
  fs::remove_all(own);
  train_detector({.options = training.options, .out = own, .evaluate = false});
  study::RunRecord record;
  add_history(record, own / "metrics.jsonl");
  const nuscenes::Dataset dataset(training.options.data.root, training.options.data.version, 1);
  detection::Detector detector = detection::Detector::load(own / "model.safetensors");
  const std::string& tested = options.plan.test_world.root;
  const nuscenes::Dataset test_data(tested.empty() ? training.options.data.root : tested, dataset.version(), 1);
  std::vector<EvaluatedArm> arms;
  for (const StudyRun& one : records_of_run(options.plan, run)) arms.push_back({one.arm, training_of(options, one)});
  if (options.plan.calibration.enabled) {  // a threshold that stands for the one that would be found
    detection::AlarmOptions alarms = detector->options().alarms;
    alarms.threshold = 0.1;
    detector->set_alarms(alarms);
  }
  StudyEvaluation evaluation = evaluation_of(options, run, arms, test_data);
  std::vector<nuscenes::Index>& samples = evaluation.request.split.samples;
  const auto frames = static_cast<double>(samples.size());
  samples = evenly_spaced(samples, kProbeFrames);
  for (PassMixture& mixture : evaluation.mixtures) mixture.resize(samples.size());
  const auto begin = std::chrono::steady_clock::now();
  measure(evaluation, detector, arms.size(), options.plan.calibration.enabled);
  const double share = static_cast<double>(samples.size()) / frames;
  fs::remove_all(own);
  return {record.milliseconds_a_step / 1e3, seconds_since(begin) / share};
}

}  // namespace

StudyCosts probe_costs(const StudyOptions& options, const StudyFolder& folder) {
  StudyCosts costs{.source = "a probe of " + std::to_string(kProbeSteps) + " steps"};
  std::tie(costs.base_step, costs.base_evaluation) = probe(options, folder, {kBase, 0});
  const study::StudyArm& primary = options.plan.arm(options.plan.primary.arm);
  std::tie(costs.branch_step, costs.branch_evaluation) =
      probe(options, folder, {primary.shares.empty() ? primary.name : primary.shares, 0});
  const nlohmann::json json = {{"base_step", costs.base_step},
                               {"base_evaluation", costs.base_evaluation},
                               {"branch_step", costs.branch_step},
                               {"branch_evaluation", costs.branch_evaluation}};
  storage::write_file(folder.probe(), json.dump(2) + "\n");
  return costs;
}

StudyCosts known_costs(const StudyFolder& folder) {
  StudyCosts costs{.source = "a probe of " + std::to_string(kProbeSteps) + " steps"};
  if (fs::exists(folder.probe())) {
    const auto json = nlohmann::json::parse(storage::read_file(folder.probe()));
    costs.base_step = json.at("base_step");
    costs.base_evaluation = json.at("base_evaluation");
    costs.branch_step = json.at("branch_step");
    costs.branch_evaluation = json.at("branch_evaluation");
  }
  std::vector<double> base_step, base_evaluation, branch_step, branch_evaluation;
  for (const study::RunRecord& record : study::read_run_records(folder.records())) {
    const bool base = record.arm == kBase || record.arm == kDoubled;
    const bool plain = base || record.curves.empty() || record.scales.empty();
    if (record.milliseconds_a_step > 0)  // a published base was not trained here
      (plain ? base_step : branch_step).push_back(record.milliseconds_a_step / 1e3);
    (base ? base_evaluation : branch_evaluation).push_back(record.evaluation_seconds);
  }
  const auto take = [](double& cost, const std::vector<double>& seen) {
    if (!seen.empty()) cost = mean_of(seen);
  };
  take(costs.base_step, base_step);
  take(costs.base_evaluation, base_evaluation);
  take(costs.branch_step, branch_step);
  take(costs.branch_evaluation, branch_evaluation);
  const std::size_t records = base_evaluation.size() + branch_evaluation.size();
  if (records > 0) costs.source = std::to_string(records) + " records";
  costs.probed = records == 0;
  return costs;
}

}  // namespace camber::runs
