#include "runs/study_evaluation.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace camber::runs {
namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Condition condition_named(const std::string& name) {
  return name == "clean" ? Condition{} : Condition{sensors::parse_fault(name)};
}

std::string cues_of_condition(const std::string& condition) {
  return "cues of " + condition;
}

// Whether such an arm does anything with cues.
bool looks_at_cues(const RunTraining& training) {
  const auto policy = trust_policy(training.policy, "[study] policy").value_or(training.options.detector.alarms.policy);
  const detection::DetectorOptions& own = training.options.detector;
  return own.head.cue_input || (nn::uses_cues(own.router.mode) && is_bias(policy)) || is_rule(policy) ||
         training.absent_above_age > 0;
}

// The model's own trust everywhere, what replaces it where the plan asks for it, exchanged cues last.
void add_passes(StudyEvaluation& evaluation, const study::StudyPlan& plan, const std::vector<std::string>& conditions,
                std::size_t arm, const RunTraining& training) {
  const detection::DetectorOptions& own = training.options.detector;
  const bool cues = looks_at_cues(training);
  const auto add = [&](const std::string& condition, const std::string& control, DetectionPass pass) {
    pass.condition = condition_named(condition);
    pass.policy = trust_policy(training.policy, "[study] policy");
    evaluation.passes.push_back(std::move(pass));
    evaluation.names.push_back({arm, {.condition = condition, .control = control}});
  };
  for (const std::string& condition : conditions) {
    add(condition, "", {});
    if (own.has_router() && contains(plan.control_conditions, condition))
      for (const std::string& control : plan.controls)
        if (nn::uses_content(own.router.mode) || (control != "mean" && control != "shuffled"))
          add(condition, control, {.trust = trust_control(control, "[study] controls")});
    if (!cues || !contains(plan.swapped_cues, condition)) continue;
    add(condition, cues_of_condition("clean"), {.cues = condition_named("clean")});
    add("clean", cues_of_condition(condition), {.cues = condition_named(condition)});
    for (const std::string& other : plan.swapped_cues)
      if (plan.wrong_culprits && other != condition)
        add(condition, cues_of_condition(other), {.cues = condition_named(other)});
  }
}

// The place of a sample in its scene, from 0.
std::int64_t place_in_scene(const nuscenes::Dataset& dataset, nuscenes::Index sample) {
  std::int64_t place = 0;
  while ((sample = dataset.tables().sample[sample].previous) != nuscenes::kNone) ++place;
  return place;
}

// A stream is made of the arm's cells, frame by frame. An arm that does nothing with cues has one cell a condition.
void add_streams(StudyEvaluation& evaluation, const study::StudyPlan& plan, std::size_t arm,
                 const RunTraining& training) {
  const bool cues = looks_at_cues(training);
  const auto cell = [&](const std::string& condition, const std::string& told) {
    const std::string control = told == condition || !cues ? "" : cues_of_condition(told);
    const auto found = std::find_if(evaluation.names.begin(), evaluation.names.end(), [&](const auto& name) {
      return name.arm == arm && name.measured.condition == condition && name.measured.control == control;
    });
    if (found == evaluation.names.end()) throw std::logic_error("[study] a stream must find its cell");
    return static_cast<std::size_t>(found - evaluation.names.begin());
  };
  for (const study::StudyStream& stream : plan.streams) {
    const auto name = [&stream](std::int64_t fault) {
      return fault < 0 ? std::string("clean") : stream.faults[static_cast<std::size_t>(fault)];
    };
    PassMixture mixture;
    for (const nuscenes::Index sample : evaluation.request.split.samples) {
      const auto scene = static_cast<std::uint64_t>(evaluation.request.dataset.tables().sample[sample].scene);
      const study::StreamState state = state_of(stream, scene, place_in_scene(evaluation.request.dataset, sample));
      mixture.push_back(cell(name(state.fault), name(state.cues)));
    }
    evaluation.mixtures.push_back(std::move(mixture));
  }
}

}  // namespace

StudyEvaluation evaluation_of(const StudyOptions& options, const StudyRun& run, const std::vector<EvaluatedArm>& arms,
                              const nuscenes::Dataset& dataset) {
  const study::StudyPlan& plan = options.plan;
  StudyEvaluation evaluation{.request = {.dataset = dataset,
                                         .split = nuscenes::find_split(dataset, plan.split),
                                         .batch_size = options.training.evaluation.batch_size,
                                         .absent_above_age = arms.front().training.absent_above_age},
                             .replicates = plan.replicates};
  nuscenes::Split& split = evaluation.request.split;
  split.samples = evenly_spaced(split.samples, plan.frames);
  split.official = false;
  if (!options.training.evaluation.config.empty())
    evaluation.config = eval::EvaluationConfig::read(options.training.evaluation.config);
  std::vector<std::string> conditions = plan.conditions;
  if (run.arm == kBase || run.arm == kDoubled) conditions.insert(conditions.end(), {"lidar_off", "cameras_off"});
  evaluation.conditions = conditions.size();
  for (std::size_t arm = 0; arm < arms.size(); ++arm) add_passes(evaluation, plan, conditions, arm, arms[arm].training);
  for (std::size_t arm = 0; arm < arms.size(); ++arm) add_streams(evaluation, plan, arm, arms[arm].training);
  for (std::size_t arm = 0; arm < arms.size(); ++arm)
    for (const study::StudyStream& stream : plan.streams) evaluation.names.push_back({arm, {.condition = stream.name}});
  return evaluation;
}

namespace {

study::Measurement measurement_of(study::Measurement measured, const PassReport& report,
                                  const eval::EvaluationConfig& config) {
  const eval::DetectionMetrics& metrics = report.metrics.evaluation.metrics;
  measured.mean_ap = metrics.mean_ap;
  measured.nd_score = metrics.nd_score;
  for (std::size_t d = 0; d < config.distance_thresholds.size(); ++d) {
    double sum = 0;
    for (const eval::ClassMetrics& entry : metrics.classes) sum += entry.average_precisions[d];
    measured.by_distance.push_back(sum / static_cast<double>(metrics.classes.size()));
  }
  measured.trust_lidar = mean_of(report.trust.lidar);
  measured.trust_camera = mean_of(report.trust.camera);
  for (const double value : report.metrics.drawn_mean_aps)
    measured.replicates.push_back(static_cast<std::int32_t>(std::lround(1e4 * value)));
  return measured;
}

void add_separations(std::map<std::string, double>& values, const std::string& prefix,
                     const std::vector<AgreementSeparation>& separations) {
  for (const AgreementSeparation& one : separations) {
    values[prefix + one.fault + "/mean"] = one.mean;
    values[prefix + one.fault + "/area"] = one.area;
    values[prefix + one.fault + "/area_of_five"] = one.area_of_five;
  }
}

// How well agreement tells each condition of the test frames from the clean one.
void add_agreement(Measured& measured, const StudyEvaluation& evaluation, const std::vector<PassReport>& reports,
                   std::size_t arm) {
  const std::vector<double>* clean = nullptr;
  std::vector<std::string> names;
  std::vector<std::vector<double>> under;
  for (std::size_t i = 0; i < evaluation.passes.size(); ++i) {
    const auto& [of, name] = evaluation.names[i];
    if (of != arm || !name.control.empty()) continue;
    if (name.condition == "clean") {
      clean = &reports[i].agreement;
    } else {
      names.push_back(name.condition);
      under.push_back(reports[i].agreement);
    }
  }
  if (clean != nullptr)
    add_separations(measured.values, "agreement/test/",
                    agreement_separations(evaluation.request, *clean, names, under));
}

}  // namespace

std::vector<Measured> measure(const StudyEvaluation& evaluation, const detection::Detector& detector, std::size_t arms,
                              bool agreement) {
  const auto reports = evaluate_passes(
      detector, evaluation.request, evaluation.passes, evaluation.config,
      {.distance_edges = {}, .point_edges = {}, .draws = evaluation.replicates, .threads = 1}, evaluation.mixtures);
  std::vector<Measured> all(arms);
  for (std::size_t i = 0; i < reports.size(); ++i)
    all[evaluation.names[i].arm].measurements.push_back(
        measurement_of(evaluation.names[i].measured, reports[i], evaluation.config));
  for (std::size_t arm = 0; agreement && arm < arms; ++arm) add_agreement(all[arm], evaluation, reports, arm);
  return all;
}

// The threshold of this model, from frames that are no test frames.
std::map<std::string, double> calibrate(const study::StudyPlan& plan, const DetectorTrainingOptions& options,
                                        const nuscenes::Dataset& dataset, detection::Detector& detector) {
  const study::StudyCalibration& wanted = plan.calibration;
  DetectionRequest request{.dataset = dataset,
                           .split = nuscenes::find_split(dataset, wanted.split),
                           .batch_size = options.evaluation.batch_size};
  request.split.samples = evenly_spaced(request.split.samples, wanted.frames);
  request.split.official = false;
  const AgreementCalibration found = calibrate_agreement(detector, request, parse_conditions(wanted.faults));
  detection::AlarmOptions alarms = detector->options().alarms;
  alarms.threshold = found.threshold;
  detector->set_alarms(alarms);
  std::map<std::string, double> values = {{"agreement/threshold", found.threshold},
                                          {"agreement/validation/clean/mean", found.clean_mean}};
  add_separations(values, "agreement/validation/", found.faults);
  return values;
}

}  // namespace camber::runs
