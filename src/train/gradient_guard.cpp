#include <cmath>
#include <sstream>
#include <stdexcept>

#include <camber/train/gradient_guard.h>

namespace camber::train {
namespace {

// "3 of 64 values are nan, 1 infinite"; nothing when all are finite.
std::optional<std::string> broken_values(const torch::Tensor& tensor) {
  if (!tensor.is_floating_point()) {
    return std::nullopt;
  }
  const auto nans = torch::isnan(tensor).sum().item<std::int64_t>();
  const auto infinities = torch::isinf(tensor).sum().item<std::int64_t>();
  if (nans + infinities == 0) {
    return std::nullopt;
  }
  std::ostringstream text;
  text << nans << " nan and " << infinities << " infinite among " << tensor.numel() << " values";
  return text.str();
}

}  // namespace

GradientGuard::GradientGuard(torch::nn::Module& model, GradientGuardOptions options) : options_(options) {
  for (const auto& entry : model.named_parameters()) {
    parameters_.emplace_back(entry.key(), entry.value());
  }
  for (const auto& entry : model.named_buffers()) {
    if (entry.value().defined()) {
      buffers_.emplace_back(entry.value(), torch::Tensor());
    }
  }
}

void GradientGuard::begin_step() {
  torch::NoGradGuard no_grad;
  for (auto& [buffer, before] : buffers_) {
    if (before.defined()) {
      before.copy_(buffer);
    } else {
      before = buffer.detach().clone();
    }
  }
}

std::optional<std::string> GradientGuard::broken_loss(const NamedLosses& losses) const {
  for (const auto& [name, loss] : losses) {
    const double value = loss.item<double>();
    if (!std::isfinite(value)) {
      const auto parameter = broken_parameter();
      return parameter ? *parameter : "loss term '" + name + "' is " + (std::isnan(value) ? "nan" : "infinite");
    }
  }
  return std::nullopt;
}

std::optional<std::string> GradientGuard::broken_gradient(double norm) const {
  if (std::isfinite(norm)) {
    return std::nullopt;
  }
  if (const auto parameter = broken_parameter()) {
    return parameter;
  }
  for (auto entry = parameters_.rbegin(); entry != parameters_.rend(); ++entry) {
    if (const torch::Tensor& gradient = entry->second.grad(); gradient.defined()) {
      if (const auto values = broken_values(gradient)) {
        return "the gradient of '" + entry->first + "' has " + *values;
      }
    }
  }
  return "the gradient's norm overflows although every gradient is finite";
}

std::optional<std::string> GradientGuard::broken_parameter() const {
  for (const auto& [name, parameter] : parameters_) {
    if (const auto values = broken_values(parameter)) {
      return "the parameter '" + name + "' itself has " + *values;
    }
  }
  return std::nullopt;
}

void GradientGuard::skip(const std::string& what, std::int64_t step) {
  torch::NoGradGuard no_grad;
  for (auto& [buffer, before] : buffers_) {
    buffer.copy_(before);
  }
  ++skipped_;
  if (++in_a_row_ >= options_.stop_after) {
    std::ostringstream sentence;
    sentence << "[train] the run stops at step " << step << ": " << in_a_row_
             << " steps in a row were not finite, the last because " << what
             << "; the last sound checkpoint stays (a lower learning rate or clip_norm may help)";
    throw std::runtime_error(sentence.str());
  }
}

}  // namespace camber::train
