#include "camber/nn/affine.h"

#include <ATen/Context.h>
#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace camber::nn {
namespace {

// Below so many multiplications the call of oneDNN costs more than it gains.
constexpr std::int64_t kLargeProduct = std::int64_t{1} << 20;

using LinearPointwise = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                                   std::string_view, c10::List<std::optional<at::Scalar>>,
                                   std::optional<std::string_view>);

// oneDNN's linear layer as torch registers it; none in a torch that was built without.
const std::optional<c10::TypedOperatorHandle<LinearPointwise>>& linear_pointwise() {
  static const auto op = []() -> std::optional<c10::TypedOperatorHandle<LinearPointwise>> {
    const auto found = c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""});
    if (!found || !at::hasMKLDNN()) return std::nullopt;
    return found->typed<LinearPointwise>();
  }();
  return op;
}

bool suits_onednn(const torch::Tensor& input, const torch::Tensor& weight) {
  const auto type = input.scalar_type();
  return !at::GradMode::is_enabled() && input.is_cpu() && weight.is_cpu() &&
         (type == torch::kFloat || type == torch::kBFloat16) && input.numel() * weight.size(0) >= kLargeProduct &&
         at::globalContext().userEnabledMkldnn() && linear_pointwise().has_value();
}

}  // namespace

torch::Tensor affine(const torch::Tensor& input, const torch::Tensor& weight, const torch::Tensor& bias) {
  const auto type = input.scalar_type();
  const auto w = weight.to(type), b = bias.defined() ? bias.to(type) : bias;
  if (!suits_onednn(input, w)) return torch::linear(input, w, b);
  return linear_pointwise()->call(input.contiguous(), w.detach(),
                                  b.defined() ? std::optional<at::Tensor>(b.detach()) : std::nullopt, "none",
                                  c10::List<std::optional<at::Scalar>>(), std::nullopt);
}

}  // namespace camber::nn
