#pragma once
#include <cstdint>

#include "kernels/vec.h"

// Elements of q, k, v and the output: float, bfloat16 (std::uint16_t) and half (Half), one by one and as vectors.
namespace camber::kernels {
namespace {

// An IEEE half: a sign, five bits of exponent, ten of mantissa.
struct Half {
  std::uint16_t bits;
};

inline float float_of_bits(std::uint32_t bits) {
  float x;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}
inline std::uint32_t bits_of_float(float x) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return bits;
}

inline float to_float(float x) {
  return x;
}
inline float to_float(std::uint16_t bfloat) {
  return float_of_bits(static_cast<std::uint32_t>(bfloat) << 16);
}
// Exponent and mantissa at a float's place are 2^-112 times the number, subnormal ones too.
inline float to_float(Half half) {
  const std::uint32_t sign = (half.bits & 0x8000u) << 16, rest = static_cast<std::uint32_t>(half.bits & 0x7FFFu) << 13;
  if (rest >= 0x7C00u << 13) return float_of_bits(sign | rest | 0x7F800000u);  // infinite or NaN
  return float_of_bits(sign | bits_of_float(float_of_bits(rest) * 0x1p112f));
}

// To the nearest, ties to even; NaN stays NaN.
inline void from_float(float x, float& to) {
  to = x;
}
inline std::uint16_t to_bfloat(float x) {
  const std::uint32_t bits = bits_of_float(x);
  if (x != x) return static_cast<std::uint16_t>((bits >> 16) | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}
inline void from_float(float x, std::uint16_t& to) {
  to = to_bfloat(x);
}
inline void from_float(float x, Half& to) {
  const std::uint32_t bits = bits_of_float(x), sign = bits >> 16 & 0x8000u, rest = bits & 0x7FFFFFFFu;
  std::uint32_t half;
  if (rest > 0x7F800000u)
    half = 0x7E00u;  // NaN
  else if (rest >= 0x477FF000u)
    half = 0x7C00u;  // 65,520 and more are infinite
  else if (rest < 0x38800000u)
    half = bits_of_float(float_of_bits(rest) + 0.5f) - 0x3F000000u;  // subnormal: the sum rounds at 2^-24
  else
    half = (rest - 0x38000000u + 0xFFFu + (rest >> 13 & 1u)) >> 13;
  to.bits = static_cast<std::uint16_t>(sign | half);
}

// The first `count` elements as floats, 0 in the other lanes; memory beyond them is not touched.
inline Vec load_floats(const float* p, int count) {
  return count >= kLanes ? load(p) : load_first(p, count);
}
#if defined(__AVX512F__) || defined(CAMBER_EMULATED_AVX512)
inline Vec load_floats(const std::uint16_t* p, int count) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(first_lanes(count), p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
#else
template <class T>
inline Vec load_floats(const T* p, int count) {
  float lanes[kLanes] = {};
  for (int i = 0; i < kLanes && i < count; ++i) lanes[i] = to_float(p[i]);
  return load(lanes);
}
#endif
#if defined(__AVX512F__)
inline Vec load_floats(const Half* p, int count) {
  return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first_lanes(count), p));
}
#elif defined(CAMBER_EMULATED_AVX512)
inline Vec load_floats(const Half* p, int count) {
  float lanes[kLanes] = {};
  for (int i = 0; i < kLanes && i < count; ++i) lanes[i] = to_float(p[i]);
  return load(lanes);
}
#elif defined(__F16C__)
inline Vec load_floats(const Half* p, int count) {
  Half lanes[8] = {};
  __builtin_memcpy(lanes, p, static_cast<std::size_t>(count < 8 ? count : 8) * sizeof(Half));
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(lanes)));
}
#endif

// The first `count` lanes, rounded to the element.
inline void store_floats(float* p, Vec v, int count) {
  store_first(p, v, count);
}
template <class T>
inline void store_floats(T* p, Vec v, int count) {
  float lanes[kLanes];
  store(lanes, v);
  for (int i = 0; i < kLanes && i < count; ++i) from_float(lanes[i], p[i]);
}

}  // namespace
}  // namespace camber::kernels
