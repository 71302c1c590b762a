#include "camber/ops/biased_attention.h"

#include <limits>
#include <numbers>

#include <gtest/gtest.h>

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include "camber/random/stream.h"
#include "support/attention_runs.h"
#include "support/comparison.h"

namespace camber::ops {
namespace {

using namespace camber::proof;

class EveryCase : public ::testing::TestWithParam<AttentionCase> {};
INSTANTIATE_TEST_SUITE_P(Table, EveryCase, ::testing::ValuesIn(attention_cases()),
                         [](const auto& param_info) { return param_info.param.name; });

TEST_P(EveryCase, StreamedEqualsTheReferenceInDouble) {
  const auto in = make_inputs(GetParam());
  const auto expected = attend(in, Implementation::kReference, true);
  const auto actual = attend(in, Implementation::kStreamed, true);
  EXPECT_TRUE(close(actual.output, expected.output, 1e-12));
  EXPECT_TRUE(close(actual.logsumexp, expected.logsumexp, 1e-12));
  EXPECT_TRUE(close_statistics(actual, expected, 1e-12));
  const auto expected_gradients = gradients_of(in, Implementation::kReference);
  const auto actual_gradients = gradients_of(in, Implementation::kStreamed);
  for (std::size_t i = 0; i < expected_gradients.size(); ++i)
    EXPECT_TRUE(close(actual_gradients[i], expected_gradients[i], 1e-12)) << in.differentiable()[i].first;
}

TEST_P(EveryCase, FloatStaysWithinItsErrorBound) {
  const auto exact = make_inputs(GetParam()).to(at::kFloat).to(at::kDouble);
  const double bound = 2e-6 + 4 * std::pow(2.0, -24) * largest_score(exact);
  const auto expected = attend(exact, Implementation::kReference);
  const auto actual = attend(exact.to(at::kFloat), Implementation::kStreamed);
  EXPECT_EQ(actual.output.scalar_type(), at::kFloat);
  EXPECT_EQ(actual.logsumexp.scalar_type(), at::kFloat);
  EXPECT_TRUE(close_to_largest(actual.output, expected.output, bound));
  EXPECT_TRUE(close(actual.logsumexp, expected.logsumexp, bound));
  const auto expected_gradients = gradients_of(exact, Implementation::kReference);
  const auto actual_gradients = gradients_of(exact.to(at::kFloat), Implementation::kStreamed);
  for (std::size_t i = 0; i < expected_gradients.size(); ++i)
    EXPECT_TRUE(close_to_largest(actual_gradients[i], expected_gradients[i], 10 * bound))
        << exact.differentiable()[i].first;
}

// The same bound, and the statistics, on whatever instruction set runs; any number of threads gives the same bits.
TEST_P(EveryCase, FusedStaysWithinItsErrorBoundForAnyNumberOfThreads) {
  const auto exact = make_inputs(GetParam()).to(at::kFloat).to(at::kDouble);
  const double bound = 2e-6 + 4 * std::pow(2.0, -24) * largest_score(exact);
  const auto expected = attend(exact, Implementation::kReference, true);
  const auto in = exact.to(at::kFloat);
  const auto actual = attend(in, Implementation::kFused, true);
  EXPECT_TRUE(close_to_largest(actual.output, expected.output, bound));
  EXPECT_TRUE(close(actual.logsumexp, expected.logsumexp, bound));
  EXPECT_TRUE(close_statistics(actual, expected, 1e-5 + 10 * bound));
  const auto expected_gradients = gradients_of(exact, Implementation::kReference);
  const auto actual_gradients = gradients_of(in, Implementation::kFused);
  for (std::size_t i = 0; i < expected_gradients.size(); ++i)
    EXPECT_TRUE(close_to_largest(actual_gradients[i], expected_gradients[i], 10 * bound))
        << exact.differentiable()[i].first;

  const int threads = at::get_num_threads();
  for (const int count : {1, 3, 8}) {
    at::set_num_threads(count);
    EXPECT_TRUE(same_bits(attend(in, Implementation::kFused).output, actual.output)) << count;
    const auto again = gradients_of(in, Implementation::kFused);
    for (std::size_t i = 0; i < again.size(); ++i) EXPECT_TRUE(same_bits(again[i], actual_gradients[i])) << count;
  }
  at::set_num_threads(threads);
}

// The small cases cover every formula; central differences of the large ones would only take longer.
std::vector<AttentionCase> small_cases() {
  auto cases = attention_cases();
  std::erase_if(cases, [](const AttentionCase& c) { return c.queries * c.keys > 2500 || c.magnitude > 10; });
  return cases;
}

class SmallCase : public ::testing::TestWithParam<AttentionCase> {};
INSTANTIATE_TEST_SUITE_P(Table, SmallCase, ::testing::ValuesIn(small_cases()),
                         [](const auto& param_info) { return param_info.param.name; });

TEST_P(SmallCase, GradientsMatchTheNumericJacobian) {
  const auto in = make_inputs(GetParam()).with_gradients();
  for (const auto implementation : {Implementation::kReference, Implementation::kStreamed})
    EXPECT_TRUE(gradients_match([&] { return loss_of(attend(in, implementation)); }, in.differentiable()))
        << name_of(implementation);
}

TEST_P(EveryCase, BfloatAndHalfInputsAreCloseToTheirDoubles) {
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    const auto in = make_inputs(GetParam()).to(type);
    const auto expected = attend(in.to(at::kDouble), Implementation::kReference);
    for (const auto implementation : {Implementation::kStreamed, Implementation::kAuto}) {
      const auto actual = attend(in, implementation);
      EXPECT_EQ(actual.output.scalar_type(), type);
      EXPECT_TRUE(close_to_largest(actual.output, expected.output, 1e-2)) << name_of(implementation);
    }
  }
}

TEST(BiasedAttention, RowsWithoutAKeyGiveZerosAndNoGradient) {
  AttentionCase c{
      .name = "dead", .queries = 4, .keys = 6, .window_entries = 3, .blocked_mask = true, .dead_rows = true};
  for (const auto implementation : {Implementation::kReference, Implementation::kStreamed}) {
    const auto in = make_inputs(c).with_gradients();
    const auto out = attend(in, implementation);
    EXPECT_EQ(out.output.select(2, 2).abs().max().item<double>(), 0);
    EXPECT_EQ(out.logsumexp.select(2, 2).max().item<double>(), -kInfinity);
    const auto gradients = torch::autograd::grad({out.output.sum()}, {in.q, in.bias.windows->value});
    EXPECT_EQ(gradients[0].select(2, 2).abs().max().item<double>(), 0);
    EXPECT_TRUE(gradients[1].isfinite().all().item<bool>());
  }
}

// What projected [B, rows, H, D] takes its gradient as it is; others are contiguous.
TEST(BiasedAttention, GradientsLieAsTheirInputsDo) {
  for (const auto type : {at::kFloat, at::kBFloat16})
    for (const auto implementation : {Implementation::kStreamed, Implementation::kFused}) {
      const auto rows = [&](std::int64_t count) {
        return at::randn({2, count, 3, 8}, at::TensorOptions().dtype(type)).transpose(1, 2).requires_grad_();
      };
      const auto q = rows(5), k = rows(7), v = at::randn({2, 3, 7, 8}, q.options()).requires_grad_();
      const auto out = biased_attention(q, k, v, {}, {.implementation = implementation});
      const auto gradients = torch::autograd::grad({out.output.sum()}, {q, k, v});
      EXPECT_EQ(gradients[0].strides(), q.strides());
      EXPECT_EQ(gradients[1].strides(), k.strides());
      EXPECT_TRUE(gradients[2].is_contiguous());
    }
}

TEST(BiasedAttention, NanStaysInItsOwnRowAndOutOfRemovedKeys) {
  AttentionCase c{.name = "nan", .batch = 2, .queries = 5, .keys = 9, .window_entries = 3, .key_lengths = true};
  for (const auto implementation : {Implementation::kReference, Implementation::kStreamed, Implementation::kFused}) {
    auto in = make_inputs(c);
    if (implementation == Implementation::kFused) in = in.to(at::kFloat);
    in.q[0][0][1].fill_(std::nan(""));
    in.k.select(2, 8).fill_(std::nan(""));  // beyond every key length
    in.v.select(2, 8).fill_(std::nan(""));
    const auto broken = attend(in, implementation).output.isnan().any(-1);
    EXPECT_EQ(broken.sum().item<std::int64_t>(), 1) << name_of(implementation);
    EXPECT_TRUE(broken[0][0][1].item<bool>());
  }
}

TEST(BiasedAttention, BiasOfZeroChangesNoBitAndStillLearns) {
  for (const auto implementation : {Implementation::kStreamed, Implementation::kFused}) {
    AttentionCase c{.name = "zero", .batch = 2, .queries = 9, .keys = 40, .window_entries = 8, .segments = 3};
    auto in = make_inputs(c).to(at::kFloat);
    in.bias.windows->value.zero_();
    in.bias.segments->value->zero_();
    const auto with = attend(in, implementation);
    const auto without = biased_attention(in.q, in.k, in.v, {}, {.implementation = implementation});
    EXPECT_TRUE(same_bits(with.output, without.output));
    EXPECT_TRUE(same_bits(with.logsumexp, without.logsumexp));
    const auto gradients = gradients_of(in, implementation);
    EXPECT_GT(gradients[3].abs().max().item<double>(), 0);
    EXPECT_GT(gradients[4].abs().max().item<double>(), 0);
  }
}

TEST(BiasedAttention, MergeOfShardsEqualsTheWhole) {
  AttentionCase c{.name = "merge", .batch = 2, .heads = 3, .queries = 7, .keys = 29};
  const auto in = make_inputs(c).with_gradients();
  const auto whole = attend(in, Implementation::kReference);
  std::vector<at::Tensor> outputs, logsumexps;
  for (const auto& [first, last] : {std::pair{0, 4}, std::pair{4, 4}, std::pair{4, 20}, std::pair{20, 29}}) {
    const auto shard = biased_attention(in.q, in.k.slice(2, first, last), in.v.slice(2, first, last));
    outputs.push_back(shard.output);
    logsumexps.push_back(shard.logsumexp);
  }
  const auto joined = merge(outputs, logsumexps);
  EXPECT_TRUE(close(joined.output, whole.output, 1e-12));
  EXPECT_TRUE(close(joined.logsumexp, whole.logsumexp, 1e-12));
  const std::vector<at::Tensor> leaves = {in.q, in.k, in.v};
  const auto expected = torch::autograd::grad({loss_of(whole)}, leaves);
  const auto actual = torch::autograd::grad({loss_of(joined)}, leaves);
  for (std::size_t i = 0; i < leaves.size(); ++i) EXPECT_TRUE(close(actual[i], expected[i], 1e-12));
}

TEST(BiasedAttention, DropoutIsTheSameFunctionOfItsCountersEverywhere) {
  AttentionCase c{.name = "drop", .batch = 2, .heads = 2, .queries = 3, .keys = 11, .dropout = 0.4};
  auto in = make_inputs(c);
  in.v = at::eye(11, at::kDouble).expand({2, 2, 11, 11});  // the output is then the dropped weights themselves
  const auto kept = attend(in, Implementation::kStreamed).output;
  for (std::uint32_t b = 0; b < 2; ++b)
    for (std::uint32_t h = 0; h < 2; ++h)
      for (std::uint32_t q = 0; q < 3; ++q)
        for (std::uint32_t k = 0; k < 11; ++k)
          EXPECT_EQ(
              kept[b][h][q][k].item<double>() > 0,
              random::attention_dropout_word(in.options.dropout_seed, b, h, q, k) >= random::dropout_threshold(0.4));
}

TEST(BiasedAttention, ReportSaysWhichImplementationRanAndWhy) {
  const auto in = make_inputs({.name = "report"});
  AttentionReport report;
  biased_attention(in.q, in.k, in.v, {}, {.implementation = Implementation::kReference}, &report);
  EXPECT_EQ(report.sentence(), "reference ran");
  biased_attention(in.q, in.k, in.v, {}, {}, &report);
  EXPECT_EQ(report.sentence(), "streamed ran; fused: q is Double, the kernels take float, bfloat16 and half");
  const auto single = in.to(at::kFloat);
  biased_attention(single.q, single.k, single.v, {}, {}, &report);
  EXPECT_EQ(report.sentence(), "fused ran");
  EXPECT_EQ(
      error_of([&] { biased_attention(in.q, in.k, in.v, {}, {.implementation = Implementation::kFused}); }),
      "[biased_attention] implementation must be auto, streamed or reference for this call, got fused: [fused: q is "
      "Double, the kernels take float, bfloat16 and half]");
}

TEST(BiasedAttention, SecondDerivativesAreRefusedInASentence) {
  const auto in = make_inputs({.name = "second"}).with_gradients();
  const auto out = attend(in, Implementation::kStreamed).output.square().sum();
  const auto first = torch::autograd::grad({out}, {in.q}, {}, true, /*create_graph=*/true);
  EXPECT_EQ(
      error_of([&] { torch::autograd::grad({first[0].sum()}, {in.q}); }),
      "[biased_attention] double backward must not be asked for: only first derivatives exist (use implementation "
      "= reference for higher ones)");
}

TEST(BiasedAttention, SeveralChunksEqualOne) {
  // 2 heads * 5000 keys * 8 bytes: 24 MB hold 314 queries, so that 700 queries take three chunks.
  AttentionCase c{.name = "chunks",
                  .queries = 700,
                  .keys = 5000,
                  .width = 4,
                  .value_width = 4,
                  .window_entries = 12,
                  .segments = 3,
                  .attn_mask = true,
                  .attn_mask_shared = true};
  const auto in = make_inputs(c);
  EXPECT_TRUE(
      close(attend(in, Implementation::kStreamed).output, attend(in, Implementation::kReference).output, 1e-12));
  const auto expected = gradients_of(in, Implementation::kReference),
             actual = gradients_of(in, Implementation::kStreamed);
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(close(actual[i], expected[i], 1e-12)) << in.differentiable()[i].first;
}

TEST(BiasedAttention, StatisticsAreWhatTheirDefinitionsSay) {
  AttentionCase c{
      .name = "statistics", .batch = 1, .heads = 1, .queries = 3, .keys = 12, .window_entries = 5, .segments = 3};
  const auto in = make_inputs(c);
  const auto s = *attend(in, Implementation::kStreamed, true).statistics;
  const auto base = at::matmul(in.q, in.k.transpose(-1, -2)) / std::sqrt(8.0);
  const auto bias = in.bias.materialize(1, 3, 12, in.q);
  const auto p = at::softmax(base + bias, -1), p0 = at::softmax(base, -1);
  EXPECT_TRUE(close(s.entropy, -(p * p.log()).sum(-1), 1e-12));
  EXPECT_TRUE(close(s.largest_weight, p.amax(-1), 1e-12));
  EXPECT_TRUE(close(s.sum_of_squares, p.square().sum(-1), 1e-12));
  EXPECT_TRUE(close(s.change, 0.5 * (p - p0).abs().sum(-1), 1e-12));
  EXPECT_TRUE(close(s.divergence, (p * (p.log() - p0.log())).sum(-1), 1e-12));
  EXPECT_TRUE(close(s.segment_mass.sum(-1), at::ones({1, 1, 3}, at::kDouble), 1e-12));
  EXPECT_EQ(s.keys_left.min().item<double>(), 12);
}

}  // namespace
}  // namespace camber::ops
