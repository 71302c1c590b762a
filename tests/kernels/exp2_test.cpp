#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "camber/kernels/isa.h"
#include "kernels/exp2_probe.h"

namespace camber::kernels::test {
namespace {

using Exp2 = void (*)(const float*, float*, int);

std::vector<std::pair<Isa, Exp2>> supported() {
  std::vector<std::pair<Isa, Exp2>> found;
  for (const auto& [isa, function] :
       {std::pair<Isa, Exp2>{Isa::scalar, exp2_scalar}, {Isa::avx2, exp2_avx2}, {Isa::avx512, exp2_avx512}})
    if (isa_supported(isa)) found.emplace_back(isa, function);
  return found;
}

// Largest distance in units in the last place over `x`.
double worst_ulp(Exp2 function, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  function(x.data(), y.data(), static_cast<int>(x.size()));
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = std::exp2(static_cast<double>(x[i]));
    const double unit = std::ldexp(1.0, std::ilogb(exact) - 23);
    worst = std::max(worst, std::abs(static_cast<double>(y[i]) - exact) / unit);
  }
  return worst;
}

TEST(Exp2, IsWithinTwoUlp) {
  for (const auto& [isa, function] : supported()) {
    SCOPED_TRACE(isa_name(isa));
    std::vector<float> x;
    // Every float of [-1, -1/2], where the polynomial sees its whole range, and a fine grid of the rest.
    for (float t = -1.0f; t <= -0.5f; t = std::nextafter(t, 1.0f)) x.push_back(t);
    for (int i = 0; i < 4000000; ++i) x.push_back(-125.0f + static_cast<float>(i) * (130.0f / 4000000));
    EXPECT_LE(worst_ulp(function, x), 2.0);
  }
}

TEST(Exp2, KeepsItsEdges) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> x{0.0f, -0.0f, 1.0f, -1.0f, -30.0f, -127.0f, -1e9f, -infinity, std::nanf("")};
  for (const auto& [isa, function] : supported()) {
    SCOPED_TRACE(isa_name(isa));
    std::vector<float> y(x.size());
    function(x.data(), y.data(), static_cast<int>(x.size()));
    const std::vector<float> expected{1, 1, 2, 0.5f, 0x1p-30f, 0, 0, 0};
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(y[i], expected[i]) << x[i];
    EXPECT_TRUE(std::isnan(y.back()));
  }
}

// Nothing grows again where exponents end, and nothing is negative.
TEST(Exp2, FallsToZero) {
  std::vector<float> x;
  for (int i = 0; i <= 400000; ++i) x.push_back(-124.0f - static_cast<float>(i) * 1e-5f);
  for (const auto& [isa, function] : supported()) {
    SCOPED_TRACE(isa_name(isa));
    std::vector<float> y(x.size());
    function(x.data(), y.data(), static_cast<int>(x.size()));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double exact = std::exp2(static_cast<double>(x[i]));
      ASSERT_LE(std::abs(static_cast<double>(y[i]) - exact), std::ldexp(1.0, -125)) << x[i];
      ASSERT_GE(y[i], 0.0f) << x[i];
    }
    EXPECT_EQ(y.back(), 0.0f);
  }
}

}  // namespace
}  // namespace camber::kernels::test
