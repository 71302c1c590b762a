#include <cmath>

#include <camber/config/sentence.h>
#include <camber/train/gradient_guard.h>

namespace camber::train {
namespace {

// "3 NaN and 0 infinite among 64 values"; nothing when all are finite.
std::optional<std::string> broken_values(const torch::Tensor& tensor) {
  if (!tensor.is_floating_point()) return std::nullopt;
  const auto nans = torch::isnan(tensor).sum().item<std::int64_t>();
  const auto infinities = torch::isinf(tensor).sum().item<std::int64_t>();
  if (nans + infinities == 0) return std::nullopt;
  return config::sentence(nans, " NaN and ", infinities, " infinite among ", tensor.numel(), " values");
}

}  // namespace

KeptBuffers::KeptBuffers(const torch::nn::Module& model) {
  for (const torch::Tensor& buffer : model.buffers())
    if (buffer.defined()) buffers_.emplace_back(buffer, torch::Tensor());
}

void KeptBuffers::keep() {
  torch::NoGradGuard no_grad;
  for (auto& [buffer, before] : buffers_)
    if (before.defined())
      before.copy_(buffer);
    else
      before = buffer.detach().clone();
}

void KeptBuffers::restore() {
  torch::NoGradGuard no_grad;
  for (auto& [buffer, before] : buffers_) buffer.copy_(before);
}

GradientGuard::GradientGuard(torch::nn::Module& model) : buffers_(model) {
  for (const auto& entry : model.named_parameters()) parameters_.emplace_back(entry.key(), entry.value());
}

void GradientGuard::begin_step() {
  buffers_.keep();
}

std::optional<health::BrokenTensor> GradientGuard::broken_loss(const NamedLosses& losses) const {
  for (const auto& [name, loss] : losses) {
    const auto value = loss.item<double>();
    if (!std::isfinite(value)) {
      const auto parameter = broken_parameter();
      return parameter ? parameter : health::BrokenTensor{.name = "loss/" + name, .content = health::content_of(value)};
    }
  }
  return std::nullopt;
}

std::optional<health::BrokenTensor> GradientGuard::broken_gradient(double norm) const {
  if (std::isfinite(norm)) return std::nullopt;
  if (auto parameter = broken_parameter()) return parameter;
  for (std::size_t i = parameters_.size(); i-- > 0;) {
    const auto& [name, parameter] = parameters_[i];
    if (const torch::Tensor& gradient = parameter.grad(); gradient.defined()) {
      if (const auto values = broken_values(gradient))
        return health::BrokenTensor{.name = "gradient of " + name, .content = *values};
    }
  }
  return health::BrokenTensor{.name = "the gradient's norm", .content = "an overflow"};
}

std::optional<health::BrokenTensor> GradientGuard::broken_parameter() const {
  for (const auto& [name, parameter] : parameters_)
    if (const auto values = broken_values(parameter))
      return health::BrokenTensor{.name = "parameter " + name, .content = *values};
  return std::nullopt;
}

void GradientGuard::take_back() {
  buffers_.restore();
}

}  // namespace camber::train
