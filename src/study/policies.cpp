#include "camber/study/policies.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>

#include <fmt/format.h>

#include "camber/study/analysis.h"

namespace camber::study {
namespace {

constexpr double kPrevalences[] = {0.05, 0.2, 0.5};
constexpr double kFalseAlarms[] = {0, 0.05, 0.1, 0.2, 0.4};

// Values of an arm by seed; NaN where a cell is missing.
std::vector<double> by_seed(const StudyResults& results, const std::string& arm, const CueRates& rates) {
  std::vector<double> values;
  for (const RunRecord& record : results.records) {
    if (record.arm != arm) continue;
    const auto seed = static_cast<std::size_t>(record.seed);
    if (values.size() <= seed) values.resize(seed + 1, std::nan(""));
    values[seed] = expected_map(results.plan, record, rates).value_or(std::nan(""));
  }
  return values;
}

PairedDifference paired(const std::vector<double>& first, const std::vector<double>& second) {
  std::vector<double> a, b;
  for (std::size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
    if (std::isnan(first[i]) || std::isnan(second[i])) continue;
    a.push_back(first[i]);
    b.push_back(second[i]);
  }
  return a.empty() ? PairedDifference{} : paired_difference(a, b);
}

std::string percent(double share) {
  return fmt::format("{:g} %", 100 * share);
}

std::string interval_words(const PairedDifference& difference) {
  std::string seeds = fmt::format("{} seed{}", difference.pairs, difference.pairs == 1 ? "" : "s");
  if (!std::isfinite(difference.low)) return seeds;
  return fmt::format("95 % interval {} to {}, {}", signed_points(difference.low), signed_points(difference.high),
                     seeds);
}

std::string mean_cell(const std::vector<const RunRecord*>& runs, const std::string& condition,
                      const std::string& control) {
  double sum = 0, count = 0;
  for (const RunRecord* run : runs) {
    const Measurement* measured = run->find(condition, control);
    if (measured == nullptr) measured = run->find(condition);  // it does nothing with cues
    if (measured == nullptr) continue;
    sum += measured->mean_ap;
    ++count;
  }
  return count == 0 ? "-" : fmt::format("{:.3f}", sum / count);
}

}  // namespace

void CueRates::validate() const {
  for (const auto& [name, value] :
       {std::pair{"prevalence", prevalence}, std::pair{"false_alarms", false_alarms}, std::pair{"misses", misses}})
    if (!(value >= 0 && value <= 1))
      throw std::invalid_argument(fmt::format("[advise] {} must be a share from 0 to 1, got {:g}", name, value));
}

std::optional<double> expected_map(const StudyPlan& plan, const RunRecord& record, const CueRates& rates) {
  // An arm without cells of exchanged cues does nothing with cues; one with some of them lacks the others.
  const bool cues = std::any_of(record.measurements.begin(), record.measurements.end(),
                                [](const Measurement& one) { return one.control.starts_with("cues of "); });
  const auto cell = [&](const std::string& condition, const std::string& told) -> std::optional<double> {
    const Measurement* found = record.find(condition, cues && told != condition ? "cues of " + told : "");
    return found == nullptr ? std::nullopt : std::optional(found->mean_ap);
  };
  const auto clean = cell("clean", "clean");
  if (!clean || plan.swapped_cues.empty()) return std::nullopt;
  double accused = 0, faulty = 0;
  for (const std::string& fault : plan.swapped_cues) {
    const auto alarm = cell("clean", fault), right = cell(fault, fault), missed = cell(fault, "clean");
    if (!alarm || !right || !missed) return std::nullopt;
    accused += *alarm / static_cast<double>(plan.swapped_cues.size());
    faulty += ((1 - rates.misses) * *right + rates.misses * *missed) / static_cast<double>(plan.swapped_cues.size());
  }
  const double sound = (1 - rates.false_alarms) * *clean + rates.false_alarms * accused;
  return (1 - rates.prevalence) * sound + rates.prevalence * faulty;
}

std::vector<PolicyScore> rank_policies(const StudyResults& results, const CueRates& rates) {
  rates.validate();
  std::vector<std::pair<PolicyScore, std::vector<double>>> scored;
  for (const StudyArm& arm : results.plan.arms) {
    if (arm.role != ArmRole::kMain || arm.name == results.plan.gates.oracle_arm) continue;
    std::vector<double> values = by_seed(results, arm.name, rates), known;
    std::copy_if(values.begin(), values.end(), std::back_inserter(known), [](double v) { return !std::isnan(v); });
    if (known.empty()) continue;
    scored.emplace_back(PolicyScore{.arm = arm.name, .mean_ap = mean_and_deviation(known)}, std::move(values));
  }
  std::stable_sort(scored.begin(), scored.end(),
                   [](const auto& a, const auto& b) { return a.first.mean_ap.mean > b.first.mean_ap.mean; });
  const std::vector<double> reference = by_seed(results, results.plan.reference, rates);
  std::vector<PolicyScore> ranked;
  for (std::size_t i = 0; i < scored.size(); ++i) {
    if (i + 1 < scored.size()) scored[i].first.above_next = paired(scored[i].second, scored[i + 1].second);
    if (scored[i].first.arm != results.plan.reference)
      scored[i].first.above_reference = paired(scored[i].second, reference);
    ranked.push_back(scored[i].first);
  }
  return ranked;
}

std::string advice(const StudyResults& results, const CueRates& rates) {
  const std::vector<PolicyScore> ranked = rank_policies(results, rates);
  if (ranked.empty())
    throw std::runtime_error("[advise] the records must hold clean and faulty frames with exchanged cues, got none");
  const auto title = [&](const std::string& arm) { return results.plan.arm(arm).shown(); };
  std::string text = fmt::format(
      "Where {} of the frames are faulty, {} of the clean ones raise an alarm and {} of the "
      "faulty ones raise none:\n",
      percent(rates.prevalence), percent(rates.false_alarms), percent(rates.misses));
  const PolicyScore& best = ranked.front();
  text += fmt::format("use '{}': mAP {:.3f}", title(best.arm), best.mean_ap.mean);
  if (ranked.size() > 1) {
    const bool sure = best.above_next.low > 0;
    text += fmt::format(", {} points above '{}' ({}){}", signed_points(best.above_next.mean), title(ranked[1].arm),
                        interval_words(best.above_next), sure ? "" : ", which is no sure difference");
  }
  text += ".\n";
  for (std::size_t i = 1; i < ranked.size(); ++i)
    text += fmt::format("{}: mAP {:.3f}, {} points below the best.\n", title(ranked[i].arm), ranked[i].mean_ap.mean,
                        signed_points(best.mean_ap.mean - ranked[i].mean_ap.mean).substr(1));
  if (best.above_reference.pairs > 0)
    text += fmt::format("To '{}' the best adds {} points ({}).\n", title(results.plan.reference),
                        signed_points(best.above_reference.mean), interval_words(best.above_reference));
  std::string faults;
  for (const std::string& fault : results.plan.swapped_cues) faults += (faults.empty() ? "" : " and ") + fault;
  return text + fmt::format("Mixed from the cells of '{}': {}, equally often, on its test scenes.\n",
                            results.plan.title, faults);
}

std::string advice_in_json(const StudyResults& results, const CueRates& rates) {
  std::string rows;
  for (const PolicyScore& one : rank_policies(results, rates))
    rows += fmt::format("{}\n  {{\"arm\": \"{}\", \"mean_ap\": {:.6f}, \"seeds\": {}, \"points_above_reference\": {}}}",
                        rows.empty() ? "" : ",", one.arm, one.mean_ap.mean, one.mean_ap.count,
                        one.above_reference.pairs > 0 ? fmt::format("{:.4f}", 100 * one.above_reference.mean) : "null");
  return fmt::format("{{\"prevalence\": {:g}, \"false_alarms\": {:g}, \"misses\": {:g}, \"policies\": [{}]}}\n",
                     rates.prevalence, rates.false_alarms, rates.misses, rows);
}

StudyTable decision_chart(const StudyResults& results) {
  StudyTable table{.title = "Which policy wins",
                   .note =
                       "By how often sensors fail and how often clean frames raise an alarm, a tenth of the alarms "
                       "missed: the policy with the highest mAP of the mixture, and what it has above the next, in "
                       "points with the 95 % interval over seeds.",
                   .columns = {"false alarms"}};
  for (const double prevalence : kPrevalences) table.columns.push_back(percent(prevalence) + " faulty frames");
  for (const double alarms : kFalseAlarms) {
    std::vector<std::string> row = {percent(alarms)};
    for (const double prevalence : kPrevalences) {
      const auto ranked = rank_policies(results, {prevalence, alarms, 0.1});
      if (ranked.size() < 2) return {};
      const PolicyScore& best = ranked.front();
      row.push_back(fmt::format("{}, {} above {} ({} to {})", results.plan.arm(best.arm).shown(),
                                signed_points(best.above_next.mean), results.plan.arm(ranked[1].arm).shown(),
                                signed_points(best.above_next.low), signed_points(best.above_next.high)));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

StudyTable alarms_table(const StudyResults& results) {
  const StudyPlan& plan = results.plan;
  StudyTable table{.title = "Right, missed and false alarms",
                   .note = "mAP, means over seeds. An arm that does nothing with cues has one number a condition.",
                   .columns = {"arm", "seeds", "clean"}};
  if (plan.streams.empty()) return table;
  for (const std::string& fault : plan.swapped_cues)
    for (const char* what : {": right", ": missed", ": false alarm", ": wrong culprit"})
      if (plan.wrong_culprits || std::string(what) != ": wrong culprit") table.columns.push_back(fault + what);
  for (const StudyStream& stream : plan.streams) table.columns.push_back(stream.name);
  for (const StudyArm& arm : plan.arms) {
    const auto runs = runs_of(results.records, arm.name);
    if (runs.empty()) continue;
    std::vector<std::string> row = {arm.shown(), std::to_string(runs.size()), mean_cell(runs, "clean", "")};
    for (const std::string& fault : plan.swapped_cues) {
      row.push_back(mean_cell(runs, fault, ""));
      row.push_back(mean_cell(runs, fault, "cues of clean"));
      row.push_back(mean_cell(runs, "clean", "cues of " + fault));
      for (const std::string& other : plan.swapped_cues)
        if (plan.wrong_culprits && other != fault) {
          row.push_back(mean_cell(runs, fault, "cues of " + other));
          break;
        }
    }
    for (const StudyStream& stream : plan.streams) row.push_back(mean_cell(runs, stream.name, ""));
    table.rows.push_back(std::move(row));
  }
  return table;
}

StudyTable agreement_table(const StudyResults& results) {
  StudyTable table{.title = "What agreement tells",
                   .note =
                       "The chance that a clean frame agrees more than one under the fault (area under the ROC "
                       "curve), for single frames and for means over five frames of a scene; means over the models "
                       "of all seeds of the reference.",
                   .columns = {"frames", "fault", "agreement", "single frame", "five frames"}};
  const auto runs = runs_of(results.records, results.plan.reference);
  std::set<std::string> keys;
  for (const RunRecord* run : runs)
    for (const auto& [name, value] : run->values)
      if (name.starts_with("agreement/") && name.ends_with("/area")) keys.insert(name.substr(0, name.size() - 5));
  const auto mean_value = [&runs](const std::string& name) {
    std::vector<double> values;
    for (const RunRecord* run : runs)
      if (const auto found = run->values.find(name); found != run->values.end() && std::isfinite(found->second))
        values.push_back(found->second);
    return values.empty() ? std::string("-") : fmt::format("{:.3f}", mean_and_deviation(values).mean);
  };
  for (const std::string& key : keys) {
    const std::string rest = key.substr(std::string("agreement/").size());
    const std::size_t slash = rest.find('/');
    table.rows.push_back({rest.substr(0, slash), rest.substr(slash + 1), mean_value(key + "/mean"),
                          mean_value(key + "/area"), mean_value(key + "/area_of_five")});
  }
  return table;
}

}  // namespace camber::study
