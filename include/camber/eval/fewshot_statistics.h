#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace camber::eval {

/// A mean over episodes and half the width of its 95 % interval, 1.96 * deviation / sqrt(n).
struct MeanInterval {
  double mean = 0;
  double half_width = 0;
  std::int64_t count = 0;
};

/// Throws std::invalid_argument for no value at all; one value has an interval of 0.
MeanInterval mean_interval(std::span<const double> values);

/// Rows of features with the labels by which a leak is measured. The numbers belong to someone else.
struct LabelledFeatures {
  std::span<const float> values{};  ///< [N, width]
  std::int64_t width = 0;
  std::span<const std::int64_t> classes{};
  std::span<const std::int64_t> domains{};
};

/// LeakIndex = mean cosine of pairs of one class in two domains less that of pairs of two classes in two domains.
/// Above 0 the feature knows the class. NaN where there are no such pairs.
struct Leak {
  double same_class = 0;       ///< mean cosine of cross-domain pairs of one class
  double different_class = 0;  ///< of cross-domain pairs of different classes
  double index = 0;            ///< their difference
  double intensity = 0;        ///< max(0, index)
};
Leak leak_index(const LabelledFeatures& features);

/// How well a linear map tells labels from features.
struct ProbeResult {
  double accuracy = 0;  ///< on the test rows
  double chance = 0;    ///< of always naming the test's commonest label
  std::int64_t labels = 0, fitted = 0, tested = 0;
};

struct ProbeOptions {
  double decay = 1e-3;  ///< of the squared weights; the bias is free
  std::int64_t iterations = 300;
};

/// Softmax regression on features of zero mean and unit deviation (the fitted rows'), fitted by accelerated gradient
/// descent on one set of rows and tested on another; deterministic. Labels need not be dense. Throws
/// std::invalid_argument when the shapes do not fit or the fitted rows have one label only.
///
///   linear_probe(fit_values, fit_labels, test_values, test_labels, 64).accuracy
ProbeResult linear_probe(std::span<const float> fit_values, std::span<const std::int64_t> fit_labels,
                         std::span<const float> test_values, std::span<const std::int64_t> test_labels,
                         std::int64_t width, const ProbeOptions& options = {});

}  // namespace camber::eval
