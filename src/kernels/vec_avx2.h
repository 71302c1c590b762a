#pragma once
#include <cstdint>

#include <immintrin.h>

// Eight floats of an AVX2 register. vec_avx512.h and vec_scalar.h offer the same names.
namespace camber::kernels {
namespace {

using Vec = __m256;
inline constexpr int kLanes = 8;
// Rows of a register tile: 6 x 2 vectors of sums, 2 of the right factor and a broadcast fit 16 registers.
inline constexpr int kTileRows = 6;

inline Vec zero() {
  return _mm256_setzero_ps();
}
inline Vec broadcast(float x) {
  return _mm256_set1_ps(x);
}
inline Vec load(const float* p) {
  return _mm256_loadu_ps(p);
}
inline void store(float* p, Vec v) {
  _mm256_storeu_ps(p, v);
}

inline __m256i first_lanes(int count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
// The first `count` lanes, 0 in the others; memory beyond them is not touched.
inline Vec load_first(const float* p, int count) {
  return _mm256_maskload_ps(p, first_lanes(count));
}
inline void store_first(float* p, Vec v, int count) {
  if (count >= kLanes) return store(p, v);
  _mm256_maskstore_ps(p, first_lanes(count), v);
}
// v in the first `count` lanes, 0 in the others.
inline Vec first_of(Vec v, int count) {
  return _mm256_and_ps(v, _mm256_castsi256_ps(first_lanes(count)));
}

inline Vec add(Vec a, Vec b) {
  return _mm256_add_ps(a, b);
}
inline Vec sub(Vec a, Vec b) {
  return _mm256_sub_ps(a, b);
}
inline Vec mul(Vec a, Vec b) {
  return _mm256_mul_ps(a, b);
}
inline Vec fma(Vec a, Vec b, Vec c) {
  return _mm256_fmadd_ps(a, b, c);
}
inline Vec divide(Vec a, Vec b) {
  return _mm256_div_ps(a, b);
}
inline Vec square_root(Vec a) {
  return _mm256_sqrt_ps(a);
}
inline Vec absolute(Vec a) {
  return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
}
// The larger one; a NaN in b comes through.
inline Vec max(Vec a, Vec b) {
  return _mm256_max_ps(a, b);
}
// For running maxima: a NaN in x is ignored, so that it can't make the maximum forget what it had seen.
inline Vec max_number(Vec highest, Vec x) {
  return _mm256_max_ps(x, highest);
}
inline Vec min(Vec a, Vec b) {
  return _mm256_min_ps(a, b);
}
// The power of two whose exponent field is the integer in the low bits of `shifted`; none of them count fractions.
inline constexpr int kPowerBits = 0;
inline Vec power_of(Vec shifted) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(shifted), 23));
}
// sum += a * b. In assembly because the compiler otherwise rotates the sums through other registers with extra moves.
inline void multiply_add(Vec& sum, Vec a, Vec b) {
  asm("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
}

#define CAMBER_FOUR_STEPS
// sums[i][n] += a[i * kRow + u * kStep] * b[u][n], for u = 0 .. 3 and N = 2 vectors. In assembly, because twelve sums
// leave no register for the compiler to shuffle with: it would keep one of them in memory.
template <int kRow, int kStep>
inline __attribute__((always_inline)) void multiply_four_steps(Vec (&sums)[6][2], const float* a, const float* b) {
#define CAMBER_LEFT(u, i, s, t)              \
  "vbroadcastss %c[step]*" #u "+%c[row]*" #i \
  "(%[a]), %%ymm15\n\t"                      \
  "vfmadd231ps %%ymm13, %%ymm15, %" s        \
  "\n\t"                                     \
  "vfmadd231ps %%ymm14, %%ymm15, %" t "\n\t"
#define CAMBER_STEP(u)                                                                                                \
  "vmovups 64*" #u "(%[b]), %%ymm13\n\tvmovups 64*" #u "+32(%[b]), %%ymm14\n\t" CAMBER_LEFT(u, 0, "0", "1")           \
      CAMBER_LEFT(u, 1, "2", "3") CAMBER_LEFT(u, 2, "4", "5") CAMBER_LEFT(u, 3, "6", "7") CAMBER_LEFT(u, 4, "8", "9") \
          CAMBER_LEFT(u, 5, "10", "11")
  asm(CAMBER_STEP(0) CAMBER_STEP(1) CAMBER_STEP(2) CAMBER_STEP(3)
      : "+x"(sums[0][0]), "+x"(sums[0][1]), "+x"(sums[1][0]), "+x"(sums[1][1]), "+x"(sums[2][0]), "+x"(sums[2][1]),
        "+x"(sums[3][0]), "+x"(sums[3][1]), "+x"(sums[4][0]), "+x"(sums[4][1]), "+x"(sums[5][0]), "+x"(sums[5][1])
      : [a] "r"(a), [b] "r"(b), [row] "i"(4 * kRow), [step] "i"(4 * kStep)
      : "xmm13", "xmm14", "xmm15", "memory");
#undef CAMBER_STEP
#undef CAMBER_LEFT
}

inline float sum_of(Vec v) {
  __m128 x = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  x = _mm_add_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}
// Lane i is the sum of v[i].
inline Vec lane_sums(const Vec (&v)[8]) {
  const __m256 low = _mm256_hadd_ps(_mm256_hadd_ps(v[0], v[1]), _mm256_hadd_ps(v[2], v[3]));
  const __m256 high = _mm256_hadd_ps(_mm256_hadd_ps(v[4], v[5]), _mm256_hadd_ps(v[6], v[7]));
  return _mm256_add_ps(_mm256_permute2f128_ps(low, high, 0x20), _mm256_permute2f128_ps(low, high, 0x31));
}
inline float max_of(Vec v) {
  __m128 x = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  x = _mm_max_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}

// b where a equals x, else c.
inline Vec where_equal(Vec a, float x, Vec b, Vec c) {
  return _mm256_blendv_ps(c, b, _mm256_cmp_ps(a, _mm256_set1_ps(x), _CMP_EQ_OQ));
}
inline int count_equal(Vec a, float x) {
  return __builtin_popcount(static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(a, _mm256_set1_ps(x), _CMP_EQ_OQ))));
}
// x in the lanes whose flag (one byte each, kLanes of them) is set, else v.
inline Vec where_flag(const std::uint8_t* flags, float x, Vec v) {
  const __m256i wide = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(flags)));
  const __m256i clear = _mm256_cmpeq_epi32(wide, _mm256_setzero_si256());
  return _mm256_blendv_ps(_mm256_set1_ps(x), v, _mm256_castsi256_ps(clear));
}
// keep where word >= threshold (unsigned), else 0; kLanes words.
inline Vec keep_from(const std::uint32_t* words, std::uint32_t threshold, Vec keep) {
  const __m256i w = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words));
  const __m256i kept = _mm256_cmpeq_epi32(_mm256_max_epu32(w, _mm256_set1_epi32(static_cast<int>(threshold))), w);
  return _mm256_and_ps(keep, _mm256_castsi256_ps(kept));
}

}  // namespace
}  // namespace camber::kernels
