#include "camber/study/tables.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <stdexcept>

#include <fmt/format.h>

#include "camber/study/analysis.h"
#include "camber/study/policies.h"

namespace camber::study {
namespace {

std::string cell(double value, int digits = 3) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : "-";
}

std::string in_points(double value) {
  return signed_points(value, 2);
}

std::string interval(const PairedDifference& difference) {
  return std::isfinite(difference.low) ? in_points(difference.low) + " to " + in_points(difference.high) : "-";
}

std::string chance(double p) {
  return !std::isfinite(p) ? "-" : p < 1e-4 ? "< 0.0001" : fmt::format("{:.4f}", p);
}

using Measure = std::function<double(const RunRecord&)>;

MeanAndDeviation over_seeds(const std::vector<const RunRecord*>& runs, const Measure& measure) {
  std::vector<double> values;
  for (const RunRecord* run : runs)
    if (const double value = measure(*run); std::isfinite(value)) values.push_back(value);
  return mean_and_deviation(values);
}

std::string mean_and_spread(const MeanAndDeviation& value) {
  if (value.count == 0) return "-";
  return value.count < 2 ? cell(value.mean) : fmt::format("{} ± {}", cell(value.mean), cell(value.deviation));
}

std::string what_the_outcome_is(const StudyPlan& plan) {
  std::string names;
  for (const std::string& condition : plan.primary.conditions) names += (names.empty() ? "" : ", ") + condition;
  return fmt::format("the outcome is the mean of mAP over {}.", names);
}

void add_comparison(StudyTable& table, const StudyPlan& plan, const Comparison& one) {
  std::vector<std::string> row = {
      plan.arm(one.arm).shown(),      plan.arm(one.against).shown(), one.measure, std::to_string(one.difference.pairs),
      in_points(one.difference.mean), interval(one.difference)};
  if (one.conclusion) {
    row.push_back(chance(one.difference.p));
    row.push_back(chance(one.conclusion->corrected_p));
    row.push_back(chance(one.conclusion->equivalence_p));
    row.push_back(one.conclusion->words);
  }
  table.rows.push_back(std::move(row));
}

const std::vector<std::string> kCompared = {"arm",          "against", "measure", "seeds", "difference, points",
                                            "95 % interval"};
const std::vector<std::string> kConcluded = {"p", "p, Holm", "p, equivalence", "verdict"};

std::vector<std::string> joined(std::vector<std::string> first, const std::vector<std::string>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

StudyTable arms_by_conditions(const StudyResults& results, double Measurement::*field) {
  const StudyPlan& plan = results.plan;
  const bool precision = field == &Measurement::mean_ap;
  StudyTable table{.columns = {"arm", "seeds"}};
  if (precision) table.columns.emplace_back("outcome");
  for (const std::string& condition : plan.conditions) table.columns.push_back(condition);
  for (const StudyArm& arm : plan.arms) {
    const auto runs = runs_of(results.records, arm.name);
    if (runs.empty()) continue;
    std::vector<std::string> row = {arm.shown(), std::to_string(runs.size())};
    if (precision)
      row.push_back(mean_and_spread(
          over_seeds(runs, [&](const RunRecord& record) { return outcome_of(plan, record).value_or(std::nan("")); })));
    for (const std::string& condition : plan.conditions) {
      const MeanAndDeviation value = over_seeds(runs, [&](const RunRecord& record) {
        const Measurement* found = record.find(condition);
        return found == nullptr ? std::nan("") : found->*field;
      });
      row.push_back(condition == "clean" ? mean_and_spread(value) : cell(value.mean));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

// The mean over seeds of one measurement less another of the same runs, and how sure a single run's is.
void add_paired_rows(StudyTable& table, const StudyResults& results, const std::string& control,
                     const std::string& condition) {
  for (const StudyArm& arm : results.plan.arms) {
    const ControlEffect effect = control_effect(results.records, arm.name, condition, control);
    if (effect.own.empty()) continue;
    table.rows.push_back({arm.shown(), condition, control, std::to_string(effect.own.size()),
                          cell(mean_and_deviation(effect.own).mean), cell(mean_and_deviation(effect.changed).mean),
                          in_points(effect.difference.mean), interval(effect.difference),
                          cell(100 * mean_and_deviation(effect.errors).mean, 2)});
  }
}

const std::vector<std::string> kPaired = {"arm",
                                          "condition",
                                          "instead",
                                          "seeds",
                                          "mAP",
                                          "mAP then",
                                          "difference, points",
                                          "95 % interval",
                                          "error by scenes, points"};

}  // namespace

StudyTable gates_table(const StudyResults& results) {
  StudyTable table{.title = "Gates",
                   .note = "What must hold before the arms mean anything; means over the base models' seeds.",
                   .columns = {"gate", "measured", "target", "holds"}};
  for (const Gate& gate : all_gates(results.plan, results.records))
    table.rows.push_back({gate.name, gate.measured, gate.target,
                          gate.state == GateState::kHolds   ? "yes"
                          : gate.state == GateState::kFails ? "**no**"
                                                            : "not known"});
  return table;
}

StudyTable arms_table(const StudyResults& results) {
  StudyTable table = arms_by_conditions(results, &Measurement::mean_ap);
  table.title = "mAP by arm and condition";
  table.note = "Means over seeds, ± their deviation; " + what_the_outcome_is(results.plan);
  return table;
}

StudyTable resilience_table(const StudyResults& results) {
  StudyTable table = arms_by_conditions(results, &Measurement::nd_score);
  table.title = "NDS by arm and condition";
  table.note = "Means over seeds.";
  return table;
}

StudyTable primary_table(const StudyResults& results) {
  StudyTable table{.title = "The comparison that was fixed beforehand",
                   .note = "Paired by seed, Student's t; " + what_the_outcome_is(results.plan),
                   .columns = joined(kCompared, kConcluded)};
  if (const auto primary = analyze(results.plan, results.records).primary)
    add_comparison(table, results.plan, *primary);
  return table;
}

StudyTable secondary_table(const StudyResults& results) {
  StudyTable table{.title = "All other comparisons of the main arms",
                   .note = "Paired by seed, Student's t; one Holm correction over all rows of this table.",
                   .columns = joined(kCompared, kConcluded)};
  for (const Comparison& one : analyze(results.plan, results.records).secondary)
    add_comparison(table, results.plan, one);
  return table;
}

StudyTable exploratory_table(const StudyResults& results) {
  StudyTable table{.title = "Exploratory rows",
                   .note = results.plan.comparisons.empty()
                               ? "Few seeds, no correction, no verdict."
                               : "Few seeds, or no comparison that was planned: no correction, no verdict.",
                   .columns = kCompared};
  for (const Comparison& one : analyze(results.plan, results.records).exploratory)
    add_comparison(table, results.plan, one);
  return table;
}

StudyTable controls_table(const StudyResults& results) {
  StudyTable table{.title = "Controls: something else instead of the trained model's trust",
                   .note =
                       "The interval is over seeds; the error by scenes is that of a single run's difference, both "
                       "models on the same draws of scenes.",
                   .columns = kPaired};
  for (const std::string& condition : results.plan.control_conditions)
    for (const std::string& control : results.plan.controls) add_paired_rows(table, results, control, condition);
  return table;
}

StudyTable cues_table(const StudyResults& results) {
  StudyTable table{.title = "The price of false alarms and of missed cues",
                   .note =
                       "Clean frames with the cues of faulty ones (a false alarm), and faulty frames with the cues "
                       "of clean ones (missed).",
                   .columns = kPaired};
  for (const std::string& condition : results.plan.swapped_cues) {
    add_paired_rows(table, results, "cues of " + condition, "clean");
    add_paired_rows(table, results, "cues of clean", condition);
  }
  return table;
}

StudyTable scales_table(const StudyResults& results) {
  const StudyPlan& plan = results.plan;
  StudyTable table{.title = "Scales, bias and trust",
                   .note =
                       "Where the scales ended, the mean bias and the share of attention that it moved at the end "
                       "of training, and the mean trust in LiDAR and cameras by condition.",
                   .columns = {"arm", "lr x", "scale", "segment scale"}};
  std::vector<std::pair<std::string, std::string>> columns = {{"bias LiDAR", "effective_bias/lidar/mean"},
                                                              {"bias cameras", "effective_bias/camera/mean"}};
  // Records of versions that did not watch whole sensors have no such curve.
  if (std::any_of(results.records.begin(), results.records.end(), [](const RunRecord& record) {
        return record.curves.contains("effective_bias/segments/lidar/mean");
      })) {
    columns.emplace_back("segment bias LiDAR", "effective_bias/segments/lidar/mean");
    columns.emplace_back("segment bias cameras", "effective_bias/segments/camera/mean");
  }
  for (const auto& [title, curve] : columns) table.columns.push_back(title);
  table.columns.emplace_back("attention moved");
  std::vector<std::string> shown = {"clean"};
  for (const std::string& condition : plan.primary.conditions) shown.push_back(condition);
  for (const std::string& condition : shown) table.columns.push_back("trust " + condition);
  for (const StudyArm& arm : plan.arms) {
    const auto runs = runs_of(results.records, arm.name);
    if (runs.empty() || runs[0]->scales.empty()) continue;
    const auto scale = [&](const char* ending) {
      return mean_and_spread(over_seeds(
          runs,
          [&](const RunRecord& record) {
            for (const auto& [name, value] : record.scales)
              if (name.ends_with(ending)) return value;
            return std::nan("");
          }));
    };
    const auto last = [&](const std::string& name) {
      return over_seeds(runs,
                        [&](const RunRecord& record) {
                          const auto found = record.curves.find(name);
                          return found == record.curves.end() || found->second.values.empty()
                                     ? std::nan("")
                                     : found->second.values.back();
                        })
          .mean;
    };
    std::vector<std::string> row = {arm.shown(),
                                    runs[0]->scale_lr_mult > 0 ? fmt::format("{:g}", runs[0]->scale_lr_mult) : "-",
                                    scale(".scale"), scale(".segment_scale")};
    for (const auto& [title, curve] : columns) row.push_back(cell(last(curve), 2));
    row.push_back(cell(last("attention/layer0/change"), 3));
    for (const std::string& condition : shown) {
      const auto trust = [&](double Measurement::*field) {
        return over_seeds(runs,
                          [&](const RunRecord& record) {
                            const Measurement* found = record.find(condition);
                            return found == nullptr ? std::nan("") : found->*field;
                          })
            .mean;
      };
      const double lidar = trust(&Measurement::trust_lidar), camera = trust(&Measurement::trust_camera);
      row.push_back(std::isfinite(lidar) ? fmt::format("{:+.2f} {:+.2f}", lidar, camera) : "-");
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

StudyTable time_table(const StudyResults& results) {
  const StudyPlan& plan = results.plan;
  StudyTable table{
      .title = "Time",
      .note = fmt::format("Median milliseconds a step on one thread, runs at a time: {}; the arms take the "
                          "same steps, so this is what equal time would cost or give. Then the minutes of "
                          "one run, and of all runs.",
                          plan.processes),
      .columns = {"arm", "runs", "steps", "ms a step", "over the reference", "training", "evaluation"}};
  const auto step = [](const RunRecord& record) { return record.milliseconds_a_step; };
  const double reference = over_seeds(runs_of(results.records, plan.reference), step).mean;
  const auto minutes = [](double seconds) { return cell(seconds / 60, 1); };
  double trained = 0, evaluated = 0;
  const auto add = [&](const std::string& arm, const std::string& shown) {
    const auto runs = runs_of(results.records, arm);
    if (runs.empty()) return;
    const double own = over_seeds(runs, step).mean;
    const double training = over_seeds(runs, [](const RunRecord& record) { return record.training_seconds; }).mean;
    const double evaluating = over_seeds(runs, [](const RunRecord& record) { return record.evaluation_seconds; }).mean;
    trained += training * static_cast<double>(runs.size());
    evaluated += evaluating * static_cast<double>(runs.size());
    table.rows.push_back({shown, std::to_string(runs.size()), std::to_string(runs[0]->steps), cell(own, 1),
                          cell(own / reference, 2), minutes(training), minutes(evaluating)});
  };
  add("base", "base");
  add("doubled", "base of twice the steps");
  for (const StudyArm& arm : plan.arms) add(arm.name, arm.shown());
  if (!table.rows.empty())
    table.rows.push_back(
        {"all", std::to_string(results.records.size()), "-", "-", "-", minutes(trained), minutes(evaluated)});
  return table;
}

std::vector<StudyTable> all_tables(const StudyResults& results) {
  std::vector<StudyTable> tables = {gates_table(results),       primary_table(results),  arms_table(results),
                                    secondary_table(results),   controls_table(results), cues_table(results),
                                    exploratory_table(results), scales_table(results),   reach_table(results),
                                    resilience_table(results),  time_table(results)};
  if (!results.plan.streams.empty())
    tables.insert(tables.begin() + 2, {alarms_table(results), decision_chart(results), agreement_table(results)});
  std::erase_if(tables, [](const StudyTable& table) { return table.rows.empty(); });
  return tables;
}

std::string rows_in_markdown(const StudyTable& table, const std::string& rule) {
  const auto line = [](const std::vector<std::string>& cells) {
    std::string text = "|";
    for (const std::string& one : cells) text += " " + one + " |";
    return text + "\n";
  };
  std::string text = line(table.columns) + "|";
  for (std::size_t i = 0; i < table.columns.size(); ++i) text += rule + "|";
  text += '\n';
  for (const auto& row : table.rows) text += line(row);
  return text;
}

std::string to_markdown(const StudyTable& table) {
  return "### " + table.title + "\n\n" + table.note + "\n\n" + rows_in_markdown(table);
}

std::string to_markdown(const std::vector<StudyTable>& tables) {
  std::string text;
  for (const StudyTable& table : tables) text += (text.empty() ? "" : "\n") + to_markdown(table);
  return text;
}

std::string with_text(const std::string& document, const std::string& begin, const std::string& end,
                      const std::string& text) {
  const std::size_t first = document.find(begin + "\n");
  const std::size_t last = document.find(end, std::min(first, document.size()));
  if (first == std::string::npos || last == std::string::npos)
    throw std::invalid_argument(fmt::format("[study] the document must hold the lines {} and {}", begin, end));
  return document.substr(0, first + begin.size() + 1) + text + document.substr(last);
}

std::string with_tables(const std::string& document, const std::string& tables) {
  return with_text(document, "<!-- tables -->", "<!-- end of tables -->", tables);
}

}  // namespace camber::study
