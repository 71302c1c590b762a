#include "camber/study/analysis.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>

#include <fmt/format.h>

namespace camber::study {
namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

double finite_mean(const std::vector<double>& values) {
  std::vector<double> finite;
  std::copy_if(values.begin(), values.end(), std::back_inserter(finite), [](double v) { return std::isfinite(v); });
  return mean_and_deviation(finite).mean;
}

double mean_over(const std::vector<RunRecord>& records, const std::string& arm,
                 const std::function<double(const RunRecord&)>& value_of) {
  std::vector<double> values;
  for (const RunRecord& record : records)
    if (record.arm == arm) values.push_back(value_of(record));
  return finite_mean(values);
}

using Field = double Measurement::*;

double mean_of(const std::vector<RunRecord>& records, const std::string& arm, const std::string& condition,
               Field field = &Measurement::mean_ap) {
  return mean_over(
      records, arm,
      [&](const RunRecord& record) {
        const Measurement* measured = record.find(condition);
        return measured == nullptr ? kNothing : measured->*field;
      });
}

GateState state_of(double value, bool holds) {
  return !std::isfinite(value) ? GateState::kUnknown : holds ? GateState::kHolds : GateState::kFails;
}

std::string points(double value) {
  return std::isfinite(value) ? fmt::format("{:.1f} points", 100 * value) : "not measured";
}

// AP at the largest distance of one sensor alone over both together.
double share_at_last_distance(const std::vector<RunRecord>& records, const std::string& without) {
  const auto last = [&](const std::string& condition) {
    return mean_over(records, "base", [&](const RunRecord& record) {
      const Measurement* measured = record.find(condition);
      return measured == nullptr || measured->by_distance.empty() ? kNothing : measured->by_distance.back();
    });
  };
  return last(without) / last("clean");
}

Gate fault_gate(const StudyPlan& plan, const std::vector<RunRecord>& records) {
  const double clean = mean_of(records, "base", "clean", &Measurement::nd_score);
  std::vector<std::string> faults = plan.conditions;
  std::erase(faults, "clean");
  faults.insert(faults.end(), {"lidar_off", "cameras_off"});
  std::string names;
  std::int64_t cutting = 0;
  for (const std::string& fault : faults) {
    const double score = mean_of(records, "base", fault, &Measurement::nd_score);
    if (!(score <= (1 - plan.gates.fault_cut) * clean)) continue;
    ++cutting;
    names += fmt::format("{}{} {:.0f} %", names.empty() ? "" : ", ", fault, 100 * (1 - score / clean));
  }
  return {.name = fmt::format("faults that cut NDS by {:.0f} % or more", 100 * plan.gates.fault_cut),
          .measured =
              std::isfinite(clean) ? fmt::format("{}{}{}", cutting, names.empty() ? "" : ": ", names) : "not measured",
          .target = fmt::format("at least {}", plan.gates.faults_that_cut),
          .state = state_of(clean, cutting >= plan.gates.faults_that_cut)};
}

Gate plateau_gate(const StudyPlan& plan, const std::vector<RunRecord>& records) {
  std::vector<double> gains;
  for (const RunRecord& record : records) {
    if (record.arm != "doubled") continue;
    for (const RunRecord& base : records)
      if (base.arm == "base" && base.seed == record.seed)
        gains.push_back(record.find("clean")->mean_ap - base.find("clean")->mean_ap);
  }
  const double gain = finite_mean(gains);
  return {.name = fmt::format("what twice the {} base steps gain, clean mAP", plan.base_steps),
          .measured = points(gain),
          .target = "below " + points(plan.gates.doubling_gain),
          .state = state_of(gain, gain < plan.gates.doubling_gain)};
}

Gate oracle_gate(const StudyPlan& plan, const std::vector<RunRecord>& records) {
  std::int64_t gaining = 0, measured = 0;
  std::string names;
  for (const std::string& condition : plan.conditions) {
    const auto paired = compare(plan, records, plan.gates.oracle_arm, plan.reference, condition);
    if (!paired) continue;
    ++measured;
    const double gain = paired->difference.mean;
    if (!(gain >= plan.gates.oracle_gain)) continue;
    ++gaining;
    names += fmt::format("{}{} {}", names.empty() ? "" : ", ", condition, signed_points(gain));
  }
  return {.name = fmt::format("conditions in which oracle trust gains {} or more", points(plan.gates.oracle_gain)),
          .measured = measured > 0 ? fmt::format("{}{}{}", gaining, names.empty() ? "" : ": ", names) : "not measured",
          .target = fmt::format("at least {}, else this world cannot show trust", plan.gates.oracle_conditions),
          .state = state_of(measured > 0 ? 0 : kNothing, gaining >= plan.gates.oracle_conditions)};
}

// A verdict is spoken when all seeds of the plan are in: looks on the way would find what they look for.
Conclusion verdict_on(const StudyPlan& plan, const Comparison& one, double corrected_p) {
  Conclusion conclusion = one.not_inferior_within > 0
                              ? conclude_not_inferior(one.difference, corrected_p, one.not_inferior_within)
                              : conclude(one.difference, corrected_p, plan.margin);
  const std::int64_t planned = std::min(plan.seeds_of(plan.arm(one.arm)), plan.seeds_of(plan.arm(one.against)));
  if (one.difference.pairs >= planned) return conclusion;
  conclusion.verdict = Verdict::kUnresolved;
  conclusion.words = fmt::format("none yet: {} of {} seeds", one.difference.pairs, planned);
  return conclusion;
}

double known_p(const Comparison& one) {
  const double p =
      one.not_inferior_within > 0 ? noninferiority_p(one.difference, one.not_inferior_within) : one.difference.p;
  return std::isnan(p) ? 1 : p;
}

void correct(const StudyPlan& plan, std::vector<Comparison>& comparisons) {
  std::vector<double> p;
  p.reserve(comparisons.size());
  for (const Comparison& one : comparisons) p.push_back(known_p(one));
  const std::vector<double> corrected = holm(p);
  for (std::size_t i = 0; i < comparisons.size(); ++i)
    comparisons[i].conclusion = verdict_on(plan, comparisons[i], corrected[i]);
}

}  // namespace

std::string signed_points(double difference, int digits) {
  if (!std::isfinite(difference)) return "-";
  std::string text = fmt::format("{:+.{}f}", 100 * difference, digits);
  if (text.find_first_of("123456789") == std::string::npos) text[0] = '+';
  return text;
}

std::optional<Comparison> compare(const StudyPlan& plan, const std::vector<RunRecord>& records, const std::string& arm,
                                  const std::string& against, const std::string& measure) {
  const std::vector<double> first = values_of(plan, records, arm, measure);
  const std::vector<double> second = values_of(plan, records, against, measure);
  std::vector<double> a, b;
  for (std::size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
    if (!std::isfinite(first[i]) || !std::isfinite(second[i])) continue;
    a.push_back(first[i]);
    b.push_back(second[i]);
  }
  if (a.empty()) return std::nullopt;
  return Comparison{.arm = arm, .against = against, .measure = measure, .difference = paired_difference(a, b)};
}

std::optional<double> outcome_of(const StudyPlan& plan, const RunRecord& record, const std::string& control) {
  double sum = 0;
  for (const std::string& condition : plan.primary.conditions) {
    const Measurement* measured = record.find(condition, control);
    if (measured == nullptr) return std::nullopt;
    sum += measured->mean_ap;
  }
  return sum / static_cast<double>(plan.primary.conditions.size());
}

std::string Gate::text() const {
  const char* words = state == GateState::kHolds ? "holds  " : state == GateState::kFails ? "FAILS  " : "unknown";
  return fmt::format("{} {}: {} (target: {})", words, name, measured, target);
}

std::vector<Gate> base_gates(const StudyPlan& plan, const std::vector<RunRecord>& records) {
  const StudyGates& wanted = plan.gates;
  const double clean = mean_of(records, "base", "clean"), camera = mean_of(records, "base", "lidar_off"),
               lidar = mean_of(records, "base", "cameras_off");
  const double fusion = clean - std::max(camera, lidar);
  const double camera_share = share_at_last_distance(records, "lidar_off"),
               lidar_share = share_at_last_distance(records, "cameras_off");
  const double least = std::isnan(camera_share + lidar_share) ? kNothing : std::min(camera_share, lidar_share);
  return {
      {.name = "mAP of fusion above the better single sensor",
       .measured = points(fusion),
       .target = "at least " + points(wanted.fusion_gain),
       .state = state_of(fusion, fusion >= wanted.fusion_gain)},
      {.name = "AP at the largest distance of cameras alone and LiDAR alone over fusion's",
       .measured = std::isfinite(least) ? fmt::format("{:.2f} and {:.2f}", camera_share, lidar_share) : "not measured",
       .target = fmt::format("both at least {:.2f}", wanted.single_share),
       .state = state_of(least, least >= wanted.single_share)},
      fault_gate(plan, records),
      plateau_gate(plan, records),
      {.name = "clean mAP with the cameras above without",
       .measured = points(clean - lidar),
       .target = "at least " + points(wanted.camera_gain),
       .state = state_of(clean - lidar, clean - lidar >= wanted.camera_gain)}};
}

std::vector<Gate> all_gates(const StudyPlan& plan, const std::vector<RunRecord>& records) {
  std::vector<Gate> gates = base_gates(plan, records);
  if (!plan.gates.oracle_arm.empty()) gates.push_back(oracle_gate(plan, records));
  return gates;
}

std::vector<double> values_of(const StudyPlan& plan, const std::vector<RunRecord>& records, const std::string& arm,
                              const std::string& measure) {
  constexpr std::int64_t kMostSeeds = 100000;
  std::vector<double> values;
  for (const RunRecord& record : records) {
    if (record.arm != arm) continue;
    if (record.seed < 0 || record.seed >= kMostSeeds)  // a place for every seed before it is made
      throw std::invalid_argument(
          fmt::format("[study] the seed of {} must be from 0 to {}", record.key(), kMostSeeds - 1));
    const auto position = static_cast<std::size_t>(record.seed);
    if (values.size() <= position) values.resize(position + 1, kNothing);
    const Measurement* measured = record.find(measure);
    if (measure == kOutcome)
      values[position] = outcome_of(plan, record).value_or(kNothing);
    else if (measured != nullptr)
      values[position] = measured->mean_ap;
  }
  return values;
}

StudyAnalysis analyze(const StudyPlan& plan, const std::vector<RunRecord>& records) {
  StudyAnalysis analysis{.gates = all_gates(plan, records)};
  analysis.primary = compare(plan, records, plan.primary.arm, plan.primary.against, kOutcome);
  if (analysis.primary) analysis.primary->conclusion = verdict_on(plan, *analysis.primary, known_p(*analysis.primary));
  const auto add = [&](std::vector<Comparison>& list, const std::string& arm, const std::string& against,
                       const std::string& measure) {
    if (auto made = compare(plan, records, arm, against, measure)) list.push_back(std::move(*made));
  };
  for (const StudyArm& arm : plan.arms) {
    const std::string against = plan.opponent_of(arm);
    if (against.empty()) continue;
    const bool listed = arm.role == ArmRole::kMain && plan.comparisons.empty();
    auto& list = listed ? analysis.secondary : analysis.exploratory;
    for (const std::string& measure : {std::string(kOutcome), std::string("clean")})
      if (!plan.compares(arm.name, against, measure)) add(list, arm.name, against, measure);
  }
  for (const StudyComparison& one : plan.comparisons)
    if (auto made = compare(plan, records, one.arm, one.against, one.measure)) {
      made->not_inferior_within = one.not_inferior_within;
      analysis.secondary.push_back(std::move(*made));
    }
  for (const std::string& condition : plan.comparisons.empty() ? plan.conditions : std::vector<std::string>{})
    add(analysis.secondary, plan.primary.arm, plan.primary.against, condition);
  correct(plan, analysis.secondary);
  return analysis;
}

ControlEffect control_effect(const std::vector<RunRecord>& records, const std::string& arm,
                             const std::string& condition, const std::string& control) {
  ControlEffect effect;
  for (const RunRecord& record : records) {
    const Measurement *with = record.find(condition, control), *without = record.find(condition);
    if (record.arm != arm || with == nullptr || without == nullptr) continue;
    effect.changed.push_back(with->mean_ap);
    effect.own.push_back(without->mean_ap);
    effect.errors.push_back(scene_error(*with, *without));
  }
  if (!effect.own.empty()) effect.difference = paired_difference(effect.changed, effect.own);
  return effect;
}

double scene_error(const Measurement& first, const Measurement& second) {
  std::vector<double> differences;
  for (std::size_t i = 0; i < std::min(first.replicates.size(), second.replicates.size()); ++i)
    differences.push_back(1e-4 * (first.replicates[i] - second.replicates[i]));
  return mean_and_deviation(differences).deviation;
}

double scene_error(const Measurement& measured) {
  std::vector<double> values;
  values.reserve(measured.replicates.size());
  for (const std::int32_t value : measured.replicates) values.push_back(1e-4 * value);
  return mean_and_deviation(values).deviation;
}

}  // namespace camber::study
