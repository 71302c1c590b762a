#pragma once
#include <cstdint>

// Four floats in plain C++, for any CPU: the compiler maps them to whatever its baseline has.
// vec_avx2.h and vec_avx512.h offer the same names.
namespace camber::kernels {
namespace {

using Vec = float __attribute__((vector_size(16)));
using IntVec = std::int32_t __attribute__((vector_size(16)));
inline constexpr int kLanes = 4;
inline constexpr int kTileRows = 6;

inline Vec zero() {
  return Vec{0, 0, 0, 0};
}
inline Vec broadcast(float x) {
  return Vec{x, x, x, x};
}
inline Vec load(const float* p) {
  Vec v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
inline void store(float* p, Vec v) {
  __builtin_memcpy(p, &v, sizeof v);
}
// The first `count` lanes, 0 in the others; memory beyond them is not touched.
inline Vec load_first(const float* p, int count) {
  Vec v = zero();
  for (int i = 0; i < kLanes && i < count; ++i) v[i] = p[i];
  return v;
}
inline void store_first(float* p, Vec v, int count) {
  for (int i = 0; i < kLanes && i < count; ++i) p[i] = v[i];
}
// v in the first `count` lanes, 0 in the others.
inline Vec first_of(Vec v, int count) {
  for (int i = 0; i < kLanes; ++i)
    if (i >= count) v[i] = 0;
  return v;
}

inline Vec add(Vec a, Vec b) {
  return a + b;
}
inline Vec sub(Vec a, Vec b) {
  return a - b;
}
inline Vec mul(Vec a, Vec b) {
  return a * b;
}
inline Vec fma(Vec a, Vec b, Vec c) {
  return a * b + c;
}
inline Vec divide(Vec a, Vec b) {
  return a / b;
}
inline Vec square_root(Vec a) {
  for (int i = 0; i < kLanes; ++i) a[i] = __builtin_sqrtf(a[i]);
  return a;
}
inline Vec absolute(Vec a) {
  return reinterpret_cast<Vec>(reinterpret_cast<IntVec>(a) & 0x7FFFFFFF);
}
// The larger one; a NaN in b comes through.
inline Vec max(Vec a, Vec b) {
  return a > b ? a : b;
}
// For running maxima: a NaN in x is ignored, so that it can't make the maximum forget what it had seen.
inline Vec max_number(Vec highest, Vec x) {
  return x > highest ? x : highest;
}
inline Vec min(Vec a, Vec b) {
  return a < b ? a : b;
}
// The power of two whose exponent field is the integer in the low bits of `shifted`; none of them count fractions.
inline constexpr int kPowerBits = 0;
inline Vec power_of(Vec shifted) {
  return reinterpret_cast<Vec>(reinterpret_cast<IntVec>(shifted) << 23);
}
inline void multiply_add(Vec& sum, Vec a, Vec b) {
  sum += a * b;
}

inline float sum_of(Vec v) {
  return (v[0] + v[2]) + (v[1] + v[3]);
}
// Lane i is the sum of v[i].
inline Vec lane_sums(const Vec (&v)[4]) {
  return Vec{sum_of(v[0]), sum_of(v[1]), sum_of(v[2]), sum_of(v[3])};
}
inline float max_of(Vec v) {
  float largest = v[0];
  for (int i = 1; i < kLanes; ++i) largest = largest > v[i] ? largest : v[i];
  return largest;
}

// b where a equals x, else c.
inline Vec where_equal(Vec a, float x, Vec b, Vec c) {
  return a == x ? b : c;
}
inline int count_equal(Vec a, float x) {
  int count = 0;
  for (int i = 0; i < kLanes; ++i) count += a[i] == x;
  return count;
}
// x in the lanes whose flag (one byte each, kLanes of them) is set, else v.
inline Vec where_flag(const std::uint8_t* flags, float x, Vec v) {
  for (int i = 0; i < kLanes; ++i)
    if (flags[i] != 0) v[i] = x;
  return v;
}
// keep where word >= threshold, else 0; kLanes words.
inline Vec keep_from(const std::uint32_t* words, std::uint32_t threshold, Vec keep) {
  for (int i = 0; i < kLanes; ++i)
    if (words[i] < threshold) keep[i] = 0;
  return keep;
}

}  // namespace
}  // namespace camber::kernels
