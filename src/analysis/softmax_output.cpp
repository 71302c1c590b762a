#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "camber/analysis/softmax.h"

namespace camber::analysis {
namespace {

constexpr int kBarWidth = 30;
constexpr std::size_t kKeysInARow = 5;

std::string bar(double share) {
  const auto filled = static_cast<std::size_t>(std::lround(share * kBarWidth));
  return std::string(filled, '#') + std::string(kBarWidth - filled, '.');
}

// The keys' digits in a row, each as wide as its share: 1112222222222233444.
std::string stacked_bar(const std::vector<double>& shares) {
  constexpr int kWidth = 60;
  std::string text;
  double sum = 0;
  for (std::size_t key = 0; key < shares.size(); ++key) {
    sum += shares[key];
    text.resize(static_cast<std::size_t>(std::lround(sum * kWidth)), static_cast<char>('1' + key));
  }
  return text;
}

std::string joined(const std::vector<double>& numbers) {
  return fmt::format("{:g}", fmt::join(numbers, ", "));
}

// Columns of five keys a line, so that any number of keys fits into 80 columns.
std::string attention_table(const SoftmaxAnalysis& analysis) {
  const std::size_t keys = analysis.options.weights.size();
  const std::size_t columns = std::min(keys, kKeysInARow);
  std::string text = "   scale";
  for (std::size_t key = 0; key < columns; ++key)
    text += fmt::format("{:>10}", keys > columns ? "" : fmt::format("key {}", key + 1));
  text += "   entropy  verdict\n";
  for (const AttentionAtScale& row : analysis.scales) {
    text += fmt::format("{:8g}", row.scale);
    for (std::size_t key = 0; key < keys; ++key) {
      if (key > 0 && key % kKeysInARow == 0) text += "\n        ";
      text += fmt::format("{:10.6f}", row.attention[key]);
      if (key + 1 == columns) text += fmt::format("{:10.6f}  {}", row.entropy, name(row.verdict));
    }
    text += '\n';
  }
  return text;
}

}  // namespace

std::string to_text(const SoftmaxAnalysis& analysis) {
  std::string text = "How a softmax answers to a difference between two scores\n\n";
  text += "  difference    weight  gradient  zone       weight as a bar\n";
  for (const ResponsePoint& point : analysis.curve)
    text += fmt::format("{:12g}  {:.6f}  {:.6f}  {:<9}  {}\n", point.difference, point.weight, point.gradient,
                        name(point.zone), bar(point.weight));
  text += "\nzones of the difference: sensitive to 2, safe to 3, edge to 5, saturated beyond\n";

  const SoftmaxOptions& options = analysis.options;
  text += fmt::format("\nAttention over {} keys, bias = weight * scale\n\n", options.weights.size());
  text += fmt::format("  weights {}\n  scores  {}\n", joined(options.weights), joined(options.scores));
  text += options.clip ? fmt::format("  clip    +-{:g}\n\n", *options.clip) : "  clip    none\n\n";
  text += attention_table(analysis);
  if (options.weights.size() <= 9) {
    text += "\nshare of each key, by its number\n";
    for (const AttentionAtScale& row : analysis.scales)
      text += fmt::format("{:8g}  {}\n", row.scale, stacked_bar(row.attention));
  }
  text += "\nverdict on the largest weight: over 0.9 saturated, over 0.7 nearly, else normal\n";
  return text;
}

std::string to_csv(const SoftmaxAnalysis& analysis) {
  const std::size_t keys = analysis.options.weights.size();
  std::string text = "table,difference,weight,gradient,zone,scale";
  for (std::size_t key = 1; key <= keys; ++key) text += fmt::format(",bias_{}", key);
  for (std::size_t key = 1; key <= keys; ++key) text += fmt::format(",attention_{}", key);
  text += ",entropy,max_attention,verdict\n";
  for (const ResponsePoint& point : analysis.curve)
    text += fmt::format("curve,{},{},{},{},{}\n", point.difference, point.weight, point.gradient, name(point.zone),
                        std::string(2 * keys + 3, ','));
  for (const AttentionAtScale& row : analysis.scales)
    text += fmt::format("scales,,,,,{},{},{},{},{},{}\n", row.scale, fmt::join(row.bias, ","),
                        fmt::join(row.attention, ","), row.entropy, row.max_attention, name(row.verdict));
  return text;
}

std::string to_json(const SoftmaxAnalysis& analysis) {
  using Json = nlohmann::ordered_json;
  Json curve = Json::array(), scales = Json::array();
  for (const ResponsePoint& point : analysis.curve)
    curve.push_back(Json{{"difference", point.difference},
                         {"weight", point.weight},
                         {"gradient", point.gradient},
                         {"zone", name(point.zone)}});
  for (const AttentionAtScale& row : analysis.scales)
    scales.push_back(Json{{"scale", row.scale},
                          {"bias", row.bias},
                          {"attention", row.attention},
                          {"entropy", row.entropy},
                          {"max_attention", row.max_attention},
                          {"verdict", name(row.verdict)}});
  return Json{{"curve", curve}, {"scales", scales}}.dump(2) + "\n";
}

}  // namespace camber::analysis
