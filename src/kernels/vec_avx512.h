#pragma once
#include <cstdint>

#include <immintrin.h>

// Sixteen floats of an AVX-512 register. vec_avx2.h and vec_scalar.h offer the same names.
namespace camber::kernels {
namespace {

using Vec = __m512;
inline constexpr int kLanes = 16;
// Rows of a register tile: 12 x 2 vectors of sums, 2 of the right factor and a broadcast fit 32 registers.
inline constexpr int kTileRows = 12;

inline Vec zero() {
  return _mm512_setzero_ps();
}
inline Vec broadcast(float x) {
  return _mm512_set1_ps(x);
}
inline Vec load(const float* p) {
  return _mm512_loadu_ps(p);
}
inline void store(float* p, Vec v) {
  _mm512_storeu_ps(p, v);
}

inline __mmask16 first_lanes(int count) {
  return static_cast<__mmask16>(count >= kLanes ? 0xFFFFu : (1u << count) - 1u);
}
// The first `count` lanes, 0 in the others; memory beyond them is not touched.
inline Vec load_first(const float* p, int count) {
  return _mm512_maskz_loadu_ps(first_lanes(count), p);
}
inline void store_first(float* p, Vec v, int count) {
  _mm512_mask_storeu_ps(p, first_lanes(count), v);
}
// v in the first `count` lanes, 0 in the others.
inline Vec first_of(Vec v, int count) {
  return _mm512_maskz_mov_ps(first_lanes(count), v);
}

inline Vec add(Vec a, Vec b) {
  return _mm512_add_ps(a, b);
}
inline Vec sub(Vec a, Vec b) {
  return _mm512_sub_ps(a, b);
}
inline Vec mul(Vec a, Vec b) {
  return _mm512_mul_ps(a, b);
}
inline Vec fma(Vec a, Vec b, Vec c) {
  return _mm512_fmadd_ps(a, b, c);
}
inline Vec divide(Vec a, Vec b) {
  return _mm512_div_ps(a, b);
}
inline Vec square_root(Vec a) {
  return _mm512_sqrt_ps(a);
}
inline Vec absolute(Vec a) {
  return _mm512_abs_ps(a);
}
// The larger one; a NaN in b comes through.
inline Vec max(Vec a, Vec b) {
  return _mm512_max_ps(a, b);
}
// For running maxima: a NaN in x is ignored, so that it can't make the maximum forget what it had seen.
inline Vec max_number(Vec highest, Vec x) {
  return _mm512_max_ps(x, highest);
}
inline Vec min(Vec a, Vec b) {
  return _mm512_min_ps(a, b);
}
// The power of two whose exponent field is the integer in the low bits of `shifted`, of which the last kPowerBits count
// fractions: bits e * 32 + j give 2^(e - 127 + j/32), and 0 gives 0.
inline constexpr int kPowerBits = 5;
inline Vec power_of(Vec shifted) {
  // The fraction bits of 2^(j/32), less j where the shift below puts it.
  alignas(64) static constexpr std::uint32_t kFractions[32] = {
      0x00000000, 0xfffecd87, 0xfffdaac3, 0xfffc980f, 0xfffb95c2, 0xfffaa43a, 0xfff9c3d3, 0xfff8f4f0,
      0xfff837f0, 0xfff78d3a, 0xfff6f532, 0xfff67043, 0xfff5fed7, 0xfff5a15b, 0xfff5583f, 0xfff523f6,
      0xfff504f3, 0xfff4fbaf, 0xfff508a4, 0xfff52c4d, 0xfff5672a, 0xfff5b9be, 0xfff6248c, 0xfff6a81e,
      0xfff744fd, 0xfff7fbb8, 0xfff8ccdf, 0xfff9b907, 0xfffac0c7, 0xfffbe4ba, 0xfffd257d, 0xfffe83b3};
  const __m512i bits = _mm512_castps_si512(shifted);
  const __m512i fraction =
      _mm512_permutex2var_epi32(_mm512_load_si512(kFractions), bits, _mm512_load_si512(kFractions + kLanes));
  return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_slli_epi32(bits, 23 - kPowerBits), fraction));
}
// sum += a * b. In assembly because the compiler otherwise rotates the sums through other registers with extra moves.
inline void multiply_add(Vec& sum, Vec a, Vec b) {
#ifdef CAMBER_EMULATED_AVX512
  sum = _mm512_fmadd_ps(a, b, sum);
#else
  asm("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
#endif
}

// Halves are added in the order 8, 4, 2, 1 apart.
inline float sum_of(Vec v) {
  const __m256 half =
      _mm256_add_ps(_mm512_castps512_ps256(v), _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1)));
  __m128 x = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  x = _mm_add_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}
// Lane i is the sum of v[i].
inline Vec lane_sums(const Vec (&v)[16]) {
  Vec pairs[8], fours[4];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i)  // in every quarter: two of row 2i, two of row 2i + 1, in turns
    pairs[i] = add(_mm512_unpacklo_ps(v[2 * i], v[2 * i + 1]), _mm512_unpackhi_ps(v[2 * i], v[2 * i + 1]));
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i)  // in every quarter: one of rows 4i .. 4i + 3
    fours[i] = add(_mm512_shuffle_ps(pairs[2 * i], pairs[2 * i + 1], 0x44),
                   _mm512_shuffle_ps(pairs[2 * i], pairs[2 * i + 1], 0xEE));
  const auto halves = [](Vec a, Vec b) {
    return add(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xDD));
  };
  return halves(halves(fours[0], fours[1]), halves(fours[2], fours[3]));
}
inline float max_of(Vec v) {
  const __m256 half =
      _mm256_max_ps(_mm512_castps512_ps256(v), _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1)));
  __m128 x = _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  x = _mm_max_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}

// b where a equals x, else c.
inline Vec where_equal(Vec a, float x, Vec b, Vec c) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, _mm512_set1_ps(x), _CMP_EQ_OQ), c, b);
}
inline int count_equal(Vec a, float x) {
  return __builtin_popcount(static_cast<unsigned>(_mm512_cmp_ps_mask(a, _mm512_set1_ps(x), _CMP_EQ_OQ)));
}
// x in the lanes whose flag (one byte each, kLanes of them) is set, else v.
inline Vec where_flag(const std::uint8_t* flags, float x, Vec v) {
  const __m512i wide = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(flags)));
  return _mm512_mask_blend_ps(_mm512_cmpneq_epi32_mask(wide, _mm512_setzero_si512()), v, _mm512_set1_ps(x));
}
// keep where word >= threshold (unsigned), else 0; kLanes words.
inline Vec keep_from(const std::uint32_t* words, std::uint32_t threshold, Vec keep) {
  const __mmask16 kept =
      _mm512_cmpge_epu32_mask(_mm512_loadu_si512(words), _mm512_set1_epi32(static_cast<int>(threshold)));
  return _mm512_maskz_mov_ps(kept, keep);
}

}  // namespace
}  // namespace camber::kernels
