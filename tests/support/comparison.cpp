#include "support/comparison.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

namespace camber::proof {
namespace {

// Every element of a small leaf; of a large one as many, evenly spread.
constexpr std::int64_t kDifferencesPerLeaf = 96;

// Small tensors gain nothing from threads, and thousands of tiny calls lose much to their waiting.
struct OneThread {
  int before = at::get_num_threads();
  OneThread() { at::set_num_threads(1); }
  ~OneThread() { at::set_num_threads(before); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;
};

::testing::AssertionResult compare(const at::Tensor& actual, const at::Tensor& expected, double bound) {
  if (actual.sizes() != expected.sizes())
    return ::testing::AssertionFailure() << "shapes " << actual.sizes() << " and " << expected.sizes();
  if (actual.numel() == 0) return ::testing::AssertionSuccess();
  const auto a = actual.detach().to(at::kDouble).flatten(), e = expected.detach().to(at::kDouble).flatten();
  const auto agree = a.eq(e).logical_or((a - e).abs().le(bound));
  if (agree.all().item<bool>()) return ::testing::AssertionSuccess();
  const auto error = (a - e).abs().masked_fill(agree, 0).nan_to_num(INFINITY, INFINITY);
  const auto worst = error.argmax().item<std::int64_t>();
  return ::testing::AssertionFailure() << "worst at flat index " << worst << " of shape " << actual.sizes() << ": "
                                       << a[worst].item<double>() << " against " << e[worst].item<double>()
                                       << ", allowed " << bound << "; "
                                       << 100.0 * (1 - agree.to(at::kDouble).mean().item<double>()) << " % fail";
}

double largest(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return 0;
  const auto t = tensor.detach().to(at::kDouble);
  return t.masked_fill(t.isfinite().logical_not(), 0).abs().max().item<double>();
}

}  // namespace

::testing::AssertionResult close(const at::Tensor& actual, const at::Tensor& expected, double tolerance) {
  return compare(actual, expected, tolerance * std::max(1.0, largest(expected)));
}

::testing::AssertionResult close_to_largest(const at::Tensor& actual, const at::Tensor& expected, double tolerance) {
  return compare(actual, expected, tolerance * largest(expected) + 1e-30);
}

::testing::AssertionResult same_bits(const at::Tensor& actual, const at::Tensor& expected) {
  return compare(actual, expected, 0);
}

double largest_difference(const at::Tensor& actual, const at::Tensor& expected) {
  const auto a = actual.detach().to(at::kDouble), e = expected.detach().to(at::kDouble);
  return (a - e).abs().max().item<double>() / std::max(1.0, e.abs().max().item<double>());
}

std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6e", value);
  return text;
}

::testing::AssertionResult gradients_match(const std::function<at::Tensor()>& loss,
                                           const std::vector<std::pair<std::string, at::Tensor>>& leaves, double step,
                                           double tolerance) {
  const OneThread one_thread;
  std::vector<at::Tensor> inputs;
  inputs.reserve(leaves.size());
  for (const auto& [name, leaf] : leaves) inputs.push_back(leaf);
  const auto analytic = torch::autograd::grad({loss()}, inputs, {}, std::nullopt, false, /*allow_unused=*/true);
  const at::NoGradGuard guard;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const auto& [name, leaf] = leaves[i];
    const auto gradient = analytic[i].defined() ? analytic[i].contiguous() : at::zeros(leaf.sizes(), leaf.options());
    if (!leaf.is_contiguous()) return ::testing::AssertionFailure() << name << " is not contiguous";
    auto* data = leaf.data_ptr<double>();
    const double scale = std::max(1.0, largest(gradient));
    const std::int64_t stride = std::max<std::int64_t>(1, leaf.numel() / kDifferencesPerLeaf);
    for (std::int64_t j = 0; j < leaf.numel(); j += stride) {
      const double seen = gradient.const_data_ptr<double>()[j], original = data[j];
      double numeric = 0;
      if (std::isfinite(original)) {
        data[j] = original + step;
        const auto above = loss().item<double>();
        data[j] = original - step;
        const auto below = loss().item<double>();
        data[j] = original;
        numeric = (above - below) / (2 * step);
      }
      if (!(std::abs(seen - numeric) <= tolerance * scale))
        return ::testing::AssertionFailure()
               << "gradient of " << name << " at " << j << ": autograd " << seen << ", central difference " << numeric;
    }
  }
  return ::testing::AssertionSuccess();
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return text.substr(0, text.find('\n'));
  }
  return "(no error)";
}

}  // namespace camber::proof
