#include "fewshot/purification_definition.h"

#include <algorithm>
#include <cmath>

namespace camber::fewshot {
namespace {

using Row = std::vector<double>;

Row row_of(const std::vector<double>& matrix, std::size_t row, std::size_t width) {
  return {matrix.begin() + static_cast<std::ptrdiff_t>(row * width),
          matrix.begin() + static_cast<std::ptrdiff_t>((row + 1) * width)};
}

double dot(const Row& a, const Row& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

double length(const Row& a) {
  return std::sqrt(dot(a, a));
}

Row unit(Row a) {
  const double norm = std::max(length(a), 1e-12);
  for (double& value : a) value /= norm;
  return a;
}

Row times(const std::vector<double>& matrix, const Row& x, const std::vector<double>& bias) {
  Row result;
  for (std::size_t i = 0; i * x.size() < matrix.size(); ++i)
    result.push_back(dot(row_of(matrix, i, x.size()), x) + (bias.empty() ? 0 : bias[i]));
  return result;
}

std::vector<Row> prototypes_of(const DefinitionInputs& in) {
  std::vector<Row> means(in.n_way, Row(in.intrinsic_width, 0));
  std::vector<double> counts(in.n_way, 0);
  for (std::size_t b = 0; b < in.n_way * in.k_shot; ++b) {
    const auto c = static_cast<std::size_t>(in.labels[b]);
    for (std::size_t i = 0; i < in.intrinsic_width; ++i) means[c][i] += in.f_phy[b * in.intrinsic_width + i];
    counts[c] += 1;
  }
  Row centre(in.intrinsic_width, 0);
  for (std::size_t c = 0; c < in.n_way; ++c)
    for (std::size_t i = 0; i < in.intrinsic_width; ++i)
      centre[i] += (means[c][i] /= counts[c]) / static_cast<double>(in.n_way);
  for (Row& mean : means) {
    for (std::size_t i = 0; i < in.intrinsic_width && in.centre; ++i) mean[i] -= centre[i];
    mean = unit(mean);
  }
  return means;
}

Row softmax(const Row& logits) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double z : logits) sum += std::exp(z - top);
  Row shares;
  for (const double z : logits) shares.push_back(std::exp(z - top) / sum);
  return shares;
}

Row layer_norm(const Row& x, const Row& weight, const Row& bias) {
  const auto n = static_cast<double>(x.size());
  double mean = 0, variance = 0;
  for (const double value : x) mean += value / n;
  for (const double value : x) variance += (value - mean) * (value - mean) / n;
  Row result;
  for (std::size_t i = 0; i < x.size(); ++i)
    result.push_back((x[i] - mean) / std::sqrt(variance + 1e-5) * weight[i] + bias[i]);
  return result;
}

}  // namespace

DefinitionOutputs purification_definition(const DefinitionInputs& in) {
  const auto prototypes = prototypes_of(in);
  const auto rows = static_cast<double>(in.rows);
  DefinitionOutputs out;
  out.gate = 1 / (1 + std::exp(-in.alpha));
  out.orthogonal_norm = length(in.orthogonal_weight);
  for (std::size_t b = 0; b < in.rows; ++b) {
    const Row f_dom = row_of(in.f_dom, b, in.domain_width);
    const Row query = unit(times(in.query_weight, f_dom, in.query_bias));
    Row logits, mixture(in.intrinsic_width, 0);
    for (const Row& prototype : prototypes) logits.push_back(in.scale * dot(query, prototype));
    const Row attention = softmax(logits);
    for (std::size_t c = 0; c < in.n_way; ++c)
      for (std::size_t i = 0; i < in.intrinsic_width; ++i) mixture[i] += attention[c] * prototypes[c][i];
    const Row semantic = times(in.project_weight, mixture, in.project_bias);
    Row difference = f_dom;
    for (std::size_t i = 0; i < in.domain_width; ++i) difference[i] -= out.gate * semantic[i];
    const Row purified = layer_norm(difference, in.norm_weight, in.norm_bias);
    const Row image = unit(times(in.orthogonal_weight, purified, {}));
    const double cosine = dot(image, unit(row_of(in.f_phy, b, in.intrinsic_width)));
    out.orthogonality_loss += cosine * cosine / rows;
    for (const double p : attention) out.attention_entropy -= p * std::log(p + 1e-8) / rows;
    out.attention_max += *std::max_element(attention.begin(), attention.end()) / rows;
    out.semantic_norm += length(semantic) / rows;
    out.purification_ratio += out.gate * length(semantic) / (length(f_dom) + 1e-8) / rows;
    out.purified.insert(out.purified.end(), purified.begin(), purified.end());
    out.attention.insert(out.attention.end(), attention.begin(), attention.end());
  }
  double pairs = 0;
  for (std::size_t a = 0; a < prototypes.size(); ++a)
    for (std::size_t b = 0; b < a; ++b, pairs += 1) out.prototype_cosine += dot(prototypes[a], prototypes[b]);
  out.prototype_cosine /= std::max(pairs, 1.0);
  return out;
}

}  // namespace camber::fewshot
