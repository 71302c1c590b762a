#pragma once
#include <cstdint>

#include "kernels/bias.h"

// The words of random::attention_dropout_word, many at a time: Philox 4x32-10 with counter (key / 4, query, head,
// batch). Written out here because an inline function of a shared header must not be compiled for one instruction set.
namespace camber::kernels {
namespace {

inline constexpr std::uint32_t kPhiloxMultiplier0 = 0xD2511F53, kPhiloxMultiplier1 = 0xCD9E8D57;
inline constexpr std::uint32_t kPhiloxWeyl0 = 0x9E3779B9, kPhiloxWeyl1 = 0xBB67AE85;

struct DropoutRow {
  std::uint64_t seed;
  std::uint32_t batch, head, query;
};

#if defined(__AVX2__)
// Low and high halves of the products of eight 32-bit words.
inline void wide_multiply(__m256i a, __m256i multiplier, __m256i& low, __m256i& high) {
  const __m256i even = _mm256_mul_epu32(a, multiplier);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), multiplier);
  low = _mm256_mullo_epi32(a, multiplier);
  high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
}

// Words for the 32 keys 4 * quad .. 4 * quad + 31.
inline void dropout_words_32(const DropoutRow& row, std::uint32_t quad, std::uint32_t* words) {
  __m256i c0 = _mm256_add_epi32(_mm256_set1_epi32(static_cast<int>(quad)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  __m256i c1 = _mm256_set1_epi32(static_cast<int>(row.query)), c2 = _mm256_set1_epi32(static_cast<int>(row.head));
  __m256i c3 = _mm256_set1_epi32(static_cast<int>(row.batch));
  const __m256i m0 = _mm256_set1_epi32(static_cast<int>(kPhiloxMultiplier0));
  const __m256i m1 = _mm256_set1_epi32(static_cast<int>(kPhiloxMultiplier1));
  auto key0 = static_cast<std::uint32_t>(row.seed), key1 = static_cast<std::uint32_t>(row.seed >> 32);
  for (int round = 0; round < 10; ++round, key0 += kPhiloxWeyl0, key1 += kPhiloxWeyl1) {
    __m256i low0, high0, low1, high1;
    wide_multiply(c0, m0, low0, high0);
    wide_multiply(c2, m1, low1, high1);
    c0 = _mm256_xor_si256(_mm256_xor_si256(high1, c1), _mm256_set1_epi32(static_cast<int>(key0)));
    c2 = _mm256_xor_si256(_mm256_xor_si256(high0, c3), _mm256_set1_epi32(static_cast<int>(key1)));
    c1 = low1;
    c3 = low0;
  }
  // Word w of counter c belongs to key 4 c + w: a 4 x 4 transpose in each half.
  const __m256i a = _mm256_unpacklo_epi32(c0, c1), b = _mm256_unpackhi_epi32(c0, c1);
  const __m256i c = _mm256_unpacklo_epi32(c2, c3), d = _mm256_unpackhi_epi32(c2, c3);
  const __m256i q0 = _mm256_unpacklo_epi64(a, c), q1 = _mm256_unpackhi_epi64(a, c);
  const __m256i q2 = _mm256_unpacklo_epi64(b, d), q3 = _mm256_unpackhi_epi64(b, d);
  auto* to = reinterpret_cast<__m256i*>(words);
  _mm256_storeu_si256(to, _mm256_permute2x128_si256(q0, q1, 0x20));
  _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(q2, q3, 0x20));
  _mm256_storeu_si256(to + 2, _mm256_permute2x128_si256(q0, q1, 0x31));
  _mm256_storeu_si256(to + 3, _mm256_permute2x128_si256(q2, q3, 0x31));
}
#else
inline void dropout_words_32(const DropoutRow& row, std::uint32_t quad, std::uint32_t* words) {
  for (std::uint32_t i = 0; i < 8; ++i) {
    std::uint32_t c[4] = {quad + i, row.query, row.head, row.batch};
    auto key0 = static_cast<std::uint32_t>(row.seed), key1 = static_cast<std::uint32_t>(row.seed >> 32);
    for (int round = 0; round < 10; ++round, key0 += kPhiloxWeyl0, key1 += kPhiloxWeyl1) {
      const std::uint64_t product0 = std::uint64_t{kPhiloxMultiplier0} * c[0];
      const std::uint64_t product1 = std::uint64_t{kPhiloxMultiplier1} * c[2];
      c[0] = static_cast<std::uint32_t>(product1 >> 32) ^ c[1] ^ key0;
      c[2] = static_cast<std::uint32_t>(product0 >> 32) ^ c[3] ^ key1;
      c[1] = static_cast<std::uint32_t>(product1);
      c[3] = static_cast<std::uint32_t>(product0);
    }
    for (int w = 0; w < 4; ++w) words[4 * i + w] = c[w];
  }
}
#endif

// factors[position] = keep where the key's word is at least the threshold, else 0, for all positions of the block.
// `words` holds kForwardKeys + 64, `factors` kForwardKeys + kLanes.
inline void dropout_factors(const DropoutRow& row, std::uint32_t threshold, float keep, const KeyPlan& plan,
                            const KeyBlock& block, std::uint32_t* words, float* factors) {
  for (int r = 0; r < block.run_count; ++r) {
    const KeyRun& run = plan.runs[block.first_run + r];
    const auto first_quad = static_cast<std::uint32_t>(run.key >> 2);
    const int offset = static_cast<int>(run.key & 3);
    for (int made = 0; made < offset + run.count; made += 32)
      dropout_words_32(row, first_quad + static_cast<std::uint32_t>(made >> 2), words + made);
    for (int i = 0; i < run.count; i += kLanes)
      store(factors + run.position + i, keep_from(words + offset + i, threshold, broadcast(keep)));
  }
}

}  // namespace
}  // namespace camber::kernels
