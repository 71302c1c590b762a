#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/attention_reference.h"

namespace camber::kernels::test {

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

inline double largest(const std::vector<double>& values) {
  double size = 0;
  for (const double x : values)
    if (std::isfinite(x)) size = std::max(size, std::abs(x));
  return size;
}

/// (2e-6 + 4 * 2^-24 * max|z|), to be multiplied by the largest value; bfloat16: 1e-2; half: 1e-3, twice its rounding.
inline double relative_bound(const Reference& expected, const Case& c) {
  if (c.type == ElementType::bfloat16) return 1e-2;
  if (c.type == ElementType::float16) return 1e-3;
  return 2e-6 + 4 * 0x1p-24 * expected.largest_score;
}

template <class T>
void expect_close(const std::vector<T>& found, const std::vector<double>& expected, double allowed, const char* what) {
  ASSERT_EQ(found.size(), expected.size());
  double worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto x = static_cast<double>(found[i]);
    if (std::isinf(expected[i])) {
      ASSERT_EQ(x, expected[i]) << what << " at " << i;
      continue;
    }
    ASSERT_FALSE(std::isnan(x)) << what << " at " << i << ", expected " << expected[i];
    worst = std::max(worst, std::abs(x - expected[i]));
  }
  EXPECT_LE(worst, allowed) << what;
}

inline std::vector<Isa> supported_isas() {
  std::vector<Isa> found;
  for (const Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512, Isa::avx512_bf16})
    if (isa_supported(isa)) found.push_back(isa);
  return found;
}

}  // namespace camber::kernels::test
