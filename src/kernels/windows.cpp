#include "camber/kernels/windows.h"

#include <algorithm>
#include <vector>

namespace camber::kernels {

void window_values(const WindowLists& lists, const float* strength, std::int64_t first, std::int64_t last,
                   float* value) {
  for (std::int64_t i = first; i < last; ++i) {
    const std::int64_t head = i / lists.rows, row = i % lists.rows;
    for (std::int64_t e = lists.row_offsets[row]; e < lists.row_offsets[row + 1]; ++e)
      value[head * lists.entries + e] = lists.profile[e] * strength[i * lists.maps + lists.map_index[e]];
  }
}

void window_values_backward(const WindowLists& lists, const float* grad, std::int64_t first, std::int64_t last,
                            float* grad_strength) {
  std::vector<double> sums(static_cast<std::size_t>(lists.maps));
  for (std::int64_t i = first; i < last; ++i) {
    const std::int64_t head = i / lists.rows, row = i % lists.rows;
    std::fill(sums.begin(), sums.end(), 0.0);
    for (std::int64_t e = lists.row_offsets[row]; e < lists.row_offsets[row + 1]; ++e)
      sums[static_cast<std::size_t>(lists.map_index[e])] +=
          static_cast<double>(lists.profile[e]) * static_cast<double>(grad[head * lists.entries + e]);
    std::transform(sums.begin(), sums.end(), grad_strength + i * lists.maps,
                   [](double sum) { return static_cast<float>(sum); });
  }
}

}  // namespace camber::kernels
