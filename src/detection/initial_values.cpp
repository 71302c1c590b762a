#include "detection/initial_values.h"

#include <cmath>
#include <string>

namespace camber::detection {
namespace {

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

bool is_norm(const std::string& name) {
  return name.find("norm") != std::string::npos || name.find("bn") != std::string::npos ||
         name.find("downsample.1") != std::string::npos;
}

// Inputs of one output: all sizes but the first, or (stacks of matrices, one a decoder layer) but the first two.
double fan_in(const torch::Tensor& weight) {
  if (weight.dim() == 3) return static_cast<double>(weight.size(2));
  return static_cast<double>(weight.numel()) / static_cast<double>(weight.size(0));
}

}  // namespace

void fill_uniform(const torch::Tensor& tensor, random::Stream stream, double low, double high) {
  auto values = torch::empty(tensor.sizes(), torch::kFloat);
  auto* out = values.data_ptr<float>();
  for (std::int64_t i = 0; i < values.numel(); ++i) out[i] = static_cast<float>(stream.uniform(low, high));
  const torch::NoGradGuard guard;
  tensor.copy_(values);
}

void fill_orthogonal(const torch::Tensor& matrix, random::Stream stream, double gain) {
  const std::int64_t rows = matrix.size(0), columns = matrix.size(1);
  const std::int64_t longer = std::max(rows, columns), shorter = std::min(rows, columns);
  auto values = torch::empty({longer, shorter}, torch::kDouble);
  auto* out = values.data_ptr<double>();
  for (std::int64_t i = 0; i < values.numel(); ++i) out[i] = stream.normal();
  const auto [q, r] = torch::linalg_qr(values);
  const auto signed_q = q * r.diagonal().sign();
  const torch::NoGradGuard guard;
  matrix.copy_(gain * (rows >= columns ? signed_q : signed_q.t()));
}

void initialise_by_name(torch::nn::Module& model, std::uint64_t seed) {
  const torch::NoGradGuard guard;
  for (auto& parameter : model.named_parameters()) {
    const std::string& name = parameter.key();
    torch::Tensor& value = parameter.value();
    if (is_norm(name) || name.find("router.content") != std::string::npos ||
        name.find("router.agreement_content") != std::string::npos)
      continue;
    if (ends_with(name, "bias")) {
      value.zero_();
      continue;
    }
    if (value.dim() < 2) continue;
    const double inputs = fan_in(value);
    const double bound = value.dim() == 2 ? std::sqrt(6.0 / static_cast<double>(value.size(0) + value.size(1)))
                                          : 1.0 / std::sqrt(inputs);
    fill_uniform(value, random::Stream(seed, "initial." + name), -bound, bound);
  }
}

}  // namespace camber::detection
