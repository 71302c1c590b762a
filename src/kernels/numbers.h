#pragma once
#include "kernels/pack.h"
#include "kernels/task.h"

// What the products multiply, and how q, k, v and the weights are brought into that form.
namespace camber::kernels {
namespace {

// float times float. The scale is folded into the queries; bfloat16 and half rows are converted on the way.
struct FloatNumbers {
  using Word = float;
  using Factor = Vec;
  static constexpr int kPerWord = 1;
  static Factor broadcast_word(const Word* p) { return broadcast(*p); }
  static Factor read(const Word* p) { return load(p); }
  static void accumulate(Vec& sum, Factor a, Factor b) { multiply_add(sum, a, b); }

  template <class T>
  static void pack_queries(const T* rows, std::int64_t row_stride, int count, int width, float unit, Word* tile) {
    pack_tile(rows, row_stride, count, width, unit, tile);
  }
  template <class T>
  static void pack_keys(const void** rows, int count, int width, float* staged, Word* panels) {
    pack_transposed(float_rows<T>(rows, count, width, staged), count, width, panels);
  }
  template <class T>
  static void pack_values(const void** rows, int count, int width, float* staged, Word* panels) {
    pack_row_panels(float_rows<T>(rows, count, width, staged), count, width, panels);
  }
  static const Word* left_weights(const float* weights, int, int, Word*) { return weights; }
  // The scale is folded into one of the factors.
  static Vec scaled(Vec sum, float) { return sum; }

  // The rows as floats; where they are not, they are converted and `rows` is made to point to the copies.
  template <class T>
  static const float* const* float_rows(const void** rows, int count, int width, float* staged) {
    if constexpr (sizeof(T) != sizeof(float)) {
      for (int i = 0; i < count; ++i, staged += width) {
        const auto* from = static_cast<const T*>(rows[i]);
        for (int d = 0; d < width; d += kLanes) store_first(staged + d, load_floats(from + d, width - d), width - d);
        rows[i] = staged;
      }
    }
    return reinterpret_cast<const float* const*>(rows);
  }
};

#ifdef CAMBER_BF16_PRODUCTS
// Pairs of bfloat16: sum += a.low * b.low + a.high * b.high, in float. The scale is applied to the tile of scores.
struct BfloatNumbers {
  using Word = std::uint32_t;
  using Factor = __m512bh;
  static constexpr int kPerWord = 2;
  static Factor broadcast_word(const Word* p) {
    return reinterpret_cast<Factor>(_mm512_set1_epi32(static_cast<int>(*p)));
  }
  static Factor read(const Word* p) { return reinterpret_cast<Factor>(_mm512_loadu_si512(p)); }
  static void accumulate(Vec& sum, Factor a, Factor b) { sum = _mm512_dpbf16_ps(sum, a, b); }

  static Word pair(std::uint16_t low, std::uint16_t high) { return low | static_cast<Word>(high) << 16; }

  template <class T>
  static void pack_queries(const T* rows, std::int64_t row_stride, int count, int width, float, Word* tile) {
    if (width % 2 == 0) {  // a row is one of words
      const float* words[kTileRows] = {};
      for (int i = 0; i < count; ++i) words[i] = reinterpret_cast<const float*>(rows + i * row_stride);
      return pack_tile_rows(words, count, width / 2, reinterpret_cast<float*>(tile));
    }
    for (int d = 0; d < width; d += 2, tile += kTileRows)
      for (int i = 0; i < kTileRows; ++i) {
        const T* row = rows + i * row_stride + d;
        tile[i] = i < count ? pair(row[0], d + 1 < width ? row[1] : T{0}) : 0;
      }
  }
  // Panels [count / kPanel][width / 2][kPanel] of pairs of neighbouring columns.
  template <class T>
  static void pack_keys(const void** rows, int count, int width, float* staged, Word* panels) {
    const int words = (width + 1) / 2;
    if (width % 2 != 0) {  // the last pair of a row has one half only
      for (int i = 0; i < count; ++i, staged += words) {
        __builtin_memset(staged, 0, words * sizeof(Word));
        __builtin_memcpy(staged, rows[i], width * sizeof(T));
        rows[i] = staged;
      }
    }
    pack_transposed(reinterpret_cast<const float* const*>(rows), count, words, reinterpret_cast<float*>(panels));
  }
  // Panels [width / kPanel][count / 2][kPanel] of pairs of neighbouring rows.
  template <class T>
  static void pack_values(const void** rows, int count, int width, float* staged, Word* panels) {
    static_cast<void>(staged);
    const int steps = (count + 1) / 2;
    for (int column = 0; column < width; column += kPanel) {
      const int vectors = width - column > kLanes ? 2 : 1;
      for (int k = 0; k < steps; ++k)
        for (int n = 0; n < vectors; ++n, panels += kLanes) {
          const int at = column + n * kLanes;
          const __mmask16 present = first_lanes(width - at);
          const auto* low = static_cast<const T*>(rows[2 * k]) + at;
          const auto* high = static_cast<const T*>(rows[2 * k + 1]) + at;
          const __m512i below = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(present, low));
          const __m512i above = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(present, high));
          _mm512_storeu_si512(panels, _mm512_or_si512(below, _mm512_slli_epi32(above, 16)));
        }
    }
  }
  static Vec scaled(Vec sum, float unit) { return mul(sum, broadcast(unit)); }

  // 16 floats as bfloat16, one in the low half of each word.
  static __m512i rounded(Vec v) {
    return _mm512_cvtepu16_epi32(_mm512_castsi512_si256(reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(v, v))));
  }
  // packed[k][j] = the pair of rows 2k and 2k + 1 of column j, for columns below `width`; rows `row_stride` apart.
  static void pair_rows(const float* from, int row_stride, int rows, int width, Word* packed) {
    for (int row = 0; row < rows; row += 2)
      for (int j = 0; j < width; j += kLanes) {
        const __m512i low = rounded(load(from + row * row_stride + j));
        const __m512i high = row + 1 < rows ? rounded(load(from + (row + 1) * row_stride + j)) : _mm512_setzero_si512();
        _mm512_storeu_si512(packed + row / 2 * row_stride + j, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
      }
  }
  // packed[i][k] = the pair of columns 2k and 2k + 1 of row i; `width` a multiple of kPanel.
  static void pair_columns(const float* from, int row_stride, int rows, int width, Word* packed) {
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < width; j += kPanel) {
        const float* at = from + i * row_stride + j;
        const __m512bh both = _mm512_cvtne2ps_pbh(load(at + kLanes), load(at));
        _mm512_storeu_si512(packed + (i * row_stride + j) / 2, reinterpret_cast<__m512i>(both));
      }
  }
  // Halves of words that are NaN or infinite become 0.
  static void clear_non_finite_words(Word* at, int count) {
    constexpr Word kExponent = 0x7F80u;
    for (int i = 0; i < count; ++i) {
      if ((at[i] & kExponent) == kExponent) at[i] &= 0xFFFF0000u;
      if ((at[i] >> 16 & kExponent) == kExponent) at[i] &= 0x0000FFFFu;
    }
  }
  // Weights rounded to bfloat16 for the product with the values; their sum was taken before.
  static const Word* left_weights(const float* weights, int rows, int length, Word* packed) {
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < length; j += kPanel) {
        const float* from = weights + i * kForwardKeys + j;
        const __m512bh both = _mm512_cvtne2ps_pbh(load(from + kLanes), load(from));
        _mm512_storeu_si512(packed + (i * kForwardKeys + j) / 2, reinterpret_cast<__m512i>(both));
      }
    return packed;
  }
};
#endif

}  // namespace
}  // namespace camber::kernels
