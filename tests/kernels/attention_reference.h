#pragma once
#include <vector>

#include "kernels/attention_case.h"

namespace camber::kernels::test {

/// The definition of the op in double, by plain loops; shapes as in kernels/attention.h, contiguous.
struct Reference {
  std::vector<double> output, logsumexp;
  std::vector<double> entropy, largest_weight, sum_of_squares, segment_mass, change, divergence;
  std::vector<std::int64_t> keys_left;
  std::vector<double> grad_q, grad_k, grad_v, grad_window, grad_segment, grad_mask,
      grad_table;            // contiguous [B, H, rows, width]
  double largest_score = 0;  // max |z| over finite z
};

Reference reference(const CaseData& data);

}  // namespace camber::kernels::test
