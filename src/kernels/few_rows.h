#pragma once
#include "kernels/bias.h"
#include "kernels/elements.h"

// Products of a few queries with key rows as they lie in memory: packing them would cost more than it saves.
namespace camber::kernels {
namespace {

inline constexpr int kFewQueries = 4;
inline constexpr int kRowsAhead = 24;  // rows that are asked for ahead of use

template <class T>
inline void prefetch_row(const T* row, int width) {
  for (int at = 0; at < width * static_cast<int>(sizeof(T)); at += 64)
    __builtin_prefetch(reinterpret_cast<const char*>(row) + at);
}

// products[i][position of the key] = rows[i] . key, for the keys of a run and M rows of `width` floats, `row_stride`
// apart and padded with zeros to whole vectors.
template <int M, int kStride, class T>
inline void run_products(const float* rows, int row_stride, const T* key, std::int64_t key_stride, int width, int count,
                         float* products) {
  for (int first = 0; first < count; first += kLanes) {
    const T* lane_row[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
      const int at = first + lane < count ? first + lane : count - 1;
      lane_row[lane] = key + at * key_stride;
      if (first + lane + kRowsAhead < count) prefetch_row(lane_row[lane] + kRowsAhead * key_stride, width);
    }
    for (int i = 0; i < M; ++i) {
      Vec sums[kLanes];
#pragma GCC unroll 16
      for (Vec& sum : sums) sum = zero();
      for (int d = 0; d < width; d += kLanes) {
        const Vec left = load(rows + i * row_stride + d);
#pragma GCC unroll 16
        for (int lane = 0; lane < kLanes; ++lane)
          multiply_add(sums[lane], left, load_floats(lane_row[lane] + d, width - d));
      }
      store_first(products + i * kStride + first, lane_sums(sums), count - first);
    }
  }
}

// sums[i][d] += sum over the keys of a run of weights[i][key] * row of the key; two vectors of columns at a time, in
// kChains sums by turns, because one addition waits for the last.
template <int M, int kStride, class T>
inline void add_run_rows(const float* weights, const T* row, std::int64_t stride, int width, int count, float* sums,
                         int sum_stride) {
  constexpr int kChains = M == 1 ? 4 : M == 2 ? 2 : 1;
  for (int column = 0; column < width; column += 2 * kLanes) {
    const int left[2] = {width - column, width - column - kLanes};
    Vec sum[kChains][M][2];
    for (int c = 0; c < kChains; ++c)
      for (int i = 0; i < M; ++i) sum[c][i][0] = sum[c][i][1] = zero();
    const auto add_key = [&](int c, int j) __attribute__((always_inline)) {
      const T* from = row + j * stride + column;
      if (j + kRowsAhead < count) prefetch_row(from + kRowsAhead * stride, left[0] < 2 * kLanes ? left[0] : 2 * kLanes);
      const Vec low = load_floats(from, left[0]), high = left[1] > 0 ? load_floats(from + kLanes, left[1]) : zero();
#pragma GCC unroll 4
      for (int i = 0; i < M; ++i) {
        const Vec weight = broadcast(weights[i * kStride + j]);
        multiply_add(sum[c][i][0], weight, low);
        multiply_add(sum[c][i][1], weight, high);
      }
    };
    int j = 0;
    for (; j + kChains <= count; j += kChains) {
#pragma GCC unroll 4
      for (int c = 0; c < kChains; ++c) add_key(c, j + c);
    }
    for (; j < count; ++j) add_key(0, j);
    for (int i = 0; i < M; ++i)
      for (int n = 0; n < 2 && left[n] > 0; ++n) {
        Vec total = sum[0][i][n];
        for (int c = 1; c < kChains; ++c) total = add(total, sum[c][i][n]);
        float* to = sums + i * sum_stride + column + n * kLanes;
        store(to, add(load(to), total));
      }
  }
}

// Calls with_rows.template operator()<M>() with M = rows, 1 to kFewQueries.
template <class WithRows>
inline void with_few_rows(int rows, const WithRows& with_rows) {
  if (rows == 1) return with_rows.template operator()<1>();
  if (rows == 2) return with_rows.template operator()<2>();
  if (rows == 3) return with_rows.template operator()<3>();
  with_rows.template operator()<4>();
}

}  // namespace
}  // namespace camber::kernels
