#include <array>
#include <cmath>

#include <fmt/format.h>

#include "camber/analysis/bound.h"
#include "camber/study/statistics.h"
#include "camber/study/tables.h"

namespace camber::study {
namespace {

using analysis::mass_after;
using analysis::mass_before;
using analysis::most_moved;

constexpr std::array kBiases = {0.5, 1.0, 2.5, 5.0, 10.0};
constexpr const char* kLayer = "attention/layer";
constexpr const char* kChange = "/change";

// A curve's first value, averaged over the runs of an arm; NaN without any.
double at_the_start(const StudyResults& results, const std::string& arm, const std::string& curve) {
  std::vector<double> values;
  for (const RunRecord& record : results.records)
    if (const auto found = record.curves.find(curve);
        record.arm == arm && found != record.curves.end() && !found->second.values.empty())
      values.push_back(found->second.values.front());
  return values.empty() ? std::nan("") : mean_and_deviation(values).mean;
}

}  // namespace

StudyTable reach_table(const StudyResults& results) {
  const std::string& arm = results.plan.primary.against;
  StudyTable table{
      .title = "What a bias on the windows can move",
      .note = fmt::format("At the first step of '{}' every window gets the same bias, and the trained "
                          "weights are still those of the base: from the share of the attention that it "
                          "moved follows the share that the windows held before it, as if all queries were "
                          "alike. Then what biases of other sizes would move, and the most that they could "
                          "move anywhere, tanh(bias / 4).",
                          arm),
      .columns = {"layer", "bias", "moved", "in the windows before", "after"}};
  for (const double bias : kBiases) table.columns.push_back(fmt::format("{:g} would move", bias));
  const double bias = at_the_start(results, arm, "effective_bias/lidar/mean");
  for (int layer = 0;; ++layer) {
    const double moved = at_the_start(results, arm, kLayer + std::to_string(layer) + kChange);
    const double before = mass_before(moved, bias);
    if (!std::isfinite(before)) break;
    std::vector<std::string> row = {std::to_string(layer), fmt::format("{:.2f}", bias), fmt::format("{:.3f}", moved),
                                    fmt::format("{:.3f}", before), fmt::format("{:.3f}", before + moved)};
    for (const double other : kBiases) row.push_back(fmt::format("{:.3f}", mass_after(before, other) - before));
    table.rows.push_back(std::move(row));
  }
  if (table.rows.empty()) return table;
  std::vector<std::string> row = {"any", fmt::format("{:.2f}", bias), fmt::format("at most {:.3f}", most_moved(bias)),
                                  "-", "-"};
  for (const double other : kBiases) row.push_back(fmt::format("at most {:.3f}", most_moved(other)));
  table.rows.push_back(std::move(row));
  return table;
}

}  // namespace camber::study
