#include <algorithm>
#include <cmath>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "camber/analysis/bound.h"

namespace camber::analysis {
namespace {

std::string mass_bar(double share) {
  constexpr int kWidth = 40;
  return std::string(static_cast<std::size_t>(std::lround(share * kWidth)), '#');
}

}  // namespace

std::string to_text(const BoundAnalysis& analysis) {
  const double share = static_cast<double>(analysis.window) / static_cast<double>(analysis.keys);
  std::string text = fmt::format("A window of {} of {} equal keys ({:.3f} %) holds {:.6g} of the attention\n",
                                 analysis.window, analysis.keys, 100 * share, analysis.mass);
  text += fmt::format("when the bias on its logits is {:.6f}; with weights up to 1 the scale's\n", analysis.bias);
  text += fmt::format("upper bound must be at least {:.6f}.\n\n", analysis.scale_max);
  text += "      bias      mass\n";
  for (const MassAtBias& row : analysis.mass_at)
    text += fmt::format("{:10.4f}  {:.6f}  |{:<40}|\n", row.bias, row.mass, mass_bar(row.mass));
  return text;
}

std::string to_csv(const BoundAnalysis& analysis) {
  std::vector<MassAtBias> rows = analysis.mass_at;
  rows.push_back({.bias = analysis.bias, .mass = analysis.mass});
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.bias < b.bias; });
  std::string text = "bias,mass\n";
  for (const MassAtBias& row : rows) text += fmt::format("{},{}\n", row.bias, row.mass);
  return text;
}

std::string to_json(const BoundAnalysis& analysis) {
  nlohmann::ordered_json json = {{"keys", analysis.keys},           {"window", analysis.window},
                                 {"mass", analysis.mass},           {"bias", analysis.bias},
                                 {"scale_max", analysis.scale_max}, {"mass_at", nlohmann::ordered_json::array()}};
  for (const MassAtBias& row : analysis.mass_at)
    json["mass_at"].push_back(nlohmann::ordered_json{{"bias", row.bias}, {"mass", row.mass}});
  return json.dump(2) + "\n";
}

}  // namespace camber::analysis
