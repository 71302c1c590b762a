#include "ops/stock_attention.h"

#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/core/TensorOptions.h>

namespace camber::ops {
namespace {

// The widest head that flash kernels take, and the multiple that device kernels ask widths and masks' rows to be.
constexpr std::int64_t kWidestHead = 256, kAlignment = 8;
// The efficient operator's logsumexp has rows up to this multiple, +inf behind the last query.
constexpr std::int64_t kPaddedRows = 32;

const char* operator_name(StockOperator which) {
  switch (which) {
    case StockOperator::kCpuFlash:
      return "aten::_scaled_dot_product_flash_attention_for_cpu";
    case StockOperator::kFlash:
      return "aten::_scaled_dot_product_flash_attention";
    default:
      return "aten::_scaled_dot_product_efficient_attention";
  }
}

bool device_has(StockOperator which, const at::Tensor& q) {
  const auto handle = c10::Dispatcher::singleton().findSchema({operator_name(which), ""});
  const auto key = c10::computeDispatchKey(q.scalar_type(), q.layout(), q.device());
  return handle && handle->hasKernelForDispatchKey(key);
}

bool has_mask(const AttentionArguments& a) {
  return a.attn_mask.defined() || a.blocked_mask.defined() || a.key_padding_mask.defined() || a.key_lengths.defined() ||
         a.row_lengths.defined();
}

std::int64_t rounded_up(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

// The bias as the efficient operator takes it: [B, H, Q, keys], rows that begin at multiples of 16 bytes.
std::optional<at::Tensor> aligned_mask(const StockProblem& p) {
  if (!p.mask.defined()) return std::nullopt;
  auto sizes = p.mask.sizes().vec();
  const std::int64_t keys = sizes.back();
  sizes.back() = rounded_up(keys, kAlignment);
  const auto padded = at::zeros(sizes, p.mask.options()).slice(-1, 0, keys);
  padded.copy_(p.mask);
  return padded.expand({p.q.size(0), p.q.size(1), p.q.size(2), keys});
}

at::Tensor counter(const at::Tensor& q) {
  return at::zeros({}, q.options().dtype(at::kLong));
}

}  // namespace

StockChoice choose_stock_operator(const AttentionArguments& a) {
  const auto type = a.q.scalar_type();
  const std::int64_t widest = std::max(a.q.size(3), a.v.size(3));
  const bool half = type == at::kHalf || type == at::kBFloat16;
  const auto takes = [&](StockOperator which) {
    if (!device_has(which, a.q)) return false;
    if (which == StockOperator::kCpuFlash) return true;
    if (which == StockOperator::kFlash) return half && !has_mask(a) && widest <= kWidestHead;
    return half || type == at::kFloat;
  };
  for (const auto which : {StockOperator::kCpuFlash, StockOperator::kFlash, StockOperator::kEfficient})
    if (takes(which)) return {.chosen = which};
  return {.obstacles = {"corrected: no attention operator of torch takes " + std::string(c10::toString(type)) + " on " +
                        a.q.device().str()}};
}

void widen_for(StockOperator which, at::Tensor& q, at::Tensor& k, at::Tensor& v) {
  const bool one_width = which != StockOperator::kEfficient;
  const std::int64_t multiple = which == StockOperator::kCpuFlash ? 1 : kAlignment;
  const std::int64_t common = one_width ? std::max(q.size(3), v.size(3)) : 0;
  for (at::Tensor* tensor : {&q, &k, &v}) {
    const std::int64_t width = rounded_up(std::max(common, tensor->size(3)), multiple);
    *tensor = width == tensor->size(3) ? with_unit_stride(*tensor)
                                       : at::constant_pad_nd(*tensor, {0, width - tensor->size(3)});
  }
}

StockResult stock_forward(StockOperator which, const StockProblem& p) {
  if (which == StockOperator::kCpuFlash) {
    const auto mask = p.mask.defined() ? std::optional(p.mask) : std::nullopt;
    auto [output, logsumexp] =
        at::_scaled_dot_product_flash_attention_for_cpu(p.q, p.k, p.v, 0.0, false, mask, p.scale);
    return {output, logsumexp};
  }
  if (which == StockOperator::kFlash) {
    const auto result = at::_scaled_dot_product_flash_attention(p.q, p.k, p.v, 0.0, false, false, p.scale);
    return {std::get<0>(result), std::get<1>(result)};
  }
  const auto result = at::_scaled_dot_product_efficient_attention(p.q, p.k, p.v, aligned_mask(p),
                                                                  /*compute_log_sumexp=*/true, 0.0, false, p.scale);
  return {std::get<0>(result), std::get<1>(result).slice(-1, 0, p.q.size(2))};
}

std::array<at::Tensor, 3> stock_backward(StockOperator which, const StockProblem& p, const at::Tensor& grad_output,
                                         const at::Tensor& output, const at::Tensor& logsumexp) {
  if (which == StockOperator::kCpuFlash) {
    const auto mask = p.mask.defined() ? std::optional(p.mask) : std::nullopt;
    auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        grad_output, p.q, p.k, p.v, output, logsumexp.contiguous(), 0.0, false, mask, p.scale);
    return {dq, dk, dv};
  }
  if (which == StockOperator::kFlash) {
    // Without nested tensors and dropout the cumulated lengths are undefined and the random state is not read.
    auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_backward(
        grad_output, p.q, p.k, p.v, output, logsumexp.contiguous(), {}, {}, p.q.size(2), p.k.size(2), 0.0, false,
        counter(p.q), counter(p.q), p.scale);
    return {dq, dk, dv};
  }
  const auto padded =
      at::full({p.q.size(0), p.q.size(1), rounded_up(p.q.size(2), kPaddedRows)}, kInfinity, logsumexp.options());
  padded.slice(-1, 0, p.q.size(2)).copy_(logsumexp);
  const auto result = at::_scaled_dot_product_efficient_attention_backward(
      grad_output, p.q, p.k, p.v, aligned_mask(p).value_or(at::Tensor{}), output, padded, counter(p.q), counter(p.q),
      0.0, {true, true, true, false}, false, p.scale);
  return {std::get<0>(result), std::get<1>(result), std::get<2>(result)};
}

}  // namespace camber::ops
