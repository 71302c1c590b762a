#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "camber/kernels/attention.h"

namespace camber::kernels::test {

/// One attention problem of the tables that drive the tests: sizes, layout and what is switched on.
struct Case {
  std::string name{};
  std::int64_t batches = 1, heads = 2, queries = 7, keys = 33, key_width = 32, value_width = 32;
  bool interleaved = false;  // [B, rows, H, width] seen as [B, H, rows, width]
  ElementType type = ElementType::float32;
  double magnitude = 1;             // of q and k
  double bias_size = 2;             // of window, segment and mask values
  double removed = 0;               // share of window, segment and mask values that are -inf
  std::int64_t window_heads = -1;   // -1: none
  double window_share = 0.2;        // share of keys in a row's windows
  std::int64_t segments = 0;        // 0: none
  std::int64_t segment_heads = -1;  // -1: offsets without values
  bool absent_segment = false;
  int mask_batches = -1, mask_heads = -1;        // -1: none; 1: broadcast; 0: full
  int blocked_batches = -1, blocked_heads = -1;  // likewise
  double blocked_share = 0.3;
  std::int64_t table_heads = -1;  // -1: none; 1: shared; 0: each its own
  int table_form = 0;             // 0: 1-D distance; 1: offsets on a grid; 2: any index
  double mask_shift = 0;          // added to the mask
  bool padding = false, lengths = false;
  int row_lengths = 0;     // 0: none; 1: shared by the batches; 2: each its own
  bool empty_row = false;  // row 0 sees no key (through the blocked mask)
  double dropout = 0;
};

/// The arrays of a case, filled from named random streams, and the problem that points to them.
struct CaseData {
  explicit CaseData(const Case& c, std::uint64_t seed = 1);

  AttentionProblem problem;
  // q, k, v as floats (rounded to 16 bits where the case says so), in the problem's layout.
  std::vector<float> q, k, v;
  std::vector<std::uint16_t> q16, k16, v16, grad_output16;
  std::vector<std::int64_t> row_offsets, segment_offsets, key_lengths, row_lengths;
  std::vector<std::int32_t> key_index, table_index, query_code, key_code;
  std::vector<float> window_value, segment_value, table_value, mask;
  std::unique_ptr<bool[]> available, blocked, padding;
  // What flows back, [B, H, Q, Dv] and [B, H, Q].
  std::vector<float> grad_output, grad_logsumexp;

  std::int64_t rows() const { return problem.batches * problem.heads * problem.queries; }
};

/// A bfloat16 or a half, and back.
std::uint16_t to_16_bits(ElementType type, float x);
float from_16_bits(ElementType type, std::uint16_t x);

/// Runs bodies on real threads.
ParallelFor threads(std::int64_t slots);

/// The tables of cases.
std::vector<Case> forward_cases();
std::vector<Case> feature_cases();

}  // namespace camber::kernels::test
