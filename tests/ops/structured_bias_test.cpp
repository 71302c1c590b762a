#include "camber/ops/structured_bias.h"

#include <gtest/gtest.h>

#include <torch/csrc/autograd/autograd.h>

#include "support/attention_cases.h"
#include "support/comparison.h"

namespace camber::ops {
namespace {

using namespace camber::proof;

TEST(StructuredBias, MaterializeEqualsTheObviousLoop) {
  const auto in = make_inputs({.name = "materialize",
                               .batch = 2,
                               .heads = 3,
                               .queries = 5,
                               .keys = 14,
                               .window_entries = 6,
                               .windows_per_head = true,
                               .segments = 3});
  const auto dense = in.bias.materialize(2, 5, 14, in.q);
  const auto& w = *in.bias.windows;
  const auto& s = *in.bias.segments;
  for (int b = 0; b < 2; ++b)
    for (int h = 0; h < 3; ++h)
      for (int q = 0; q < 5; ++q)
        for (int k = 0; k < 14; ++k) {
          double expected = 0;
          for (auto e = w.row_offsets[b * 5 + q].item<std::int64_t>();
               e < w.row_offsets[b * 5 + q + 1].item<std::int64_t>(); ++e)
            if (w.key_index[e].item<int>() == k) expected += w.value[h][e].item<double>();
          for (int i = 0; i < 3; ++i)
            if (k >= s.offsets[i].item<std::int64_t>() && k < s.offsets[i + 1].item<std::int64_t>())
              expected += (*s.value)[b][0][q][i].item<double>();
          EXPECT_NEAR(dense[b][h][q][k].item<double>(), expected, 1e-15);
        }
}

TEST(StructuredBias, BytesAreThoseOfItsParts) {
  const auto in = make_inputs({.name = "bytes", .queries = 3, .keys = 9, .window_entries = 4, .segments = 2});
  const std::int64_t entries = in.bias.windows->key_index.size(0);
  EXPECT_EQ(in.bias.bytes(),
            4 * std::int64_t{8} + entries * 4 + entries * 8 + 3 * std::int64_t{8} + 3 * std::int64_t{2} * 8);
}

// The reference size of the notes: what a dense bias would take, and what this one takes.
TEST(StructuredBias, IsAThousandTimesSmallerThanTheDenseBiasAtReferenceSize) {
  const std::int64_t queries = 900, keys = 22384, entries = queries * 250;
  const StructuredBias bias{
      .windows = Windows{at::zeros({queries + 1}, at::kLong), at::zeros({entries}, at::kInt), at::zeros({1, entries})}};
  const std::int64_t dense_per_head = queries * keys * 8 * 4;
  EXPECT_EQ(dense_per_head, 644659200);
  EXPECT_LT(bias.bytes() * 300, dense_per_head);
}

TEST(StructuredBias, TakesTheDenseLayoutsAtTheDoor) {
  const auto in = make_inputs({.name = "dense",
                               .batch = 2,
                               .heads = 3,
                               .queries = 4,
                               .keys = 10,
                               .window_entries = 5,
                               .windows_per_head = true});
  const auto dense = in.bias.materialize(2, 4, 10, in.q);  // [B, H, Q, K]
  const auto first = dense.select(1, 0);                   // [B, Q, K]
  const auto check = [&](const at::Tensor& given, DenseLayout layout, const at::Tensor& expected) {
    EXPECT_TRUE(same_bits(StructuredBias::from_dense(given, layout, 2, 3).materialize(2, 4, 10, in.q), expected));
    EXPECT_TRUE(same_bits(dense_mask(given, layout, 2, 3), expected));
  };
  check(first.contiguous(), DenseLayout::kBatchQueryKey, first.unsqueeze(1));
  check(first.transpose(0, 1).contiguous(), DenseLayout::kQueryBatchKey, first.unsqueeze(1));
  check(dense.flatten(0, 1).contiguous(), DenseLayout::kBatchHeadQueryKey, dense);
}

TEST(StructuredBias, FromDenseKeepsGradientsOnItsSupportAndRefusesToGuessIt) {
  const auto dense = at::zeros({1, 2, 6}, at::kDouble).requires_grad_(true);
  EXPECT_EQ(error_of([&] { StructuredBias::from_dense(dense, DenseLayout::kBatchQueryKey, 1, 2); }),
            "[StructuredBias] support must be given for a dense bias that requires a gradient: entries that happen to "
            "be zero would never learn (or pass the bias as attn_mask)");
  auto support = at::zeros({1, 2, 6}, at::kBool);
  support[0][1][3] = true;
  const auto bias = StructuredBias::from_dense(dense, DenseLayout::kBatchQueryKey, 1, 2, support);
  const auto in = make_inputs({.name = "support", .queries = 2, .keys = 6});
  const auto out = biased_attention(in.q, in.k, in.v, bias).output;
  const auto gradient = torch::autograd::grad({out.square().sum()}, {dense})[0];
  EXPECT_NE(gradient[0][1][3].item<double>(), 0);
  EXPECT_EQ(gradient.ne(0).sum().item<std::int64_t>(), 1);
  EXPECT_EQ(error_of([&] { dense_mask(dense, DenseLayout::kQueryBatchKey, 1, 2); }),
            "[StructuredBias] dense must be [Q, B, K] with B = 1 and H = 2, got Double [1, 2, 6]");
}

}  // namespace
}  // namespace camber::ops
