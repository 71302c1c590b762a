#pragma once
#include <vector>

#include <ATen/core/Tensor.h>

#include "ops/stock_pass.h"

/// Row statistics of `corrected`. Nothing is asked of the host.
namespace camber::ops {

/// What one call of the stock operator gave: [B, H, Q], -inf in rows without keys, before its bias.
struct RangeLogsumexp {
  KeyRange range{};
  at::Tensor logsumexp{};
};

/// Writes result.row_statistics and result.segment_mass, given the logsumexp of the attention with the bias in `result`
/// and those of the calls that it was made of. `shift` is shift_of_entries().
void corrected_statistics(const StockPass& pass, const std::vector<RangeLogsumexp>& ranges, const at::Tensor& shift,
                          const ForwardResult& result);

}  // namespace camber::ops
