#include "camber/study/findings.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "camber/study/analysis.h"

namespace camber::study {
namespace {

// What a control does to the outcome of the arm that is asked about; nothing when no run measured it.
std::optional<PairedDifference> control_in_outcome(const StudyResults& results, const std::string& control) {
  std::vector<double> changed, own;
  for (const RunRecord& record : results.records) {
    const auto with = outcome_of(results.plan, record, control), without = outcome_of(results.plan, record);
    if (record.arm != results.plan.primary.arm || !with || !without) continue;
    changed.push_back(*with);
    own.push_back(*without);
  }
  return own.empty() ? std::nullopt : std::optional(paired_difference(changed, own));
}

// "95 % interval +1.0 to +2.0, 8 seeds"
std::string how_sure(const PairedDifference& difference) {
  std::string seeds = fmt::format("{} seed{}", difference.pairs, difference.pairs == 1 ? "" : "s");
  if (!std::isfinite(difference.low)) return seeds;
  return fmt::format("95 % interval {} to {}, {}", signed_points(difference.low), signed_points(difference.high),
                     seeds);
}

// "+1.2 points in the outcome (95 % interval +1.0 to +1.4, 3 seeds) and +0.1 on clean frames", of an arm less another;
// nothing when they have no seed in common.
std::optional<std::string> how_far(const StudyResults& results, const std::string& arm, const std::string& against) {
  const auto outcome = compare(results.plan, results.records, arm, against, kOutcome);
  const auto clean = compare(results.plan, results.records, arm, against, "clean");
  if (!outcome || !clean) return std::nullopt;
  return fmt::format("{} points in the outcome ({}) and {} on clean frames", signed_points(outcome->difference.mean),
                     how_sure(outcome->difference), signed_points(clean->difference.mean));
}

void add_primary(std::vector<std::string>& said, const StudyResults& results, const StudyAnalysis& analysis) {
  if (!analysis.primary) return;
  const StudyPlan& plan = results.plan;
  said.push_back(fmt::format(
      "The comparison that was fixed beforehand, '{}' against '{}' in the outcome (mean mAP over {}): {}; the "
      "difference is {} points ({}).",
      plan.arm(plan.primary.arm).shown(), plan.arm(plan.primary.against).shown(),
      fmt::join(plan.primary.conditions, ", "), analysis.primary->conclusion->words,
      signed_points(analysis.primary->difference.mean), how_sure(analysis.primary->difference)));
}

// "better: a (+1.2), b (+3.4); equivalent within 1 point: c (+0.1)", of the comparisons with the reference.
void add_verdicts(std::vector<std::string>& said, const StudyResults& results, const StudyAnalysis& analysis,
                  const std::string& measure, const std::string& where) {
  const StudyPlan& plan = results.plan;
  std::vector<std::string> verdicts;
  std::map<std::string, std::vector<std::string>> arms;
  for (const Comparison& one : analysis.secondary) {
    if (one.against != plan.reference || one.measure != measure) continue;
    const std::string verdict = one.conclusion->short_words();
    if (!arms.contains(verdict)) verdicts.push_back(verdict);
    arms[verdict].push_back(fmt::format("'{}' ({})", plan.arm(one.arm).shown(), signed_points(one.difference.mean)));
  }
  if (verdicts.empty()) return;
  for (std::string& verdict : verdicts) verdict = fmt::format("{}: {}", verdict, fmt::join(arms[verdict], ", "));
  said.push_back(
      fmt::format("{}, against '{}': {}.", where, plan.arm(plan.reference).shown(), fmt::join(verdicts, "; ")));
}

void add_share_of_oracle(std::vector<std::string>& said, const StudyResults& results) {
  const StudyPlan& plan = results.plan;
  if (plan.gates.oracle_arm.empty()) return;
  std::vector<std::string> shares;
  for (const std::string& measure : plan.primary.conditions) {
    const auto own = compare(plan, results.records, plan.primary.arm, plan.reference, measure);
    const auto most = compare(plan, results.records, plan.gates.oracle_arm, plan.reference, measure);
    if (!own || !most || !(most->difference.mean >= plan.gates.oracle_gain)) continue;
    shares.push_back(fmt::format("{:.0f} % under {}", 100 * own->difference.mean / most->difference.mean, measure));
  }
  if (!shares.empty())
    said.push_back(fmt::format("Of what oracle trust gains, '{}' gains {}.", plan.arm(plan.primary.arm).shown(),
                               fmt::join(shares, " and ")));
}

void add_controls(std::vector<std::string>& said, const StudyResults& results) {
  const StudyPlan& plan = results.plan;
  std::vector<std::string> effects;
  std::map<std::string, PairedDifference> differences;
  for (const std::string& control : plan.controls) {
    const auto difference = control_in_outcome(results, control);
    if (!difference) continue;
    differences[control] = *difference;
    effects.push_back(fmt::format("{} {}", control, signed_points(difference->mean)));
  }
  if (effects.empty()) return;
  std::string text = fmt::format("Instead of the trust of '{}', in the outcome: {} points.",
                                 plan.arm(plan.primary.arm).shown(), fmt::join(effects, ", "));
  const auto is_nothing = [&](const std::string& control) {
    const auto found = differences.find(control);
    return found != differences.end() && found->second.low > -plan.margin && found->second.high < plan.margin;
  };
  const auto zero = differences.find("zero");
  if (zero != differences.end() && zero->second.high < -plan.margin && is_nothing("mean") && is_nothing("shuffled"))
    text += " What helps is one trust a frame and sensor: that queries differ in theirs adds nothing.";
  said.push_back(std::move(text));
}

// What cues that are wrong do to an arm, and what those that are right gain.
struct CuePrice {
  double gain = 0;         // under the fault, over the reference
  double alarm = 0;        // a false alarm, on clean frames
  double missed = 0;       // the cues of clean frames under the fault
  double alarms_paid = 0;  // false alarms that the gain of a true one pays for; infinite when they cost nothing
};

std::optional<CuePrice> price_of(const StudyResults& results, const std::string& arm, const std::string& condition) {
  const ControlEffect alarm = control_effect(results.records, arm, "clean", "cues of " + condition);
  const ControlEffect missed = control_effect(results.records, arm, condition, "cues of clean");
  const auto gain = compare(results.plan, results.records, arm, results.plan.reference, condition);
  if (alarm.own.empty() || missed.own.empty() || !gain) return std::nullopt;
  CuePrice price{.gain = gain->difference.mean, .alarm = alarm.difference.mean, .missed = missed.difference.mean};
  price.alarms_paid =
      price.alarm < 0 ? std::max(0.0, -price.gain / price.alarm) : std::numeric_limits<double>::infinity();
  return price;
}

std::string paid(const CuePrice& price) {
  return std::isfinite(price.alarms_paid) ? fmt::format("{:.1f}", price.alarms_paid) : "any number";
}

void add_price(std::vector<std::string>& said, const StudyResults& results) {
  const StudyPlan& plan = results.plan;
  for (const std::string& condition : plan.swapped_cues) {
    const auto price = price_of(results, plan.primary.arm, condition);
    if (!price) continue;
    std::string text = fmt::format(
        "A false alarm of {} changes clean mAP by {} points; a missed one changes mAP under the fault by {}, and "
        "leaves {} of the {} points above '{}'.",
        condition, signed_points(price->alarm), signed_points(price->missed),
        signed_points(price->gain + price->missed), signed_points(price->gain), plan.arm(plan.reference).shown());
    if (price->gain > 0)
      text += fmt::format(" The bias pays while false alarms are rarer than {} for each true one.", paid(*price));
    said.push_back(std::move(text));
  }
}

// A threshold on the same cues that takes a sensor out, without any bias.
void add_rules(std::vector<std::string>& said, const StudyResults& results) {
  const StudyPlan& plan = results.plan;
  for (const StudyArm& rule : plan.arms) {
    if (rule.absent_above_age == 0) continue;
    const auto less = how_far(results, plan.primary.arm, rule.name);
    if (!less) continue;
    std::string text = fmt::format("A rule on the same cues instead of the bias, '{}': '{}' less the rule is {}.",
                                   rule.shown(), plan.arm(plan.primary.arm).shown(), *less);
    for (const std::string& condition : plan.swapped_cues) {
      const auto own = price_of(results, rule.name, condition), biased = price_of(results, plan.primary.arm, condition);
      if (!own || !biased) continue;
      text += fmt::format(
          " With the rule a false alarm of {} changes clean mAP by {} points, and a true one pays for {} (with the "
          "bias {} and {}).",
          condition, signed_points(own->alarm), paid(*own), signed_points(biased->alarm), paid(*biased));
    }
    said.push_back(std::move(text));
  }
}

// Rows that are compared with another one than the reference: about equal time, from scratch.
void add_pairs_of_rows(std::vector<std::string>& said, const StudyResults& results) {
  const StudyPlan& plan = results.plan;
  for (const StudyArm& arm : plan.arms) {
    const std::string against = plan.opponent_of(arm);
    if (arm.role == ArmRole::kMain || arm.absent_above_age != 0 || against.empty() || against == plan.reference)
      continue;
    if (const auto less = how_far(results, arm.name, against))
      said.push_back(fmt::format("'{}' less '{}' is {}.", arm.shown(), plan.arm(against).shown(), *less));
  }
}

void add_rows_without_verdict(std::vector<std::string>& said, const StudyResults& results,
                              const StudyAnalysis& analysis) {
  const StudyPlan& plan = results.plan;
  std::vector<std::string> apart;
  std::int64_t rows = 0;
  bool few_seeds = true;  // of all these rows; else some have all seeds, and a comparison that was not planned
  for (const Comparison& one : analysis.exploratory) {
    if (one.against != plan.reference || one.measure != kOutcome || !std::isfinite(one.difference.low)) continue;
    ++rows;
    few_seeds = few_seeds && one.difference.pairs < plan.seeds;
    if (one.difference.low > 0 || one.difference.high < 0)
      apart.push_back(fmt::format("'{}' ({})", plan.arm(one.arm).shown(), signed_points(one.difference.mean)));
  }
  if (rows == 0) return;
  said.push_back(
      fmt::format("Of {} rows {}, the interval of the outcome's difference from '{}' lies on one "
                  "side of 0 in {}{}{}.",
                  rows, few_seeds ? "with few seeds" : "without a verdict", plan.arm(plan.reference).shown(),
                  apart.size(), apart.empty() ? "" : ": ", fmt::join(apart, ", ")));
}

}  // namespace

std::vector<std::string> findings(const StudyResults& results) {
  const StudyAnalysis analysis = analyze(results.plan, results.records);
  std::vector<std::string> said;
  add_primary(said, results, analysis);
  add_verdicts(said, results, analysis, kOutcome, "In the outcome");
  add_verdicts(said, results, analysis, "clean", "On clean frames");
  add_share_of_oracle(said, results);
  add_controls(said, results);
  add_price(said, results);
  add_rules(said, results);
  add_pairs_of_rows(said, results);
  add_rows_without_verdict(said, results, analysis);
  return said;
}

std::string findings_in_markdown(const StudyResults& results) {
  std::string text;
  for (const std::string& sentence : findings(results)) text += "- " + sentence + "\n";
  return text.empty() ? text : "### In words\n\n" + text + "\n";
}

}  // namespace camber::study
