#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/attention_reference.h"

namespace camber::kernels::test {
namespace {

constexpr Isa kAllIsas[] = {Isa::scalar, Isa::avx2, Isa::avx512, Isa::avx512_bf16};

struct ForwardBuffers {
  std::vector<float> output, logsumexp;
  std::vector<std::uint16_t> output16;
  explicit ForwardBuffers(const CaseData& data)
      : output(static_cast<std::size_t>(data.rows() * data.problem.value_width), NAN),
        logsumexp(static_cast<std::size_t>(data.rows()), NAN),
        output16(output.size(), 0xFFFF) {}

  ForwardResult result(const AttentionProblem& p) {
    const Strides strides{p.heads * p.queries * p.value_width, p.queries * p.value_width, p.value_width};
    void* to = p.type == ElementType::float32 ? static_cast<void*>(output.data()) : output16.data();
    return {to, strides, logsumexp.data(), {}};
  }
  void widen() {
    for (std::size_t i = 0; i < output.size(); ++i) {
      const std::uint32_t bits = static_cast<std::uint32_t>(output16[i]) << 16;
      std::memcpy(&output[i], &bits, sizeof bits);
    }
  }
};

double largest(const std::vector<double>& values) {
  double size = 0;
  for (const double x : values)
    if (std::isfinite(x)) size = std::max(size, std::abs(x));
  return size;
}

// (2e-6 + 4 * 2^-24 * max|z|) of the largest value; bfloat16: 1e-2.
double bound(const Reference& expected, const Case& c) {
  if (c.type == ElementType::bfloat16) return 1e-2;
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

std::vector<Isa> supported() {
  std::vector<Isa> found;
  for (const Isa isa : kAllIsas)
    if (isa_supported(isa)) found.push_back(isa);
  return found;
}

void check(const Case& c) {
  const CaseData data(c);
  const Reference expected = reference(data);
  for (const Isa isa : supported()) {
    SCOPED_TRACE(c.name + " " + isa_name(isa));
    ForwardBuffers found(data);
    forward(data.problem, found.result(data.problem), isa);
    if (c.type == ElementType::bfloat16) found.widen();
    expect_close(found.output, expected.output, bound(expected, c) * largest(expected.output), "output");
    expect_close(found.logsumexp, expected.logsumexp, bound(expected, c) * std::max(1.0, largest(expected.logsumexp)),
                 "logsumexp");
  }
}

TEST(Forward, AgreesWithTheDefinitionOverSizes) {
  for (const Case& c : forward_cases()) check(c);
}

TEST(Forward, AgreesWithTheDefinitionOverFeatures) {
  for (const Case& c : feature_cases()) check(c);
}

}  // namespace
}  // namespace camber::kernels::test
