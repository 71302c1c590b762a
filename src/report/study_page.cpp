#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "camber/config/options.h"
#include "camber/study/findings.h"
#include "camber/study/policies.h"
#include "camber/study/results.h"
#include "camber/study/tables.h"
#include "report/run_parts.h"
#include "report/study_parts.h"

namespace camber::report {
namespace {

constexpr std::size_t kCurvePoints = 2000;

Table table_of(const study::StudyTable& table) {
  return {.title = table.title, .note = table.note, .columns = table.columns, .rows = table.rows};
}

void add_table(Section& section, const study::StudyTable& table) {
  if (!table.rows.empty()) section.blocks.emplace_back(table_of(table));
}

std::vector<Tile> tiles_of(const study::StudyResults& results, const study::StudyAnalysis& analysis) {
  std::vector<Tile> tiles = {{"Runs", std::to_string(results.records.size()), "with a record"}};
  if (analysis.primary) {
    const study::PairedDifference& d = analysis.primary->difference;
    tiles.push_back({"Primary difference", study::signed_points(d.mean, 2) + " points",
                     std::isfinite(d.low) ? fmt::format("{} to {}, {} seeds", study::signed_points(d.low, 2),
                                                        study::signed_points(d.high, 2), d.pairs)
                                          : "one seed"});
    const std::string& words = analysis.primary->conclusion->words;
    const std::string compared = fmt::format("{} against {}", results.plan.arm(analysis.primary->arm).shown(),
                                             results.plan.arm(analysis.primary->against).shown());
    tiles.push_back({"Verdict", analysis.primary->conclusion->short_words(),
                     words.find(':') == std::string::npos ? compared : words.substr(words.find(':') + 2)});
  }
  const auto holding = std::count_if(analysis.gates.begin(), analysis.gates.end(),
                                     [](const study::Gate& gate) { return gate.state == study::GateState::kHolds; });
  tiles.push_back({"Gates", fmt::format("{} of {}", holding, analysis.gates.size()), "hold"});
  return tiles;
}

Section findings_section(const study::StudyResults& results) {
  Sentences sentences;
  for (const std::string& text : study::findings(results)) sentences.push_back({.text = text});
  Section section{.title = "In words", .lead = "Made from the records; verdicts only when all seeds are in."};
  if (!sentences.empty()) section.blocks.emplace_back(std::move(sentences));
  return section;
}

// Of a study with streams of cues that err: which policy wins, and what that stands on.
Section policies_section(const study::StudyResults& results) {
  Section section{.title = "Policies", .lead = "What is done with an alarm that may be false."};
  if (results.plan.streams.empty()) return section;
  add_table(section, study::decision_chart(results));
  add_table(section, study::alarms_table(results));
  add_table(section, study::agreement_table(results));
  return section;
}

Section gates_section(const study::StudyAnalysis& analysis) {
  Section section{.title = "Gates", .lead = "What must hold before the arms mean anything."};
  Sentences sentences;
  for (const study::Gate& gate : analysis.gates)
    sentences.push_back({.severity = gate.state == study::GateState::kHolds   ? "good"
                                     : gate.state == study::GateState::kFails ? "alarm"
                                                                              : "note",
                         .text = fmt::format("{}: {}", gate.name, gate.measured),
                         .position = gate.target});
  section.blocks.emplace_back(std::move(sentences));
  return section;
}

void add_intervals(Section& section, const study::StudyPlan& plan, const std::vector<study::Comparison>& comparisons,
                   const std::string& note) {
  if (comparisons.empty()) return;
  Intervals plot = intervals_of(plan, comparisons);
  plot.note = note;
  section.blocks.emplace_back(std::move(plot));
}

Section differences_section(const study::StudyResults& results, const study::StudyAnalysis& analysis) {
  Section section{.title = "Paired differences",
                  .lead = "Each row is an arm less the one it is compared with, over the same seeds."};
  add_intervals(section, results.plan, main_comparisons(analysis), "Main arms; the first row was fixed beforehand.");
  add_intervals(section, results.plan, analysis.exploratory, "Exploratory rows.");
  add_table(section, study::primary_table(results));
  add_table(section, study::secondary_table(results));
  add_table(section, study::exploratory_table(results));
  return section;
}

// "scale/head.attention_bias.segment_scale/value" of a record as a reader calls it: "segment scale".
std::string curve_words(const std::string& name, const std::string& prefix) {
  const std::string part = name.substr(prefix.size(), name.rfind('/') - prefix.size());
  return prefix == "scale/" ? scale_words(part) : bias_words(part);
}

// One chart an arm and value, one curve a seed.
Section curves_section(const study::StudyResults& results, const std::string& title, const std::string& prefix) {
  Section section{.title = title, .lead = "One curve a seed.", .folded = true};
  for (const study::StudyArm& arm : results.plan.arms) {
    std::set<std::string> names;
    for (const study::RunRecord& record : results.records)
      if (record.arm == arm.name)
        for (const auto& [name, curve] : record.curves)
          if (name.starts_with(prefix)) names.insert(name);
    for (const std::string& name : names) {
      std::vector<RawSeries> series;
      for (const study::RunRecord& record : results.records) {
        const auto found = record.curves.find(name);
        if (record.arm != arm.name || found == record.curves.end()) continue;
        series.push_back({.name = "seed " + std::to_string(record.seed),
                          .x = {found->second.steps.begin(), found->second.steps.end()},
                          .values = found->second.values});
      }
      Chart chart{.title = fmt::format("{}: {}", arm.shown(), curve_words(name, prefix))};
      put_series(chart, series, kCurvePoints);
      section.blocks.emplace_back(std::move(chart));
    }
  }
  return section;
}

}  // namespace

Page study_page(const std::filesystem::path& path) {
  const study::StudyResults results = study::read_study(path);
  const study::StudyAnalysis analysis = study::analyze(results.plan, results.records);
  Page page{.title = results.plan.title,
            .subtitle = fmt::format("{} arms, {} records", results.plan.arms.size(), results.records.size()),
            .tiles = tiles_of(results, analysis)};
  Section arms{.title = "Arms by faults"}, controls{.title = "Controls"}, cost{.title = "Scales and time"};
  if (Table map = arm_table(results); !map.rows.empty()) arms.blocks.emplace_back(std::move(map));
  add_table(arms, study::arms_table(results));
  add_table(arms, study::resilience_table(results));
  add_table(controls, study::controls_table(results));
  add_table(controls, study::cues_table(results));
  add_table(cost, study::scales_table(results));
  add_table(cost, study::reach_table(results));
  add_table(cost, study::time_table(results));
  page.sections = {findings_section(results),
                   policies_section(results),
                   gates_section(analysis),
                   arms,
                   differences_section(results, analysis),
                   controls,
                   cost,
                   curves_section(results, "Scale curves", "scale/"),
                   curves_section(results, "Bias curves", "effective_bias/"),
                   curves_section(results, "Trust curves", "trust/")};
  page.sections.push_back(
      {.title = "Plan", .blocks = {Text{"plan.toml", config::to_toml(results.plan)}}, .folded = true});
  std::erase_if(page.sections, [](const Section& section) { return section.blocks.empty(); });
  return page;
}

}  // namespace camber::report
