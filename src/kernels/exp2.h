#pragma once
#include "kernels/units.h"
#include "kernels/vec.h"

// 2^x within 2 ulp, and the weights 2^(z - reference) of the softmax.
//
// x = n + f with n = round(x) and |f| <= 1/2; 2^x = (2 p(f)) * 2^(n-1), p a minimax polynomial of degree 5 with p(0)
// = 1. Adding 1.5 * 2^23 + 126 - reference to x leaves the exponent field of 2^(n-1-reference) in the low bits of the
// sum: an integer reference costs nothing and loses nothing. Results below 2^-125.5 are 0, so that no weight is
// subnormal and a key at -inf weighs exactly 0. NaN stays NaN.
namespace camber::kernels {
namespace {

inline constexpr float kRoundingShift = 12582912.0f + 126.0f;
inline constexpr float kSmallestExponent = -126.0f;

// 2^(score - r) for N vectors of scores, each at least kSmallestExponent + r; shift = kRoundingShift - r, r an integer
// with |r| < 2^21. Step by step over all N, because one weight alone is a chain of ten dependent operations.
template <int N>
inline __attribute__((always_inline)) void to_weights(Vec (&score)[N], const Vec (&shift)[N]) {
  Vec power[N], p[N];
#pragma GCC unroll 16
  for (int i = 0; i < N; ++i) {
    // n and f from one rounding: a second one could break a tie the other way, and the weight were off by a factor 2.
    const Vec shifted = add(score[i], shift[i]);
    power[i] = low_bits_to_exponent(shifted);
    score[i] = sub(score[i], sub(shifted, shift[i]));
  }
  // Fitted for the smallest distance in units in the last place (1.06 before rounding).
  constexpr float kTwice[6] = {2.0f, 0x1.62e424p0f, 0x1.ebf9b6p-2f, 0x1.c6babap-4f, 0x1.3cec46p-6f, 0x1.5aac76p-9f};
#pragma GCC unroll 16
  for (int i = 0; i < N; ++i) p[i] = fma(broadcast(kTwice[5]), score[i], broadcast(kTwice[4]));
#pragma GCC unroll 4
  for (int k = 3; k >= 0; --k) {
#pragma GCC unroll 16
    for (int i = 0; i < N; ++i) p[i] = fma(p[i], score[i], broadcast(kTwice[k]));
  }
#pragma GCC unroll 16
  for (int i = 0; i < N; ++i) score[i] = mul(p[i], power[i]);
}

inline Vec exp2(Vec x) {
  Vec value[1] = {max(broadcast(kSmallestExponent), x)};
  const Vec shift[1] = {broadcast(kRoundingShift)};
  to_weights(value, shift);
  return value[0];
}

}  // namespace
}  // namespace camber::kernels
