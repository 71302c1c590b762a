#include <array>
#include <cmath>
#include <limits>

#include <torch/library.h>

#include "support/test_device_state.h"

// The attention operators of torch that CUDA alone has, by their definitions and with CUDA's conventions: widths and
// strides it refuses are refused, logsumexps are padded as its are, a row without keys has logsumexp 0.
namespace camber::proof {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
using OptionalTensor = std::optional<at::Tensor>;
using Scale = std::optional<double>;

void check_inputs(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, std::int64_t multiple) {
  for (const at::Tensor* tensor : {&q, &k, &v}) {
    TORCH_CHECK(tensor->device() == test_device(), "Expected all tensors to be on the same device, got ",
                tensor->device());
    TORCH_CHECK(tensor->dim() == 4 && tensor->stride(3) == 1 && tensor->scalar_type() == q.scalar_type(),
                "attention: expected [B, H, N, D] of one dtype with a last stride of 1");
    TORCH_CHECK(tensor->size(3) % multiple == 0, "attention: head dimensions must be multiples of ", multiple, ", got ",
                tensor->size(3));
    TORCH_CHECK(tensor->size(2) > 0, "attention: no rows");
  }
  TORCH_CHECK(q.size(1) == k.size(1) && q.size(3) == k.size(3), "attention: q and k must agree in heads and width");
}

void check_bias(const at::Tensor& bias, const at::Tensor& q, const at::Tensor& k) {
  TORCH_CHECK(bias.device() == test_device() && bias.scalar_type() == q.scalar_type(),
              "attn_bias: expected the device and dtype of query");
  TORCH_CHECK(bias.sizes() == at::IntArrayRef({q.size(0), q.size(1), q.size(2), k.size(2)}),
              "attn_bias: expected [B, H, Q, K], got ", bias.sizes());
  const std::int64_t multiple = 16 / static_cast<std::int64_t>(bias.element_size());
  for (std::int64_t d = 0; d < 3; ++d)
    TORCH_CHECK(bias.stride(d) % multiple == 0, "attn_bias is not correctly aligned: stride ", bias.stride(d),
                " of dimension ", d, " is no multiple of ", multiple);
}

// In float on the host, as the kernels accumulate.
at::Tensor wide(const at::Tensor& tensor) {
  return host_view(tensor).to(at::kFloat);
}

at::Tensor scores(const at::Tensor& q, const at::Tensor& k, const OptionalTensor& bias, bool causal, Scale scale) {
  const double factor = scale.value_or(1 / std::sqrt(static_cast<double>(q.size(3))));
  auto z = at::matmul(wide(q), wide(k).transpose(2, 3)) * factor;
  if (bias && bias->defined()) z = z + wide(*bias);
  if (causal) z = z.masked_fill(at::ones({q.size(2), k.size(2)}, at::kBool).tril().logical_not(), -kInfinite);
  return z;
}

// Stored as [B, N, H, D], as the kernels store it.
at::Tensor output_of(const at::Tensor& host, at::ScalarType type) {
  return host.to(type).transpose(1, 2).contiguous().to(test_device()).transpose(1, 2);
}

at::Tensor state() {
  return at::zeros({}, at::TensorOptions(at::kLong).device(test_device()));
}

struct Attended {
  at::Tensor output, logsumexp;  // host, float
};

Attended attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const OptionalTensor& bias, bool causal,
                Scale scale) {
  const auto z = scores(q, k, bias, causal, scale);
  const auto lse = at::logsumexp(z, -1, true);
  const auto dead = lse.eq(-kInfinite);
  const auto weights = (z - lse).exp().masked_fill(dead, 0);
  return {at::matmul(weights, wide(v)), lse.masked_fill(dead, 0).squeeze(-1)};
}

std::array<at::Tensor, 3> gradients(const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k,
                                    const at::Tensor& v, const OptionalTensor& bias, const at::Tensor& output,
                                    const at::Tensor& logsumexp, bool causal, Scale scale) {
  for (const at::Tensor* tensor : {&grad, &output, &logsumexp})
    TORCH_CHECK(tensor->device() == test_device(), "Expected all tensors to be on the same device, got ",
                tensor->device());
  TORCH_CHECK(logsumexp.is_contiguous() && logsumexp.scalar_type() == at::kFloat && output.sizes() == grad.sizes() &&
                  output.scalar_type() == q.scalar_type() && grad.scalar_type() == q.scalar_type(),
              "attention backward: logsumexp must be contiguous float, output and its gradient alike");
  const double factor = scale.value_or(1 / std::sqrt(static_cast<double>(q.size(3))));
  const auto z = scores(q, k, bias, causal, scale);
  const auto rows = host_view(logsumexp).slice(2, 0, q.size(2)).unsqueeze(-1);
  const auto weights = (z - rows).exp().masked_fill(z.eq(-kInfinite), 0);
  const auto incoming = wide(grad);
  const auto delta = (incoming * wide(output)).sum(-1, true);
  const auto slopes = weights * (at::matmul(incoming, wide(v).transpose(2, 3)) - delta);
  const auto type = q.scalar_type();
  return {output_of(at::matmul(slopes, wide(k)) * factor, type),
          output_of(at::matmul(slopes.transpose(2, 3), wide(q)) * factor, type),
          output_of(at::matmul(weights.transpose(2, 3), incoming), type)};
}

using Efficient = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
constexpr std::int64_t kRowMultiple = 32;

Efficient efficient(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const OptionalTensor& bias,
                    bool compute_logsumexp, double dropout, bool causal, Scale scale) {
  count_call("aten::_scaled_dot_product_efficient_attention");
  const Uncounted own;
  TORCH_CHECK(q.scalar_type() != at::kDouble && dropout == 0, "efficient attention: no double, no dropout here");
  check_inputs(q, k, v, 16 / static_cast<std::int64_t>(q.element_size()));
  if (bias && bias->defined()) check_bias(*bias, q, k);
  const auto attended = attend(q, k, v, bias, causal, scale);
  const std::int64_t rows = compute_logsumexp ? (q.size(2) + kRowMultiple - 1) / kRowMultiple * kRowMultiple : 0;
  const auto logsumexp = at::full({q.size(0), q.size(1), rows}, kInfinite, at::kFloat);
  if (compute_logsumexp) logsumexp.slice(2, 0, q.size(2)).copy_(attended.logsumexp);
  return {output_of(attended.output, q.scalar_type()), logsumexp.to(test_device()), state(), state()};
}

Efficient efficient_backward(const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const at::Tensor& bias, const at::Tensor& output, const at::Tensor& logsumexp,
                             const at::Tensor&, const at::Tensor&, double, std::array<bool, 4> needs, bool causal,
                             Scale scale) {
  count_call("aten::_scaled_dot_product_efficient_attention_backward");
  const Uncounted own;
  TORCH_CHECK(logsumexp.size(2) % kRowMultiple == 0 && logsumexp.size(2) >= q.size(2) && !needs[3],
              "efficient attention: logsumexp must be padded to a multiple of 32 rows, got ", logsumexp.sizes());
  const auto [dq, dk, dv] = gradients(grad, q, k, v, bias, output, logsumexp, causal, scale);
  return {dq, dk, dv, {}};
}

using Flash = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor,
                         at::Tensor, at::Tensor>;

Flash flash(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double dropout, bool causal, bool,
            Scale scale) {
  count_call("aten::_scaled_dot_product_flash_attention");
  const Uncounted own;
  TORCH_CHECK(q.scalar_type() == at::kHalf || q.scalar_type() == at::kBFloat16,
              "FlashAttention only support fp16 and bf16 data type");
  TORCH_CHECK(dropout == 0 && q.size(3) <= 256 && v.size(3) == q.size(3), "flash attention: one width up to 256");
  check_inputs(q, k, v, 8);
  const auto attended = attend(q, k, v, std::nullopt, causal, scale);
  return {output_of(attended.output, q.scalar_type()),
          attended.logsumexp.to(test_device()),
          {},
          {},
          q.size(2),
          k.size(2),
          state(),
          state(),
          at::empty({0}, q.options())};
}

// The dispatcher hands a SymInt over by value.
// NOLINTBEGIN(performance-unnecessary-value-param)
std::tuple<at::Tensor, at::Tensor, at::Tensor> flash_backward(const at::Tensor& grad, const at::Tensor& q,
                                                              const at::Tensor& k, const at::Tensor& v,
                                                              const at::Tensor& output, const at::Tensor& logsumexp,
                                                              const at::Tensor&, const at::Tensor&, c10::SymInt,
                                                              c10::SymInt, double, bool causal, const at::Tensor&,
                                                              const at::Tensor&, Scale scale) {
  count_call("aten::_scaled_dot_product_flash_attention_backward");
  const Uncounted own;
  const auto [dq, dk, dv] = gradients(grad, q, k, v, std::nullopt, output, logsumexp, causal, scale);
  return {dq, dk, dv};
}
// NOLINTEND(performance-unnecessary-value-param)

TORCH_LIBRARY_IMPL(aten, CAMBER_TEST_DEVICE_KEY, m) {
  m.impl("_scaled_dot_product_efficient_attention", &efficient);
  m.impl("_scaled_dot_product_efficient_attention_backward", &efficient_backward);
  m.impl("_scaled_dot_product_flash_attention", &flash);
  m.impl("_scaled_dot_product_flash_attention_backward", &flash_backward);
}

}  // namespace
}  // namespace camber::proof
