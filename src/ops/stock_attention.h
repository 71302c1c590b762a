#pragma once
#include <array>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "ops/attention_arguments.h"

/// The attention operators that come with torch, called by name through the dispatcher: no device is named here, only
/// operators that a device may have.
namespace camber::ops {

enum class StockOperator {
  kCpuFlash,   // float, double, half, bfloat16; a mask
  kFlash,      // half and bfloat16; no mask
  kEfficient,  // float, half and bfloat16; a mask
};

/// The operator that takes q, k and v of these arguments on their device, or why none can.
struct StockChoice {
  std::optional<StockOperator> chosen{};
  std::vector<std::string> obstacles{};
};
StockChoice choose_stock_operator(const AttentionArguments& arguments);

/// q [B, H, Q, D], k and v of one range of keys; `mask` [1|B, 1|H, 1|Q, keys] in the dtype of q is added to the scores,
/// or undefined.
struct StockProblem {
  at::Tensor q{}, k{}, v{}, mask{};
  double scale = 1;
};

/// Widens the last dimension of all three with zeros to what the operator takes; the scores are the same.
void widen_for(StockOperator which, at::Tensor& q, at::Tensor& k, at::Tensor& v);

struct StockResult {
  at::Tensor output{};     // [B, H, Q, width of v], dtype of q
  at::Tensor logsumexp{};  // [B, H, Q], float (double for double); its value in a row that the mask leaves no key is
                           // the operator's own
};
StockResult stock_forward(StockOperator which, const StockProblem& problem);

/// dq, dk and dv for the weights exp(z - logsumexp), with delta = grad_output . output. A logsumexp of +inf leaves a
/// row out.
std::array<at::Tensor, 3> stock_backward(StockOperator which, const StockProblem& problem,
                                         const at::Tensor& grad_output, const at::Tensor& output,
                                         const at::Tensor& logsumexp);

}  // namespace camber::ops
