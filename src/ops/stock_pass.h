#pragma once
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "ops/attention_arguments.h"
#include "ops/stock_attention.h"

/// A problem as calls of the stock operator: one for every range of keys that has a bias of its own.
namespace camber::ops {

struct KeyRange {
  std::int64_t first = 0, end = 0;
  std::int64_t segment = -1;  // -1: no segment's bias
};

/// The ranges that calls are made for: all keys, or the segments that are not empty and, as far as the host knows,
/// there.
std::vector<KeyRange> ranges_of(const AttentionArguments& arguments);

/// What all calls of one pass share. Refers to the arguments.
struct StockPass {
  const AttentionArguments& a;
  StockOperator which;
  at::ScalarType type = a.compute_type();
  at::Tensor q{}, k{}, v{};  // as the operator takes them
  at::Tensor removed{};      // bool [B, K], or undefined

  /// v gets `spare_columns` of zeros at its end.
  StockPass(const AttentionArguments& arguments, StockOperator stock, std::int64_t spare_columns);

  /// [1|B, 1|H, 1|Q, keys] of the operator's dtype: everything that removes keys or is added, but the bias; undefined
  /// where that is nothing.
  at::Tensor mask_of(const KeyRange& range) const;
  StockProblem problem_of(const KeyRange& range, const at::Tensor& queries) const;
  /// [B, 1|H, Q] (or [B, 1, 1]): the segment's bias, -inf where it is absent; undefined without either.
  at::Tensor bias_of(const KeyRange& range) const;
  /// Output [B, H, Q, Dv] in the compute type and logsumexp of one range, without its bias; -inf in a row without keys,
  /// whose logsumexp the operators leave as they like.
  StockResult forward(const KeyRange& range) const;
};

}  // namespace camber::ops
