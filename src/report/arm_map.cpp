#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "report/page_parts.h"
#include "report/study_parts.h"

namespace camber::report {
namespace {

constexpr double kArms = 300, kCell = 92, kLine = 26, kHead = 72, kHeadLine = 14, kFoot = 12;

struct Shade {
  double value = 0;       // mAP, or its difference
  double of_largest = 0;  // signed share of the largest difference
  bool is_difference = false;
};

// What the map shows an arm beside: the reference, except for arms from scratch, which have their own; empty for none.
std::string beside(const study::StudyPlan& plan, const study::StudyArm& arm) {
  if (arm.from_scratch) return arm.against;
  return arm.name == plan.reference ? "" : plan.reference;
}

// What an arm adds to another, or its own mAP beside none; nothing when it was not measured.
std::optional<double> value_of(const study::StudyResults& results, const std::string& arm, const std::string& against,
                               const std::string& measure) {
  const study::StudyPlan& plan = results.plan;
  if (!against.empty()) {
    const auto paired = study::compare(plan, results.records, arm, against, measure);
    return paired ? std::optional(paired->difference.mean) : std::nullopt;
  }
  std::vector<double> values = study::values_of(plan, results.records, arm, measure);
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  return values.empty() ? std::nullopt : std::optional(study::mean_and_deviation(values).mean);
}

// White at 0, deep blue or red at the largest difference.
std::string colour_of(double share) {
  const double deep = std::min(1.0, std::abs(share));
  const auto mix = [deep](int full) { return static_cast<int>(std::lround(255 + (full - 255) * deep)); };
  return share >= 0 ? fmt::format("#{:02x}{:02x}{:02x}", mix(74), mix(144), mix(217))
                    : fmt::format("#{:02x}{:02x}{:02x}", mix(224), mix(96), mix(80));
}

std::string cell_text(double x, double y, const std::string& text, const char* anchor = "middle") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill=\"#222222\">{}</text>\n", x, y, anchor,
                     escaped(text));
}

// A long condition in lines that fit its column, cut after ':' and '_'.
std::vector<std::string> heading_lines(const std::string& measure) {
  constexpr std::size_t kLetters = 14;  // what a column has room for
  std::vector<std::string> lines(1);
  for (std::size_t from = 0; from < measure.size();) {
    const std::size_t end = std::min(measure.find_first_of(":_", from), measure.size() - 1) + 1;
    const std::string part = measure.substr(from, end - from);
    if (measure.size() > kLetters && !lines.back().empty() && lines.back().size() + part.size() > kLetters)
      lines.emplace_back();
    lines.back() += part;
    from = end;
  }
  return lines;
}

using Row = std::vector<std::optional<Shade>>;

// One row an arm that has a value, with its title.
std::vector<std::pair<std::string, Row>> rows_of(const study::StudyResults& results,
                                                 const std::vector<std::string>& measures) {
  const study::StudyPlan& plan = results.plan;
  std::vector<std::pair<std::string, Row>> rows;
  double largest = 0.005;  // differences below half a point stay pale
  for (const study::StudyArm& arm : plan.arms) {
    Row row;
    const std::string against = beside(plan, arm);
    for (const std::string& measure : measures) {
      const auto value = value_of(results, arm.name, against, measure);
      if (value && !against.empty()) largest = std::max(largest, std::abs(*value));
      row.push_back(value ? std::optional(Shade{.value = *value, .is_difference = !against.empty()}) : std::nullopt);
    }
    if (std::any_of(row.begin(), row.end(), [](const auto& cell) { return cell.has_value(); }))
      rows.emplace_back(arm.shown() + (arm.role == study::ArmRole::kMain ? "" : " *"), std::move(row));
  }
  for (auto& [title, row] : rows)
    for (auto& cell : row)
      if (cell && cell->is_difference) cell->of_largest = cell->value / largest;
  return rows;
}

std::vector<std::string> measures_of(const study::StudyPlan& plan) {
  std::vector<std::string> measures = {study::kOutcome};
  measures.insert(measures.end(), plan.conditions.begin(), plan.conditions.end());
  return measures;
}

std::string text_of(const Shade& cell) {
  return cell.is_difference ? study::signed_points(cell.value) : fmt::format("{:.1f}", 100 * cell.value);
}

constexpr const char* kMapWords =
    "mAP (grey), and what other arms add to the reference, in points; arms from scratch add to the one from scratch "
    "(*: few seeds, no verdict)";

}  // namespace

Table arm_table(const study::StudyResults& results) {
  const std::vector<std::string> measures = measures_of(results.plan);
  Table table{.title = "What each arm adds", .note = kMapWords, .columns = {"arm"}};
  table.columns.insert(table.columns.end(), measures.begin(), measures.end());
  for (const auto& [title, row] : rows_of(results, measures)) {
    std::vector<std::string> cells = {title};
    std::vector<double> shades = {std::nan("")};
    for (const auto& cell : row) {
      cells.push_back(cell ? text_of(*cell) : "");
      shades.push_back(cell && cell->is_difference ? cell->of_largest : std::nan(""));
    }
    table.rows.push_back(std::move(cells));
    table.shades.push_back(std::move(shades));
  }
  return table;
}

std::string arm_map(const study::StudyResults& results) {
  const std::vector<std::string> measures = measures_of(results.plan);
  const auto rows = rows_of(results, measures);
  const double width = kArms + kCell * static_cast<double>(measures.size()) + kFoot;
  const double height = kHead + kLine * static_cast<double>(rows.size()) + kFoot;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n",
      width, height);
  svg += cell_text(kFoot, 18, kMapWords, "start");
  for (std::size_t column = 0; column < measures.size(); ++column) {
    const std::vector<std::string> lines = heading_lines(measures[column]);
    for (std::size_t line = 0; line < lines.size(); ++line)
      svg += cell_text(kArms + kCell * (static_cast<double>(column) + 0.5),
                       kHead - 10 - kHeadLine * static_cast<double>(lines.size() - 1 - line), lines[line]);
  }
  double y = kHead;
  for (const auto& [title, row] : rows) {
    svg += cell_text(kArms - 10, y + 17, title, "end");
    for (std::size_t column = 0; column < row.size(); ++column) {
      if (!row[column]) continue;
      const Shade& cell = *row[column];
      const double x = kArms + kCell * static_cast<double>(column);
      svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\n", x + 1, y + 1,
                         kCell - 2, kLine - 2, cell.is_difference ? colour_of(cell.of_largest) : "#eeeeee");
      svg += cell_text(x + kCell / 2, y + 17, text_of(cell));
    }
    y += kLine;
  }
  return svg + "</svg>\n";
}

}  // namespace camber::report
