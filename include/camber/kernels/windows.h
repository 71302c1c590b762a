#pragma once
#include <cstdint>

/// Values of windows on raw pointers: value[h, e] = profile[e] * strength[h, row of e, map of e].
namespace camber::kernels {

struct WindowLists {
  std::int64_t rows = 0, maps = 0, entries = 0;
  const std::int64_t* row_offsets = nullptr;  // [rows + 1]
  const std::int32_t* map_index = nullptr;    // [entries]
  const float* profile = nullptr;             // [entries]
};

/// The values of rows first .. last of heads * rows; strength [heads, rows, maps], value [heads, entries].
void window_values(const WindowLists& lists, const float* strength, std::int64_t first, std::int64_t last,
                   float* value);

/// The gradient of strength in the same rows: profile * grad, summed in double in the order of the list.
void window_values_backward(const WindowLists& lists, const float* grad, std::int64_t first, std::int64_t last,
                            float* grad_strength);

}  // namespace camber::kernels
