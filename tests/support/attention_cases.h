#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "camber/ops/biased_attention.h"

/// One table of cases for the tests, the gradient checks and the benchmarks of biased_attention.
namespace camber::proof {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct AttentionCase {
  std::string name{};
  std::int64_t batch = 1, heads = 2, queries = 5, keys = 7, width = 8, value_width = 8;
  /// Entries of a row of windows: 0 = no windows; drawn between 0 and this.
  std::int64_t window_entries = 0;
  bool windows_per_head = false;
  /// 0 = no segments; an empty one stands in the middle when there are at least three.
  std::int64_t segments = 0;
  bool segment_values = true, segments_per_head = false, absent_segment = false;
  /// A table: of offsets by codes, or by an index; shared by the heads or not.
  bool table_of_offsets = false, table_by_index = false, table_per_head = true;
  bool attn_mask = false, attn_mask_shared = false, blocked_mask = false, key_padding = false, key_lengths = false;
  /// Each row's keys end somewhere, some at 0.
  bool row_lengths = false;
  /// Some values of windows, segments and mask are -inf; some rows lose all keys.
  bool infinities = false, dead_rows = false;
  bool transposed_inputs = false;
  double magnitude = 1, bias_magnitude = 2;
  double dropout = 0;

  /// Whether `corrected` takes it: dropout and tables are left to `streamed`.
  bool correctable() const { return dropout == 0 && !table_of_offsets && !table_by_index; }
};

std::vector<AttentionCase> attention_cases();
/// Those that `corrected` takes, and what is hard for a correction: windows that hold all of the weight, strong in both
/// directions.
std::vector<AttentionCase> correctable_cases();

struct AttentionTestInputs {
  at::Tensor q, k, v;
  ops::StructuredBias bias;
  ops::AttentionOptions options;

  /// The differentiable inputs that are there, with their names.
  std::vector<std::pair<std::string, at::Tensor>> differentiable() const;
  AttentionTestInputs to(at::ScalarType type) const;
  /// Leaves that require a gradient.
  AttentionTestInputs with_gradients() const;
  std::int64_t batch() const { return q.size(0); }
};

/// The same numbers for the same case, whatever was drawn before; double.
AttentionTestInputs make_inputs(const AttentionCase& attention_case);

/// The largest finite |z| of a case, which the float error bound depends on.
double largest_score(const AttentionTestInputs& inputs);

}  // namespace camber::proof
