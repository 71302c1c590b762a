#include <cmath>
#include <limits>

#include "kernels/attention_run.h"
#include "kernels/closeness.h"

namespace camber::kernels::test {
namespace {

bool any_nan(const std::vector<float>& values) {
  return std::any_of(values.begin(), values.end(), [](float x) { return std::isnan(x); });
}

TEST(SpecialValues, NanOfAQueryStaysInItsRow) {
  const Case c{.name = "nan_query", .heads = 1, .queries = 20, .keys = 600};
  for (const Isa isa : supported_isas()) {
    SCOPED_TRACE(isa_name(isa));
    CaseData data(c);
    const ForwardRun clean = run_forward(data, isa, true);
    data.q[static_cast<std::size_t>(7 * c.key_width)] = kNan;
    const ForwardRun found = run_forward(data, isa, true);
    for (std::size_t i = 0; i < 20; ++i) {
      for (std::size_t d = 0; d < 32; ++d) {
        const float x = found.output[i * 32 + d];
        if (i == 7)
          EXPECT_TRUE(std::isnan(x));
        else
          EXPECT_EQ(x, clean.output[i * 32 + d]);
      }
      EXPECT_EQ(std::isnan(found.logsumexp[i]), i == 7);
      EXPECT_EQ(std::isnan(found.entropy[i]), i == 7);
    }
  }
}

TEST(SpecialValues, NanOfAPaddedKeyNeverLeaks) {
  Case c{.name = "nan_key", .batches = 2, .heads = 2, .queries = 14, .keys = 700, .segments = 4};
  c.segment_heads = 1;
  c.absent_segment = c.padding = c.lengths = true;
  CaseData data(c);
  const AttentionProblem& p = data.problem;
  for (std::int64_t b = 0; b < c.batches; ++b)
    for (std::int64_t j = 0; j < c.keys; ++j) {
      std::int64_t segment = 0;
      while (p.segments.offsets[segment + 1] <= j) ++segment;
      const bool dead = p.key_padding[b * c.keys + j] || j >= p.key_lengths[b] ||
                        !p.segments.available[b * p.segments.count + segment];
      for (std::int64_t h = 0; dead && h < c.heads; ++h) {
        data.k[static_cast<std::size_t>(b * p.k.strides.batch + h * p.k.strides.head + j * p.k.strides.row + 3)] = kNan;
        data.v[static_cast<std::size_t>(b * p.v.strides.batch + h * p.v.strides.head + j * p.v.strides.row + 5)] = kNan;
      }
    }
  for (const Isa isa : supported_isas()) {
    SCOPED_TRACE(isa_name(isa));
    const ForwardRun forward = run_forward(data, isa, true);
    EXPECT_FALSE(any_nan(forward.output));
    EXPECT_FALSE(any_nan(forward.entropy));
    const BackwardRun backward = run_backward(data, forward, isa);
    EXPECT_FALSE(any_nan(backward.q));
    EXPECT_FALSE(any_nan(backward.k));
    EXPECT_FALSE(any_nan(backward.v));
    EXPECT_FALSE(any_nan(backward.segment));
  }
}

TEST(SpecialValues, NanOfABlockedKeyHasNoWeight) {
  Case c{.name = "nan_blocked", .heads = 1, .queries = 14, .keys = 300};
  c.blocked_batches = c.blocked_heads = c.mask_batches = c.mask_heads = 1;
  CaseData data(c);
  for (std::int64_t i = 0; i < c.queries; ++i) {
    data.blocked[static_cast<std::size_t>(i * c.keys + 100)] = true;
    data.mask[static_cast<std::size_t>(i * c.keys + 200)] = -std::numeric_limits<float>::infinity();
  }
  data.k[std::size_t{100} * 32] = data.k[std::size_t{200} * 32 + 9] = kNan;
  for (const Isa isa : supported_isas()) {
    SCOPED_TRACE(isa_name(isa));
    const ForwardRun forward = run_forward(data, isa, true);
    EXPECT_FALSE(any_nan(forward.output));
    EXPECT_FALSE(any_nan(forward.logsumexp));
    const BackwardRun backward = run_backward(data, forward, isa);
    EXPECT_FALSE(any_nan(backward.v));
    EXPECT_FALSE(any_nan(backward.mask));
  }
}

TEST(SpecialValues, ARowWithOneKeyGivesItsValue) {
  const Case c{.name = "one_key", .heads = 1, .queries = 9, .keys = 1};
  const CaseData data(c);
  for (const Isa isa : supported_isas()) {
    const ForwardRun found = run_forward(data, isa, true);
    for (std::size_t i = 0; i < 9; ++i) {
      for (std::size_t d = 0; d < 32; ++d) EXPECT_NEAR(found.output[i * 32 + d], data.v[d], 5e-7);
      EXPECT_NEAR(found.entropy[i], 0.0f, 1e-6);
      EXPECT_NEAR(found.largest_weight[i], 1.0f, 2e-7);
      EXPECT_EQ(found.keys_left[i], 1);
    }
  }
}

TEST(SpecialValues, ARowWithoutKeysIsZeroAndItsGradientsToo) {
  Case c{.name = "no_key", .heads = 1, .queries = 8, .keys = 40};
  c.blocked_batches = c.blocked_heads = 1;
  c.blocked_share = 1.1;
  const CaseData data(c);
  for (const Isa isa : supported_isas()) {
    const ForwardRun forward = run_forward(data, isa, true);
    for (const float x : forward.output) EXPECT_EQ(x, 0.0f);
    for (const float x : forward.logsumexp) EXPECT_EQ(x, -std::numeric_limits<float>::infinity());
    for (const float x : forward.entropy) EXPECT_EQ(x, 0.0f);
    const BackwardRun backward = run_backward(data, forward, isa);
    for (const auto* gradient : {&backward.q, &backward.k, &backward.v})
      for (const float x : *gradient) EXPECT_EQ(x, 0.0f);
  }
}

// Scores that lie exactly between two integers (in units of log2), under references even and odd.
TEST(SpecialValues, ScoresHalfwayBetweenIntegersAreWeighedRight) {
  const Case c{.name = "halfway", .heads = 1, .queries = 12, .keys = 1200};
  CaseData data(c);
  data.problem.softmax_scale = 1 / 1.44269504f;
  std::fill(data.q.begin(), data.q.end(), 0.0f);
  std::fill(data.k.begin(), data.k.end(), 0.0f);
  for (std::size_t i = 0; i < 12; ++i) data.q[i * 32] = static_cast<float>(i + 1);
  for (std::size_t j = 0; j < 1200; ++j) data.k[j * 32] = 0.5f * static_cast<float>(j % 6) - 1.0f;
  const Reference expected = reference(data);
  const double bound = relative_bound(expected, c);
  for (const Isa isa : supported_isas()) {
    SCOPED_TRACE(isa_name(isa));
    const ForwardRun found = run_forward(data, isa);
    expect_close(found.output, expected.output, bound * largest(expected.output), "output");
    expect_close(found.logsumexp, expected.logsumexp, bound * largest(expected.logsumexp), "logsumexp");
  }
}

}  // namespace
}  // namespace camber::kernels::test
