#include "camber/analysis/softmax.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <fmt/format.h>

namespace camber::analysis {
namespace {

void require_finite(const char* name, const std::vector<double>& values) {
  for (const double value : values)
    if (!std::isfinite(value))
      throw std::invalid_argument(fmt::format("[analyze softmax] {} must be finite numbers, got {}", name, value));
}

}  // namespace

ResponseZone response_zone(double difference) {
  const double size = std::fabs(difference);
  if (size <= 2) return ResponseZone::kSensitive;
  if (size <= 3) return ResponseZone::kSafe;
  return size <= 5 ? ResponseZone::kEdge : ResponseZone::kSaturated;
}

const char* name(ResponseZone zone) {
  switch (zone) {
    case ResponseZone::kSensitive:
      return "sensitive";
    case ResponseZone::kSafe:
      return "safe";
    case ResponseZone::kEdge:
      return "edge";
    case ResponseZone::kSaturated:
      break;
  }
  return "saturated";
}

Verdict verdict(double largest_weight) {
  if (largest_weight > 0.9) return Verdict::kSaturated;
  return largest_weight > 0.7 ? Verdict::kNearly : Verdict::kNormal;
}

const char* name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kNormal:
      return "normal";
    case Verdict::kNearly:
      return "nearly";
    case Verdict::kSaturated:
      break;
  }
  return "saturated";
}

void SoftmaxOptions::validate() const {
  if (weights.empty()) throw std::invalid_argument("[analyze softmax] weights must hold at least one number, got none");
  if (!scores.empty() && scores.size() != weights.size())
    throw std::invalid_argument(fmt::format("[analyze softmax] scores must be as many as the weights, {}, got {}",
                                            weights.size(), scores.size()));
  require_finite("scores", scores);
  require_finite("weights", weights);
  require_finite("scales", scales);
  require_finite("differences", differences);
  if (clip && !(*clip > 0))
    throw std::invalid_argument(fmt::format("[analyze softmax] clip must be above 0, got {}", *clip));
}

ResponsePoint softmax_response(double difference) {
  // Written with e^-|d|, so that neither end overflows or cancels.
  const double small = std::exp(-std::fabs(difference));
  return {.difference = difference,
          .weight = (difference >= 0 ? 1 : small) / (1 + small),
          .gradient = small / ((1 + small) * (1 + small)),
          .zone = response_zone(difference)};
}

AttentionAtScale attention_at(const SoftmaxOptions& options, double scale) {
  AttentionAtScale row{.scale = scale};
  std::vector<double> logits;
  for (std::size_t key = 0; key < options.weights.size(); ++key) {
    const double bias = options.weights[key] * scale;
    row.bias.push_back(options.clip ? std::clamp(bias, -*options.clip, *options.clip) : bias);
    logits.push_back(options.scores[key] + row.bias.back());
  }
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - largest);
  for (const double logit : logits) {
    const double share = std::exp(logit - largest) / sum;
    row.attention.push_back(share);
    row.entropy -= share * (logit - largest - std::log(sum));
    row.max_attention = std::max(row.max_attention, share);
  }
  row.verdict = verdict(row.max_attention);
  return row;
}

SoftmaxAnalysis analyze_softmax(const SoftmaxOptions& options) {
  options.validate();
  SoftmaxAnalysis analysis{.options = options};
  analysis.options.scores.resize(options.weights.size(), 0.0);
  for (const double difference : options.differences) analysis.curve.push_back(softmax_response(difference));
  for (const double scale : options.scales) analysis.scales.push_back(attention_at(analysis.options, scale));
  return analysis;
}

}  // namespace camber::analysis
