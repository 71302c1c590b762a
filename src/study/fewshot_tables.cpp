#include "camber/study/fewshot_tables.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <fmt/format.h>

#include "camber/study/statistics.h"

namespace camber::study {
namespace {

using Runs = std::vector<const RunRecord*>;

const std::string kNone = "–", kRule = "---";

double value_in(const RunRecord& run, const std::string& name) {
  const auto found = run.values.find(name);
  if (found == run.values.end())
    throw std::runtime_error(fmt::format("[study] the record of {} must hold the value '{}'", run.key(), name));
  return found->second;
}

template <class Measure>
std::vector<double> each(const Runs& runs, Measure measure) {
  std::vector<double> values;
  for (const RunRecord* run : runs) values.push_back(measure(*run));
  return values;
}

PairedDifference over_zero(const std::vector<double>& values) {
  return paired_difference(values, std::vector<double>(values.size()));
}

// Of one seed the number alone.
std::string with_interval(const PairedDifference& value, bool sign) {
  const std::string mean = sign ? fmt::format("{:+.1f}", value.mean) : fmt::format("{:.1f}", value.mean);
  return value.pairs < 2 ? mean : fmt::format("{} ± {:.1f}", mean, (value.high - value.low) / 2);
}

std::string percent(const Runs& runs, const std::string& name) {
  return with_interval(over_zero(each(
                           runs, [&](const RunRecord& run) { return 100 * value_in(run, name); })),
                       false);
}

std::string accuracy_of(const std::string& test) {
  return test + "/accuracy";
}

std::string gain(const Runs& runs, const Runs& reference, const std::string& name) {
  std::vector<double> gains;
  for (const RunRecord* run : runs)
    for (const RunRecord* other : reference)
      if (other->seed == run->seed) gains.push_back(100 * (value_in(*run, name) - value_in(*other, name)));
  return gains.empty() ? kNone : with_interval(over_zero(gains), true);
}

// Of the first scale, where there is one.
std::vector<std::string> scale_cells(const Runs& runs) {
  std::vector<double> ends;
  double at_bound = 0;
  for (const RunRecord* run : runs) {
    if (run->scales.empty()) continue;
    const auto& [name, value] = *run->scales.begin();
    ends.push_back(value);
    at_bound += value_in(*run, fmt::format("scale/{}/share_at_bound", name));
  }
  if (ends.empty()) return {kNone, kNone};
  const auto [least, most] = std::minmax_element(ends.begin(), ends.end());
  return {fmt::format("{:.1f} – {:.1f}", *least, *most),
          fmt::format("{:.0f} %", 100 * at_bound / static_cast<double>(ends.size()))};
}

std::vector<std::string> leak_cells(const Runs& runs) {
  const auto fall = [&runs](const std::string& probe) {
    return over_zero(each(
                         runs,
                         [&](const RunRecord& run) {
                           return 100 *
                                  (value_in(run, "leak/domain/" + probe) - value_in(run, "leak/purified/" + probe));
                         }))
        .mean;
  };
  const double index =
      over_zero(each(runs, [](const RunRecord& run) { return value_in(run, "leak/purified/leak_index"); })).mean;
  return {fmt::format("{:.4f}", index), percent(runs, "leak/purified/class_probe"),
          percent(runs, "leak/purified/domain_probe"),
          fmt::format("{:+.1f} / {:+.1f}", fall("class_probe"), fall("domain_probe"))};
}

std::vector<std::string> own_columns(const FewshotPart& part, const RunRecord& first) {
  if (part.table == FewshotTable::kScales) return {"scale at the end", "steps at a bound"};
  const auto chance = [&first](const char* name) { return 100 * value_in(first, name); };
  return {"LeakIndex", fmt::format("class probe, % (chance {:.0f})", chance("leak/purified/class_chance")),
          fmt::format("domain probe, % (chance {:.0f})", chance("leak/purified/domain_chance")),
          "taken from the class / domain probe, points"};
}

std::string columns_name(const FewshotPart& part) {
  if (!part.gain_over.empty()) return part.gain_over;
  for (const FewshotArm& arm : part.arms)
    if (arm.name == part.reference) return arm.shown();
  return part.reference;
}

std::string begin_of(const FewshotPart& part) {
  return fmt::format("<!-- table: {} -->", part.name);
}

std::string end_of(const FewshotPart& part) {
  return fmt::format("<!-- end: {} -->", part.name);
}

}  // namespace

StudyTable fewshot_table(const FewshotResults& results, const FewshotPart& part) {
  const std::vector<std::string>& tests = results.plan.tests;
  const std::string& compared = tests.back();
  const Runs reference = runs_of(results.records, part.name + "_" + part.reference);
  StudyTable table{.columns = {"arm"}};
  for (const std::string& test : tests) table.columns.push_back(test + ", %");
  table.columns.push_back(fmt::format("{} gain over {}", compared.substr(compared.rfind(' ') + 1), columns_name(part)));
  const std::size_t shared = table.columns.size();
  for (const FewshotArm& arm : part.arms) {
    const Runs runs = runs_of(results.records, part.arm_name(arm));
    if (runs.empty()) continue;
    if (table.columns.size() == shared)
      for (std::string& column : own_columns(part, *runs.front())) table.columns.push_back(std::move(column));
    std::vector<std::string> row = {arm.shown()};
    for (const std::string& test : tests) row.push_back(percent(runs, accuracy_of(test)));
    row.push_back(arm.name == part.reference ? kNone : gain(runs, reference, accuracy_of(compared)));
    for (std::string& cell : part.table == FewshotTable::kScales ? scale_cells(runs) : leak_cells(runs))
      row.push_back(std::move(cell));
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string fewshot_tables(const FewshotResults& results) {
  std::string text;
  for (const FewshotPart& part : results.plan.parts)
    if (const StudyTable table = fewshot_table(results, part); !table.rows.empty())
      text += begin_of(part) + "\n" + rows_in_markdown(table, kRule) + end_of(part) + "\n";
  return text;
}

std::string with_fewshot_tables(std::string document, const FewshotResults& results) {
  for (const FewshotPart& part : results.plan.parts)
    document = with_text(document, begin_of(part), end_of(part), rows_in_markdown(fewshot_table(results, part), kRule));
  return document;
}

}  // namespace camber::study
