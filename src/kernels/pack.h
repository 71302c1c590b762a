#pragma once
#include <cstddef>
#include <cstdint>

#include "camber/kernels/attention.h"
#include "kernels/elements.h"
#include "kernels/product.h"

// Rows of q, k, v brought into the order in which the products read them.
//   transposed panels: [count / kPanel][words][kPanel]   right factor of the scores (keys side by side)
//   row panels:        [width / kPanel][rows][kPanel]    right factor of the sums over keys or queries
//   tiles:             [rows / kTileRows][words][kTileRows]  left factor of the scores (one word of each row of a tile)
// Rows and columns that do not exist are 0.
namespace camber::kernels {
namespace {

inline constexpr float kZeros[kLargestWidth] = {};

inline int round_up(int n, int multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

#if defined(__AVX2__)
// An 8 x 8 block of 32-bit words: to[d][i] = rows[i][d].
inline void transpose_8x8(const float* const* rows, int column, int columns, float* to, int to_stride) {
  __m256 r[8], t[8];
  if (columns >= 8) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(rows[i] + column);
  } else {
    const __m256i present = _mm256_cmpgt_epi32(_mm256_set1_epi32(columns), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    for (int i = 0; i < 8; ++i) r[i] = _mm256_maskload_ps(rows[i] + column, present);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xEE);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xEE);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
    t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
  }
  for (int d = 0; d < 8 && d < columns; ++d) _mm256_storeu_ps(to + d * to_stride, t[d]);
}
#else
inline void transpose_8x8(const float* const* rows, int column, int columns, float* to, int to_stride) {
  for (int d = 0; d < 8 && d < columns; ++d)
    for (int i = 0; i < 8; ++i) to[d * to_stride + i] = rows[i][column + d];
}
#endif

#if defined(__AVX512F__)
// A 16 x 16 block of 32-bit words: to[d][i] = rows[i][d], for i < kRows.
template <int kRows = 16>
inline void transpose_16x16(const float* const* rows, int column, int columns, float* to, int to_stride) {
  const __mmask16 present = first_lanes(columns);
  __m512 r[16], t[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i)
    r[i] = i < kRows ? _mm512_maskz_loadu_ps(present, rows[i] + column) : _mm512_setzero_ps();
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm512_shuffle_ps(t[i], t[i + 2], 0xEE);
    r[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xEE);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {  // quarters of columns i, i + 4, i + 8, i + 12
    t[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xDD);
    t[i + 8] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xDD);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
    r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xDD);
    r[i + 4] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0x88);
    r[i + 12] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0xDD);
  }
  if (columns >= 16) {
#pragma GCC unroll 16
    for (int d = 0; d < 16; ++d) store_first(to + d * to_stride, r[d], kRows);
  } else {
    for (int d = 0; d < columns; ++d) store_first(to + d * to_stride, r[d], kRows);
  }
}
#endif

// `rows` holds round_up(count, kPanel) pointers; those beyond count point to zeros.
inline void pack_transposed(const float* const* rows, int count, int words, float* panels) {
  for (int first = 0; first < count; first += kPanel, panels += words * kPanel) {
#if defined(__AVX512F__)
    for (int lane = 0; lane < kPanel; lane += 16)
      for (int d = 0; d < words; d += 16)
        transpose_16x16(rows + first + lane, d, words - d, panels + d * kPanel + lane, kPanel);
#else
    for (int lane = 0; lane < kPanel; lane += 8)
      for (int d = 0; d < words; d += 8)
        transpose_8x8(rows + first + lane, d, words - d, panels + d * kPanel + lane, kPanel);
#endif
  }
}

// `steps` rows, each of `width` floats.
inline void pack_row_panels(const float* const* rows, int steps, int width, float* panels) {
  for (int column = 0; column < width; column += kPanel) {
    const int vectors = width - column > kLanes ? 2 : 1;
    for (int k = 0; k < steps; ++k) {
      const float* row = rows[k] + column;
      for (int n = 0; n < vectors; ++n, panels += kLanes) {
        const int left = width - column - n * kLanes;
        store(panels, left >= kLanes ? load(row + n * kLanes) : load_first(row + n * kLanes, left));
      }
    }
  }
}

// NaN and infinities become 0: a key without weight must not leak what it holds into a product (0 * NaN is NaN).
inline void clear_non_finite(float* at, int count) {
  for (int i = 0; i < count; i += kLanes) {
    const Vec x = load(at + i);
    store(at + i, where_equal(sub(x, x), 0.0f, x, zero()));
  }
}

// tile[d * kTileRows + i] = row i, for i < rows; the other rows of the tile are 0. At most kLargestWidth columns.
inline void pack_tile_rows(const float* const* row, int rows, int width, float* tile) {
#if defined(__AVX512F__)
  const float* all[kTileRows];
  for (int i = 0; i < kTileRows; ++i) all[i] = i < rows ? row[i] : kZeros;
  for (int d = 0; d < width; d += 16) transpose_16x16<kTileRows>(all, d, width - d, tile + d * kTileRows, kTileRows);
#else
  for (int d = 0; d < width; ++d)
    for (int i = 0; i < kTileRows; ++i) tile[d * kTileRows + i] = i < rows ? row[i][d] : 0.0f;
#endif
}

// The same of rows a stride apart, times a factor.
inline void pack_tile(const float* first_row, std::int64_t row_stride, int rows, int width, float scale, float* tile) {
  const float* row[kTileRows] = {};
  for (int i = 0; i < rows; ++i) row[i] = first_row + i * row_stride;
  pack_tile_rows(row, rows, width, tile);
  for (int i = 0; i < width * kTileRows; i += kLanes)
    store_first(tile + i, mul(load_first(tile + i, width * kTileRows - i), broadcast(scale)), width * kTileRows - i);
}
template <class T>
inline void pack_tile(const T* first_row, std::int64_t row_stride, int rows, int width, float scale, float* tile) {
  for (int d = 0; d < width; ++d)
    for (int i = 0; i < kTileRows; ++i)
      tile[d * kTileRows + i] = i < rows ? scale * to_float(first_row[i * row_stride + d]) : 0.0f;
}

}  // namespace
}  // namespace camber::kernels
