#pragma once
#include "kernels/units.h"
#include "kernels/vec.h"

// 2^x within 2 ulp, and the weights 2^(z - reference) of the softmax.
//
// With b = kPowerBits of the instruction set, x = n + j/2^b + f, where n + j/2^b = round(x * 2^b) / 2^b and |f| <=
// 2^-(b+1). 2^(n + j/2^b) comes from the bits of the rounded x, and from a table of 2^b fractions that lies in
// registers; 2^f is a minimax polynomial with the value 1 at 0. The products are what the score pass waits for: a table
// saves terms.
//   b = 0   2^x = (2 p(f)) * 2^(n-1)                             degree 5, 6 products
//   b > 0   2^x = 2^(n + j/2^b) + 2^(n + j/2^b) * (p(f) - 1)     b = 5: degree 2, 3 products
// Adding 1.5 * 2^(23-b) - kSmallestExponent - reference to x leaves the exponent field of the power, followed by j, in
// the low bits of the sum: an integer reference costs nothing and loses nothing. At kSmallestExponent that field and j
// are 0, and so is the weight: a key at -inf weighs exactly 0. What lies less than 1 above it is off by less than
// 2^-126. NaN stays NaN.
namespace camber::kernels {
namespace {

template <int kBits>
struct PowerTerms;
template <>
struct PowerTerms<0> {
  // Of 2 p(f), fitted for the smallest distance in units in the last place (1.06 before rounding).
  static constexpr float kTerms[6] = {2.0f,           0x1.62e424p0f,  0x1.ebf9b6p-2f,
                                      0x1.c6babap-4f, 0x1.3cec46p-6f, 0x1.5aac76p-9f};
};
template <>
struct PowerTerms<5> {
  // Of p(f), likewise (0.45 before rounding).
  static constexpr float kTerms[3] = {1.0f, 0x1.62e584p-1f, 0x1.ebfbdep-3f};
};

inline constexpr float kSmallestExponent = kPowerBits == 0 ? -126.0f : -127.0f;
inline constexpr float kRoundingShift = static_cast<float>(3 << (22 - kPowerBits)) - kSmallestExponent;
// References stay below this: all of it fits the fraction of a float.
inline constexpr float kLargestReference = static_cast<float>(1 << (21 - kPowerBits));

// 2^(score - r) for N vectors of scores, each at least kSmallestExponent + r; shift = kRoundingShift - r, r an integer
// with |r| < kLargestReference. Step by step over all N, because one weight alone is a chain of dependent operations.
template <int N>
inline __attribute__((always_inline)) void to_weights(Vec (&score)[N], const Vec (&shift)[N]) {
  Vec power[N], p[N];
#pragma GCC unroll 16
  for (int i = 0; i < N; ++i) {
    // n, j and f from one rounding: a second one could break a tie the other way, and the weight were far off.
    const Vec shifted = add(score[i], shift[i]);
    power[i] = power_of(shifted);
    score[i] = sub(score[i], sub(shifted, shift[i]));
  }
  constexpr auto& kTerms = PowerTerms<kPowerBits>::kTerms;
  constexpr int kDegree = static_cast<int>(sizeof(kTerms) / sizeof(float)) - 1;
#pragma GCC unroll 16
  for (int i = 0; i < N; ++i) p[i] = fma(broadcast(kTerms[kDegree]), score[i], broadcast(kTerms[kDegree - 1]));
#pragma GCC unroll 4
  for (int k = kDegree - 2; k >= (kPowerBits == 0 ? 0 : 1); --k) {
#pragma GCC unroll 16
    for (int i = 0; i < N; ++i) p[i] = fma(p[i], score[i], broadcast(kTerms[k]));
  }
#pragma GCC unroll 16
  for (int i = 0; i < N; ++i)
    score[i] = kPowerBits == 0 ? mul(p[i], power[i]) : fma(mul(p[i], score[i]), power[i], power[i]);
}

inline Vec exp2(Vec x) {
  Vec value[1] = {max(broadcast(kSmallestExponent), x)};
  const Vec shift[1] = {broadcast(kRoundingShift)};
  to_weights(value, shift);
  return value[0];
}

}  // namespace
}  // namespace camber::kernels
