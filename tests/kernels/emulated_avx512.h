#pragma once
// AVX-512 intrinsics on CPUs that lack it, for the tests: SIMDe's portable versions, and plain loops for the few that
// it does not have. Included before everything else when kernel_table.cpp is compiled with CAMBER_EMULATED_AVX512.
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <cstdint>
#include <cstring>

#include <simde/x86/avx512.h>

namespace camber::kernels::emulated {

template <class To, class From>
To bits_of(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

template <class T, int kCount>
struct Lanes {
  T at[kCount] = {};
};

inline __m512 maskz_loadu_ps(unsigned mask, const void* p) {
  Lanes<float, 16> lanes;
  for (int i = 0; i < 16; ++i)
    if ((mask >> i & 1) != 0) std::memcpy(&lanes.at[i], static_cast<const float*>(p) + i, sizeof(float));
  return bits_of<__m512>(lanes);
}

inline void mask_storeu_ps(void* p, unsigned mask, __m512 v) {
  const auto lanes = bits_of<Lanes<float, 16>>(v);
  for (int i = 0; i < 16; ++i)
    if ((mask >> i & 1) != 0) std::memcpy(static_cast<float*>(p) + i, &lanes.at[i], sizeof(float));
}

inline __m512i maskz_loadu_epi32(unsigned mask, const void* p) {
  return bits_of<__m512i>(maskz_loadu_ps(mask, p));
}

inline __m256i maskz_loadu_epi16(unsigned mask, const void* p) {
  Lanes<std::uint16_t, 16> lanes;
  for (int i = 0; i < 16; ++i)
    if ((mask >> i & 1) != 0)
      std::memcpy(&lanes.at[i], static_cast<const std::uint16_t*>(p) + i, sizeof(std::uint16_t));
  return bits_of<__m256i>(lanes);
}

template <class Holds>
inline __mmask16 compare(__m512i a, __m512i b, const Holds& holds) {
  const auto x = bits_of<Lanes<std::uint32_t, 16>>(a), y = bits_of<Lanes<std::uint32_t, 16>>(b);
  unsigned mask = 0;
  for (int i = 0; i < 16; ++i) mask |= holds(x.at[i], y.at[i]) ? 1u << i : 0u;
  return static_cast<__mmask16>(mask);
}

template <class From, class Source>
inline __m512i widen(Source v) {
  const auto lanes = bits_of<Lanes<From, 16>>(v);
  Lanes<std::uint32_t, 16> wide;
  for (int i = 0; i < 16; ++i) wide.at[i] = lanes.at[i];
  return bits_of<__m512i>(wide);
}

// The lanes of b, then those of a, rounded to the nearest bfloat16, ties to even.
inline __m512bh cvtne2ps_pbh(__m512 a, __m512 b) {
  const auto high = bits_of<Lanes<std::uint32_t, 16>>(a), low = bits_of<Lanes<std::uint32_t, 16>>(b);
  Lanes<std::uint16_t, 32> rounded;
  for (int i = 0; i < 32; ++i) {
    const std::uint32_t bits = i < 16 ? low.at[i] : high.at[i - 16];
    const bool nan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
    rounded.at[i] = static_cast<std::uint16_t>((nan ? bits | 0x400000u : bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
  }
  return bits_of<__m512bh>(rounded);
}

}  // namespace camber::kernels::emulated

#undef _mm512_maskz_loadu_ps
#define _mm512_maskz_loadu_ps camber::kernels::emulated::maskz_loadu_ps
#undef _mm512_mask_storeu_ps
#define _mm512_mask_storeu_ps camber::kernels::emulated::mask_storeu_ps
#undef _mm512_maskz_loadu_epi32
#define _mm512_maskz_loadu_epi32 camber::kernels::emulated::maskz_loadu_epi32
#undef _mm256_maskz_loadu_epi16
#define _mm256_maskz_loadu_epi16 camber::kernels::emulated::maskz_loadu_epi16
#undef _mm512_cmpneq_epi32_mask
#define _mm512_cmpneq_epi32_mask(a, b) \
  camber::kernels::emulated::compare(a, b, [](std::uint32_t x, std::uint32_t y) { return x != y; })
#undef _mm512_cmpge_epu32_mask
#define _mm512_cmpge_epu32_mask(a, b) \
  camber::kernels::emulated::compare(a, b, [](std::uint32_t x, std::uint32_t y) { return x >= y; })
#undef _mm512_cvtepu8_epi32
#define _mm512_cvtepu8_epi32(v) camber::kernels::emulated::widen<std::uint8_t>(v)
#undef _mm512_cvtepu16_epi32
#define _mm512_cvtepu16_epi32(v) camber::kernels::emulated::widen<std::uint16_t>(v)
#undef _mm512_cvtne2ps_pbh
#define _mm512_cvtne2ps_pbh camber::kernels::emulated::cvtne2ps_pbh
#undef _mm512_shuffle_f32x4
#define _mm512_shuffle_f32x4(a, b, quarters) simde_mm512_shuffle_f32x4(a, b, quarters)
