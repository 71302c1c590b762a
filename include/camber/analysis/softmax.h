#pragma once
#include <optional>
#include <string>
#include <vector>

namespace camber::analysis {

/// How a softmax answers to a difference d between two scores: sensitive for |d| up to 2, safe up to 3, edge up to 5,
/// saturated beyond.
enum class ResponseZone { kSensitive, kSafe, kEdge, kSaturated };
ResponseZone response_zone(double difference);
const char* name(ResponseZone zone);

/// What the largest weight of an attention row says: saturated above 0.9, nearly so above 0.7, else normal.
enum class Verdict { kNormal, kNearly, kSaturated };
Verdict verdict(double largest_weight);
const char* name(Verdict verdict);

struct SoftmaxOptions {
  std::vector<double> scores{};                       ///< of the keys before the bias; empty: zeros
  std::vector<double> weights = {0, 0.8, -0.6, 0.3};  ///< trust in each key, times the scale its bias
  std::vector<double> scales = {1, 2.5, 5, 10, 20};
  std::vector<double> differences = {0, 1, 2, 3, 5, 10};
  std::optional<double> clip{};  ///< biases are held inside +-clip

  /// Throws std::invalid_argument unless there is a weight, as many scores as weights or none, only finite numbers and
  /// a clip above 0.
  void validate() const;
};

struct ResponsePoint {
  double difference = 0;
  double weight = 0;    ///< of the larger score, 1 / (1 + e^-d)
  double gradient = 0;  ///< of the weight by d, weight * (1 - weight)
  ResponseZone zone = ResponseZone::kSensitive;
};

struct AttentionAtScale {
  double scale = 0;
  std::vector<double> bias{};       ///< clip(weight * scale)
  std::vector<double> attention{};  ///< softmax(score + bias)
  double entropy = 0;               ///< -sum p ln p
  double max_attention = 0;
  Verdict verdict = Verdict::kNormal;
};

struct SoftmaxAnalysis {
  SoftmaxOptions options{};  ///< with the scores filled in
  std::vector<ResponsePoint> curve{};
  std::vector<AttentionAtScale> scales{};
};

ResponsePoint softmax_response(double difference);

/// One row of attention under a bias of weights times scale; the options must be valid and hold a score for every
/// weight.
AttentionAtScale attention_at(const SoftmaxOptions& options, double scale);

/// What a bias does to a softmax: its response curve, and the attention over the given keys at every scale.
///
///   analyze_softmax({.scores = {2.0, 2.5}, .weights = {0.8, 0}, .scales = {5}, .clip = 10})
///       .scales[0].attention[0]  // 0.970688: a camera that stood at 0.377541 without the bias
SoftmaxAnalysis analyze_softmax(const SoftmaxOptions& options);

/// For a terminal of 80 columns.
std::string to_text(const SoftmaxAnalysis& analysis);
/// One table for both parts: the column `table` says `curve` or `scales`, the other part's columns stay empty.
std::string to_csv(const SoftmaxAnalysis& analysis);
/// {"curve": [{"difference", "weight", "gradient", "zone"}],
///  "scales": [{"scale", "bias": [], "attention": [], "entropy", "max_attention", "verdict"}]}
std::string to_json(const SoftmaxAnalysis& analysis);
/// The response curve with its zones, and the attention of every key against the scale.
std::string to_svg(const SoftmaxAnalysis& analysis);

}  // namespace camber::analysis
