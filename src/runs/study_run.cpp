#include <algorithm>
#include <chrono>
#include <cmath>
#include <sstream>
#include <stdexcept>

#include <camber/config/options.h>
#include <camber/detection/weights.h>
#include <camber/health/records.h>
#include <camber/runs/detector_evaluation.h>
#include <camber/runs/detector_run.h>
#include <camber/runs/study_run.h>
#include <camber/storage/atomic_file.h>
#include <camber/storage/file.h>
#include <camber/weights/checksums.h>
#include <camber/weights/load.h>
#include <nlohmann/json.hpp>

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

// A model's passes over the test frames, and how the record names them.
struct StudyEvaluation {
  DetectionRequest request;
  eval::EvaluationConfig config{};
  std::int64_t replicates = 0;
  std::vector<DetectionPass> passes{};
  std::vector<study::Measurement> names{};  // of each pass: condition and control
  std::size_t conditions = 0;

  std::size_t frames() const { return request.split.samples.size() * conditions; }
};

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Condition condition_named(const std::string& name) {
  return name == "clean" ? Condition{} : Condition{sensors::parse_fault(name)};
}

// The model's own trust everywhere, what replaces it where the plan asks for it, exchanged cues last.
void add_passes(StudyEvaluation& evaluation, const study::StudyPlan& plan, const std::vector<std::string>& conditions,
                const RunTraining& training) {
  const detection::DetectorOptions& own = training.options.detector;
  const bool cues = (own.head.cue_input || nn::uses_cues(own.router.mode)) || training.absent_above_age > 0;
  const auto add = [&evaluation](const std::string& condition, const std::string& control, DetectionPass pass) {
    pass.condition = condition_named(condition);
    evaluation.passes.push_back(std::move(pass));
    evaluation.names.push_back({.condition = condition, .control = control});
  };
  for (const std::string& condition : conditions) {
    add(condition, "", {});
    if (own.has_router() && contains(plan.control_conditions, condition))
      for (const std::string& control : plan.controls)
        if (nn::uses_content(own.router.mode) || (control != "mean" && control != "shuffled"))
          add(condition, control, {.trust = trust_control(control, "[study] controls")});
    if (!cues || !contains(plan.swapped_cues, condition)) continue;
    add(condition, "cues of clean", {.cues = condition_named("clean")});
    add("clean", "cues of " + condition, {.cues = condition_named(condition)});
  }
}

StudyEvaluation evaluation_of(const StudyOptions& options, const StudyRun& run, const RunTraining& training,
                              const nuscenes::Dataset& dataset) {
  const study::StudyPlan& plan = options.plan;
  StudyEvaluation evaluation{.request = {.dataset = dataset,
                                         .split = nuscenes::find_split(dataset, plan.split),
                                         .batch_size = options.training.evaluation.batch_size,
                                         .absent_above_age = training.absent_above_age},
                             .replicates = plan.replicates};
  nuscenes::Split& split = evaluation.request.split;
  split.samples = evenly_spaced(split.samples, plan.frames);
  split.official = false;
  if (!options.training.evaluation.config.empty())
    evaluation.config = eval::EvaluationConfig::read(options.training.evaluation.config);
  std::vector<std::string> conditions = plan.conditions;
  if (run.arm == kBase || run.arm == kDoubled) conditions.insert(conditions.end(), {"lidar_off", "cameras_off"});
  evaluation.conditions = conditions.size();
  add_passes(evaluation, plan, conditions, training);
  return evaluation;
}

std::vector<study::Measurement> measure(const StudyEvaluation& evaluation, const detection::Detector& detector) {
  const auto reports =
      evaluate_passes(detector, evaluation.request, evaluation.passes, evaluation.config,
                      {.distance_edges = {}, .point_edges = {}, .draws = evaluation.replicates, .threads = 1});
  std::vector<study::Measurement> measurements = evaluation.names;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    study::Measurement& measured = measurements[i];
    const eval::DetectionMetrics& metrics = reports[i].metrics.evaluation.metrics;
    measured.mean_ap = metrics.mean_ap;
    measured.nd_score = metrics.nd_score;
    for (std::size_t d = 0; d < evaluation.config.distance_thresholds.size(); ++d) {
      double sum = 0;
      for (const eval::ClassMetrics& entry : metrics.classes) sum += entry.average_precisions[d];
      measured.by_distance.push_back(sum / static_cast<double>(metrics.classes.size()));
    }
    measured.trust_lidar = mean_of(reports[i].trust.lidar);
    measured.trust_camera = mean_of(reports[i].trust.camera);
    for (const double value : reports[i].metrics.drawn_mean_aps)
      measured.replicates.push_back(static_cast<std::int32_t>(std::lround(1e4 * value)));
  }
  return measurements;
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

bool is_done(const StudyOptions& options, const StudyFolder& folder, const StudyRun& run) {
  if (!fs::exists(folder.record(run))) return false;
  if (run.arm == kBase) return fs::exists(folder.weights(run));
  const StudyRun base{kBase, run.seed};
  return !training_of(options, run).branches || !fs::exists(folder.record(base)) ||
         record_of(folder, run).numerics >= record_of(folder, base).numerics;
}

void execute_run(const StudyOptions& options, const StudyFolder& folder, const StudyRun& run,
                 const RunListener& listener) {
  const RunTraining training = training_of(options, run);
  const DetectorRunResult trained = train_run(folder, run, training, listener);
  const nuscenes::Dataset dataset(training.options.data.root, training.options.data.version, 1);
  const train::Environment environment = train::Environment::of_this_program();
  study::RunRecord record{.arm = run.arm,
                          .seed = run.seed,
                          .steps = trained.steps,
                          .scale_lr_mult = training.scale_lr_mult,
                          .scales = {trained.scales.begin(), trained.scales.end()},
                          .data_fingerprint = train::fingerprint_of_tables(dataset.root() / dataset.version()),
                          .commit = environment.commit,
                          .instruction_set = environment.instruction_set,
                          .numerics = environment.numerics};
  record.config_hash = hash_of(options, run, record.data_fingerprint);
  add_history(record, folder.run(run) / "metrics.jsonl");
  record.training_seconds = record.milliseconds_a_step / 1e3 * static_cast<double>(record.steps);
  detection::Detector detector = detection::Detector::load(folder.weights(run));
  record.weights = sum_of_weights(*detector);
  const bool remade = fs::exists(folder.record(run)) && record_of(folder, run).numerics == record.numerics;
  if (remade) {
    check_weights(folder, run, record.weights);
  } else {
    const auto begin = std::chrono::steady_clock::now();
    StudyEvaluation evaluation = evaluation_of(options, run, training, dataset);
    std::int64_t done = 0;
    if (listener.evaluated)
      evaluation.request.progress = [&, total = evaluation.frames()](std::int64_t frames) {
        listener.evaluated(static_cast<double>(done += frames) / static_cast<double>(total));
      };
    record.measurements = measure(evaluation, detector);
    record.evaluation_seconds = seconds_since(begin);
    storage::write_file(folder.record(run), to_json(record));
  }
  if (run.arm == kBase)
    fs::remove_all(folder.run(run) / "checkpoints");
  else
    fs::remove_all(folder.run(run));
}

double StudyCosts::training(const StudyOptions& options, const StudyRun& run) const {
  const RunTraining of_run = training_of(options, run);
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
  const detection::Detector detector = detection::Detector::load(own / "model.safetensors");
  StudyEvaluation evaluation = evaluation_of(options, run, training, dataset);
  std::vector<nuscenes::Index>& samples = evaluation.request.split.samples;
  const auto frames = static_cast<double>(samples.size());
  samples = evenly_spaced(samples, kProbeFrames);
  const auto begin = std::chrono::steady_clock::now();
  measure(evaluation, detector);
  const double share = static_cast<double>(samples.size()) / frames;
  fs::remove_all(own);
  return {record.milliseconds_a_step / 1e3, seconds_since(begin) / share};
}

}  // namespace

StudyCosts probe_costs(const StudyOptions& options, const StudyFolder& folder) {
  StudyCosts costs{.source = "a probe of " + std::to_string(kProbeSteps) + " steps"};
  std::tie(costs.base_step, costs.base_evaluation) = probe(options, folder, {kBase, 0});
  std::tie(costs.branch_step, costs.branch_evaluation) = probe(options, folder, {options.plan.primary.arm, 0});
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
