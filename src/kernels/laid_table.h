#pragma once
#include <cstdint>
#include <vector>

#include "camber/kernels/attention.h"

namespace camber::kernels {

/// A small table written out for every (query, key) once, where many batches read it: rows of neighbours instead of
/// short spans or single entries, [heads, Q * K] with the index i * K + j. Its gradient is summed in that form too, and
/// gathered at the end:  gradient[head][index(i, j)] = sum of laid_gradient[head][i * K + j], in the order of i, j.
class LaidTable {
 public:
  /// `problem.table` becomes the table written out; a large one, or one that few batches read, stays as it is.
  explicit LaidTable(AttentionProblem& problem);

  /// Where the gradient is summed: room for the table written out, or `gradient` itself.
  float* room_for(float* gradient);
  /// Adds up what room_for() holds.
  void gather(const AttentionProblem& problem, float* gradient) const;

 private:
  TableBias original_;
  std::vector<float> value_, gradient_;  // [heads, Q * K]
};

}  // namespace camber::kernels
