#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include <ATen/Parallel.h>

#include "support/attention_runs.h"
#include "support/comparison.h"

// Attention by torch's own operator, corrected for the bias, against the float64 reference.
namespace camber::ops {
namespace {

using namespace camber::proof;

class CorrectedCase : public ::testing::TestWithParam<AttentionCase> {};
INSTANTIATE_TEST_SUITE_P(Table, CorrectedCase, ::testing::ValuesIn(correctable_cases()),
                         [](const auto& param_info) { return param_info.param.name; });

double bound_of(const AttentionTestInputs& exact) {
  return 4e-6 + 8 * std::pow(2.0, -24) * largest_score(exact);
}

void expect_close_to_reference(const AttentionTestInputs& exact, at::ScalarType type, double bound,
                               double gradient_bound) {
  const auto expected = attend(exact, Implementation::kReference, true);
  const auto actual = attend(exact.to(type), Implementation::kCorrected, true);
  EXPECT_TRUE(close_statistics(actual, expected, gradient_bound));
  EXPECT_EQ(actual.output.scalar_type(), type);
  EXPECT_EQ(actual.output.strides(), attend(exact.to(type), Implementation::kStreamed).output.strides());
  EXPECT_TRUE(close_to_largest(actual.output, expected.output, bound));
  EXPECT_TRUE(close(actual.logsumexp, expected.logsumexp, bound));
  const auto expected_gradients = gradients_of(exact, Implementation::kReference, false);
  const auto actual_gradients = gradients_of(exact.to(type), Implementation::kCorrected, false);
  ASSERT_EQ(actual_gradients.size(), expected_gradients.size());
  for (std::size_t i = 0; i < expected_gradients.size(); ++i)
    EXPECT_TRUE(close_to_largest(actual_gradients[i], expected_gradients[i], gradient_bound))
        << exact.differentiable()[i].first;
}

TEST_P(CorrectedCase, FloatStaysWithinItsErrorBound) {
  const auto exact = make_inputs(GetParam()).to(at::kFloat).to(at::kDouble);
  expect_close_to_reference(exact, at::kFloat, bound_of(exact), 10 * bound_of(exact));
}

// In double the sparse part runs in the plain tensor operations that a device without our kernels takes.
TEST_P(CorrectedCase, DoubleEqualsTheReference) {
  const auto exact = make_inputs(GetParam());
  const double rounding = 1e-12 + std::pow(2.0, -49) * largest_score(exact);
  expect_close_to_reference(exact, at::kDouble, rounding, 10 * rounding);
}

TEST_P(CorrectedCase, BfloatIsCloseToItsDouble) {
  const auto in = make_inputs(GetParam()).to(at::kBFloat16);
  const auto expected = attend(in.to(at::kDouble), Implementation::kReference, true);
  const auto actual = attend(in, Implementation::kCorrected, true);
  EXPECT_TRUE(close_to_largest(actual.output, expected.output, 1e-2));
  EXPECT_TRUE(close_statistics(actual, expected, 1e-2));
}

// Torch's own operator may depend on the number of threads; what is added to it does not, and no sum is scattered.
TEST_P(CorrectedCase, TheSameCallGivesTheSameBits) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    const auto in = make_inputs(GetParam()).to(type);
    const auto first = attend(in, Implementation::kCorrected, true),
               second = attend(in, Implementation::kCorrected, true);
    const auto gradients = gradients_of(in, Implementation::kCorrected, false);
    // Whether statistics are asked for changes no bit.
    EXPECT_TRUE(same_bits(attend(in, Implementation::kCorrected).output, first.output));
    EXPECT_TRUE(same_bits(second.output, first.output));
    EXPECT_TRUE(close_statistics(second, first, 0));
    const auto again = gradients_of(in, Implementation::kCorrected, false);
    for (std::size_t i = 0; i < again.size(); ++i) EXPECT_TRUE(same_bits(again[i], gradients[i]));
  }
}

TEST_P(CorrectedCase, StatisticsHoldForAnyNumberOfThreads) {
  const auto in = make_inputs(GetParam()).to(at::kFloat);
  const auto expected = attend(in, Implementation::kCorrected, true);
  const int threads = at::get_num_threads();
  for (const int count : {1, 3}) {
    at::set_num_threads(count);
    EXPECT_TRUE(close_statistics(attend(in, Implementation::kCorrected, true), expected, bound_of(in)));
  }
  at::set_num_threads(threads);
}

// One bias for every entry of windows on the first `entries` keys, which hold about entries / keys of the weight.
AttentionTestInputs uniform_windows(std::int64_t entries, double bias) {
  AttentionCase c{
      .name = "uniform", .batch = 2, .heads = 3, .queries = 50, .keys = 200, .width = 32, .value_width = 32};
  auto in = make_inputs(c);
  const std::int64_t rows = c.batch * c.queries;
  in.bias.windows = Windows{at::arange(rows + 1, at::kLong) * entries, at::arange(entries, at::kInt).repeat({rows}),
                            at::full({1, rows * entries}, bias, at::kDouble)};
  return in.to(at::kFloat).to(at::kDouble);
}

TEST(CorrectedAttention, StaysExactHoweverMuchWeightAWindowHoldsAndLoses) {
  for (const std::int64_t entries : {1, 100, 180, 199, 200})
    for (const double bias : {-10.0, -2.5, -0.3, 0.0, 1e-3, 2.5, 10.0, -kInfinity}) {
      SCOPED_TRACE(std::to_string(entries) + " entries of " + std::to_string(bias));
      const auto exact = uniform_windows(entries, bias);
      expect_close_to_reference(exact, at::kFloat, bound_of(exact), 10 * bound_of(exact));
      const auto in = exact.to(at::kBFloat16);
      const auto expected = attend(in.to(at::kDouble), Implementation::kReference).output;
      EXPECT_TRUE(close_to_largest(attend(in, Implementation::kCorrected).output, expected, 1e-2));
    }
}

TEST(CorrectedAttention, ReportsWhichRowsItRecomputed) {
  AttentionReport report;
  attend(uniform_windows(199, 2.5).to(at::kFloat), Implementation::kCorrected, false, &report);
  EXPECT_EQ(report.sentence(), "corrected ran");
  attend(uniform_windows(199, -10).to(at::kFloat), Implementation::kCorrected, false, &report);
  EXPECT_EQ(report.sentence(), "corrected ran; streamed recomputed 100 rows");
  auto some = uniform_windows(199, 1.0);
  for (const std::int64_t row : {3, 57}) some.bias.windows->value.slice(1, row * 199, (row + 1) * 199).fill_(-10.0);
  attend(some.to(at::kFloat), Implementation::kCorrected, false, &report);
  EXPECT_TRUE(report.recomputed.equal(at::tensor({3, 57}, at::kLong)));
}

TEST(CorrectedAttention, RefusesWhatTorchsOperatorsDoNotGive) {
  auto in = make_inputs({.name = "refused", .attn_mask = true, .dropout = 0.5}).to(at::kFloat).with_gradients();
  EXPECT_EQ(
      error_of([&] { attend(in, Implementation::kCorrected); }),
      "[biased_attention] implementation must be auto, streamed or reference for this call, got corrected: "
      "[corrected: dropout is a function of its counters, not of torch's operator] [corrected: attn_mask requires "
      "a gradient, which torch's operators do not give]");
}

// Rows of scores that do not fit into one chunk, lists of keys that do not fit into one table of them.
TEST(CorrectedAttention, StatisticsAreTheSameInChunks) {
  const AttentionCase c{.name = "chunks",
                        .heads = 1,
                        .queries = 9,
                        .keys = 3'000'000,
                        .width = 1,
                        .value_width = 1,
                        .window_entries = 40,
                        .segments = 2};
  const auto in = make_inputs(c).to(at::kFloat);
  EXPECT_TRUE(
      close_statistics(attend(in, Implementation::kCorrected, true), attend(in, Implementation::kFused, true), 2e-5));
}

TEST(CorrectedAttention, NanStaysInItsOwnRowAndOutOfRemovedKeys) {
  AttentionCase c{.name = "nan", .batch = 2, .queries = 5, .keys = 9, .window_entries = 3, .key_lengths = true};
  auto in = make_inputs(c).to(at::kFloat);
  in.k.select(2, 8).fill_(std::nan(""));  // beyond every key length
  in.v.select(2, 8).fill_(std::nan(""));
  for (const auto& gradient : gradients_of(in, Implementation::kCorrected))
    EXPECT_TRUE(gradient.isfinite().all().item<bool>());
  in.q[0][0][1].fill_(std::nan(""));
  const auto result = attend(in, Implementation::kCorrected, true);
  for (const auto& broken : {result.output.isnan().any(-1), result.statistics->entropy.isnan()}) {
    EXPECT_EQ(broken.sum().item<std::int64_t>(), 1);
    EXPECT_TRUE(broken[0][0][1].item<bool>());
  }
}

TEST(CorrectedAttention, ExpandedViewsAndZeroStridesAreRead) {
  AttentionCase c{.name = "views", .batch = 1, .queries = 6, .keys = 20, .window_entries = 5, .segments = 2};
  auto one = make_inputs(c).to(at::kFloat);
  auto two = one;
  for (at::Tensor* t : {&two.q, &two.k, &two.v}) *t = t->expand({2, -1, -1, -1});
  const auto offsets = one.bias.windows->row_offsets, keys = one.bias.windows->key_index;
  two.bias.windows = Windows{at::cat({offsets, offsets.slice(0, 1) + offsets[-1]}), keys.repeat({2}),
                             one.bias.windows->value.repeat({1, 2})};
  two.bias.segments->value = one.bias.segments->value->expand({2, -1, -1, -1});
  const auto expected = attend(one, Implementation::kCorrected).output;
  const auto actual = attend(two, Implementation::kCorrected).output;
  for (const int b : {0, 1}) EXPECT_TRUE(same_bits(actual[b], expected[0]));
}

}  // namespace
}  // namespace camber::ops
