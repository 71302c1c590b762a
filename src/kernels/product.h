#pragma once
#include "kernels/vec.h"

// Register tiles of matrix products: M rows by N vectors of sums, the left factor broadcast, the right one in panels.
// `Numbers` (numbers.h) says what is multiplied.
namespace camber::kernels {
namespace {

inline constexpr int kPanel = 2 * kLanes;  // columns of a full panel

template <int M, int N>
struct Sums {
  Vec at[M][N];
};

template <int M, int N>
inline __attribute__((always_inline)) void clear(Sums<M, N>& sums) {
#pragma GCC unroll 16
  for (int i = 0; i < M; ++i)
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n) sums.at[i][n] = zero();
}

// Row i starts at value[i].
template <int M, int N>
inline __attribute__((always_inline)) void start_at(Sums<M, N>& sums, const float* value) {
#pragma GCC unroll 16
  for (int i = 0; i < M; ++i)
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n) sums.at[i][n] = broadcast(value[i]);
}

template <int M, int N>
inline __attribute__((always_inline)) void add_rows(const Sums<M, N>& sums, float* c, int row_stride) {
#pragma GCC unroll 16
  for (int i = 0; i < M; ++i)
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n) {
      float* to = c + i * row_stride + n * kLanes;
      store(to, add(load(to), sums.at[i][n]));
    }
}

template <int M, int N>
inline __attribute__((always_inline)) void write_rows(const Sums<M, N>& sums, float* c, int row_stride) {
#pragma GCC unroll 16
  for (int i = 0; i < M; ++i)
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n) store(c + i * row_stride + n * kLanes, sums.at[i][n]);
}

template <class Numbers, int kRow, int M, int N>
inline __attribute__((always_inline)) void multiply_step(Sums<M, N>& sums, const typename Numbers::Word* a,
                                                         const typename Numbers::Word* b) {
  typename Numbers::Factor right[N];
#pragma GCC unroll 2
  for (int n = 0; n < N; ++n) right[n] = Numbers::read(b + n * kLanes);
#pragma GCC unroll 16
  for (int i = 0; i < M; ++i) {
    const typename Numbers::Factor left = Numbers::broadcast_word(a + i * kRow);
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n) Numbers::accumulate(sums.at[i][n], left, right[n]);
  }
}

// sums[i][:] += sum over k of a[i * kRow + k * kStep] * b[k][:], b a panel [steps][N * kLanes]. Every sum is one chain
// in the order of k, so that a row's bits do not depend on the tile it falls into.
template <class Numbers, int kRow, int kStep, int M, int N>
inline __attribute__((always_inline)) void multiply(Sums<M, N>& sums, const typename Numbers::Word* a,
                                                    const typename Numbers::Word* b, int steps) {
  int k = 0;
#ifdef CAMBER_FOUR_STEPS
  if constexpr (M == 6 && N == 2)
    for (; k + 4 <= steps; k += 4, a += 4 * kStep, b += 4 * N * kLanes) multiply_four_steps<kRow, kStep>(sums.at, a, b);
#endif
  for (; k < steps; ++k, a += kStep, b += N * kLanes) multiply_step<Numbers, kRow>(sums, a, b);
}

// c[M][width] += a b over a whole width: full panels of kPanel columns, the last one maybe of kLanes, each of
// `panel_steps` steps, the first `steps` of which count. The product is
// summed from zero and added to c at the end: a sum over many blocks has two levels, and its rounding error does not
// grow with the number of steps alone. Not inlined: in a large function the compiler would keep the sums in memory.
template <class Numbers, int kRow, int kStep, int M>
__attribute__((noinline)) void add_product(const typename Numbers::Word* a, const typename Numbers::Word* panels,
                                           int panel_steps, int steps, float* c, int padded_width) {
  int column = 0;
  for (; column + kPanel <= padded_width; column += kPanel, panels += panel_steps * kPanel) {
    Sums<M, 2> sums;
    clear(sums);
    multiply<Numbers, kRow, kStep>(sums, a, panels, steps);
    add_rows(sums, c + column, padded_width);
  }
  if (column < padded_width) {
    Sums<M, 1> sums;
    clear(sums);
    multiply<Numbers, kRow, kStep>(sums, a, panels, steps);
    add_rows(sums, c + column, padded_width);
  }
}

// Calls tile.template operator()<M>() with the smallest of a few tile heights M >= rows.
template <class Tile>
inline __attribute__((always_inline)) void with_tile_rows(int rows, const Tile& tile) {
  constexpr int kThird = kTileRows / 3;
  if (rows > 2 * kThird) return tile.template operator()<kTileRows>();
  if (rows > kThird) return tile.template operator()<2 * kThird>();
  if (rows > 1) return tile.template operator()<kThird>();
  tile.template operator()<1>();
}

}  // namespace
}  // namespace camber::kernels
