#include "camber/eval/fewshot_statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <stdexcept>
#include <string>

namespace camber::eval {
namespace {

std::size_t index_of(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

// Rows of unit length; a row of zeros stays one.
std::vector<double> unit_rows(const LabelledFeatures& features) {
  std::vector<double> rows(features.values.begin(), features.values.end());
  const std::size_t width = index_of(features.width);
  for (std::size_t start = 0; start + width <= rows.size(); start += width) {
    double sum = 0;
    for (std::size_t i = 0; i < width; ++i) sum += rows[start + i] * rows[start + i];
    const double length = std::sqrt(sum);
    for (std::size_t i = 0; i < width && length > 0; ++i) rows[start + i] /= length;
  }
  return rows;
}

// Sum of unit rows and their number.
struct RowSum {
  std::vector<double> sum{};
  double count = 0;
};

double inner_product(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// The fitted map and what it needs: standardised rows, weights [labels, width + 1].
class Softmax {
 public:
  Softmax(std::size_t labels, std::size_t width) : labels_(labels), width_(width), weights_(labels * (width + 1), 0) {}

  std::size_t labels() const { return labels_; }
  std::vector<double>& weights() { return weights_; }

  void logits(const double* row, double* out) const {
    for (std::size_t c = 0; c < labels_; ++c) {
      const double* w = weights_.data() + c * (width_ + 1);
      double sum = w[width_];
      for (std::size_t i = 0; i < width_; ++i) sum += w[i] * row[i];
      out[c] = sum;
    }
  }

  // Gradient of the mean cross-entropy plus decay / 2 * |weights without bias|^2.
  std::vector<double> gradient(const std::vector<double>& rows, const std::vector<std::size_t>& targets,
                               double decay) const {
    std::vector<double> result(weights_.size(), 0), z(labels_);
    for (std::size_t r = 0; r < targets.size(); ++r) {
      const double* row = rows.data() + r * width_;
      logits(row, z.data());
      const double top = *std::max_element(z.begin(), z.end());
      double sum = 0;
      for (double& value : z) sum += value = std::exp(value - top);
      for (std::size_t c = 0; c < labels_; ++c) {
        const double error = (z[c] / sum - (c == targets[r] ? 1 : 0)) / static_cast<double>(targets.size());
        double* g = result.data() + c * (width_ + 1);
        for (std::size_t i = 0; i < width_; ++i) g[i] += error * row[i];
        g[width_] += error;
      }
    }
    for (std::size_t c = 0; c < labels_; ++c)
      for (std::size_t i = 0; i < width_; ++i) result[c * (width_ + 1) + i] += decay * weights_[c * (width_ + 1) + i];
    return result;
  }

 private:
  std::size_t labels_, width_;
  std::vector<double> weights_;
};

struct Standardiser {
  std::vector<double> mean{}, deviation{};

  Standardiser(std::span<const float> values, std::size_t width) : mean(width, 0), deviation(width, 0) {
    const std::size_t count = values.size() / width;
    const auto rows = static_cast<double>(count);
    for (std::size_t i = 0; i < values.size(); ++i) mean[i % width] += static_cast<double>(values[i]) / rows;
    for (std::size_t i = 0; i < values.size(); ++i)
      deviation[i % width] += std::pow(static_cast<double>(values[i]) - mean[i % width], 2) / rows;
    for (double& value : deviation) value = std::sqrt(value + 1e-12);
  }

  std::vector<double> apply(std::span<const float> values) const {
    std::vector<double> rows(values.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      rows[i] = (static_cast<double>(values[i]) - mean[i % mean.size()]) / deviation[i % mean.size()];
    return rows;
  }
};

// The largest eigenvalue of X^T X / N by power iteration: with it the step 1 / (lambda / 2 + 1 + decay) cannot
// overshoot.
double largest_eigenvalue(const std::vector<double>& rows, std::size_t width) {
  std::vector<double> direction(width, 1 / std::sqrt(static_cast<double>(width)));
  double value = 1;
  for (int round = 0; round < 30; ++round) {
    std::vector<double> next(width, 0);
    for (std::size_t start = 0; start < rows.size(); start += width) {
      double projection = 0;
      for (std::size_t i = 0; i < width; ++i) projection += rows[start + i] * direction[i];
      for (std::size_t i = 0; i < width; ++i) next[i] += projection * rows[start + i];
    }
    const double length = std::sqrt(inner_product(next, next));
    if (length == 0) return 0;
    for (std::size_t i = 0; i < width; ++i) direction[i] = next[i] / length;
    value = length / (static_cast<double>(rows.size()) / static_cast<double>(width));
  }
  return value;
}

void check_probe(std::span<const float> values, std::size_t labels, std::size_t width, const char* which) {
  if (labels == 0 || values.size() != labels * width)
    throw std::invalid_argument(std::string("[linear_probe] the ") + which + " rows must have " +
                                std::to_string(width) + " numbers for each of " + std::to_string(labels) +
                                " labels, got " + std::to_string(values.size()));
  const auto broken = std::find_if_not(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
  if (broken != values.end())
    throw std::invalid_argument(std::string("[linear_probe] the ") + which + " rows must be finite, got " +
                                std::to_string(*broken) + " in row " +
                                std::to_string(index_of(broken - values.begin()) / width));
}

}  // namespace

MeanInterval mean_interval(std::span<const double> values) {
  if (values.empty()) throw std::invalid_argument("[mean_interval] values must hold at least one number, got none");
  const auto n = static_cast<double>(values.size());
  double mean = 0, squares = 0;
  for (const double value : values) mean += value / n;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const double deviation = values.size() > 1 ? std::sqrt(squares / (n - 1)) : 0;
  return {mean, 1.96 * deviation / std::sqrt(n), static_cast<std::int64_t>(values.size())};
}

Leak leak_index(const LabelledFeatures& features) {
  const auto rows = unit_rows(features);
  const std::size_t width = index_of(features.width);
  // A mean cosine over pairs of two groups is the product of the groups' sums: no pair is looked at singly.
  std::map<std::pair<std::int64_t, std::int64_t>, RowSum> cells;
  for (std::size_t r = 0; r < features.classes.size(); ++r) {
    RowSum& cell = cells[{features.classes[r], features.domains[r]}];
    cell.sum.resize(width, 0);
    for (std::size_t i = 0; i < width; ++i) cell.sum[i] += rows[r * width + i];
    cell.count += 1;
  }
  double same = 0, same_pairs = 0, different = 0, different_pairs = 0;
  for (auto a = cells.begin(); a != cells.end(); ++a)
    for (auto b = std::next(a); b != cells.end(); ++b) {
      if (a->first.second == b->first.second) continue;
      const bool one_class = a->first.first == b->first.first;
      (one_class ? same : different) += inner_product(a->second.sum, b->second.sum);
      (one_class ? same_pairs : different_pairs) += a->second.count * b->second.count;
    }
  const double nothing = std::numeric_limits<double>::quiet_NaN();
  Leak leak{.same_class = same_pairs > 0 ? same / same_pairs : nothing,
            .different_class = different_pairs > 0 ? different / different_pairs : nothing};
  leak.index = leak.same_class - leak.different_class;
  leak.intensity = std::isnan(leak.index) ? nothing : std::max(0.0, leak.index);
  return leak;
}

ProbeResult linear_probe(std::span<const float> fit_values, std::span<const std::int64_t> fit_labels,
                         std::span<const float> test_values, std::span<const std::int64_t> test_labels,
                         std::int64_t width, const ProbeOptions& options) {
  const std::size_t columns = index_of(width);
  check_probe(fit_values, fit_labels.size(), columns, "fitted");
  check_probe(test_values, test_labels.size(), columns, "tested");
  std::map<std::int64_t, std::size_t> position;
  for (const std::int64_t label : std::set<std::int64_t>(fit_labels.begin(), fit_labels.end()))
    position.emplace(label, position.size());
  if (position.size() < 2) throw std::invalid_argument("[linear_probe] the fitted rows must have two labels or more");
  std::vector<std::size_t> targets;
  for (const std::int64_t label : fit_labels) targets.push_back(position[label]);

  const Standardiser standard(fit_values, columns);
  const auto rows = standard.apply(fit_values), test_rows = standard.apply(test_values);
  Softmax model(position.size(), columns);
  const double step = 1 / (largest_eigenvalue(rows, columns) / 2 + 1 + options.decay);
  std::vector<double> previous = model.weights();
  for (std::int64_t k = 0; k < options.iterations; ++k) {
    // Nesterov: the gradient at the extrapolated point.
    const double momentum = static_cast<double>(k) / static_cast<double>(k + 3);
    const auto current = model.weights();
    for (std::size_t i = 0; i < current.size(); ++i) model.weights()[i] += momentum * (current[i] - previous[i]);
    const auto gradient = model.gradient(rows, targets, options.decay);
    for (std::size_t i = 0; i < current.size(); ++i) model.weights()[i] -= step * gradient[i];
    previous = current;
  }

  ProbeResult result{.labels = static_cast<std::int64_t>(position.size()),
                     .fitted = static_cast<std::int64_t>(fit_labels.size()),
                     .tested = static_cast<std::int64_t>(test_labels.size())};
  std::vector<double> z(position.size());
  std::map<std::int64_t, std::int64_t> counts;
  double right = 0;
  for (std::size_t r = 0; r < test_labels.size(); ++r) {
    model.logits(test_rows.data() + r * columns, z.data());
    const auto best = static_cast<std::size_t>(std::distance(z.begin(), std::max_element(z.begin(), z.end())));
    const auto known = position.find(test_labels[r]);
    right += known != position.end() && known->second == best;
    result.chance = std::max(result.chance, static_cast<double>(++counts[test_labels[r]]));
  }
  result.accuracy = right / static_cast<double>(test_labels.size());
  result.chance /= static_cast<double>(test_labels.size());
  return result;
}

}  // namespace camber::eval
