#include <limits>

#include <gtest/gtest.h>

#include "camber/ops/sparse_attention.h"
#include "camber/ops/windows.h"
#include "support/attention_cases.h"
#include "support/comparison.h"

// Bad input gets one sentence that names the argument, what came and what is allowed.
namespace camber::ops {
namespace {

using namespace camber::proof;

AttentionTestInputs good() {
  return make_inputs({.name = "good",
                      .batch = 2,
                      .queries = 3,
                      .keys = 6,
                      .window_entries = 4,
                      .segments = 2,
                      .absent_segment = true,
                      .attn_mask = true,
                      .blocked_mask = true,
                      .key_padding = true,
                      .key_lengths = true});
}

std::string error_after(const std::function<void(AttentionTestInputs&)>& spoil) {
  auto in = good();
  spoil(in);
  return error_of([&] { biased_attention(in.q, in.k, in.v, in.bias, in.options); });
}

TEST(AttentionErrors, TheGoodInputIsGood) {
  EXPECT_EQ(error_after([](auto&) {}), "(no error)");
}

TEST(AttentionErrors, ShapesAndTypes) {
  EXPECT_EQ(error_after([](auto& in) { in.q = in.q.to(at::kInt); }),
            "[biased_attention] q must be a float, double, half or bfloat16 tensor [B, H, Q, D], got Int [2, 2, 3, 8]");
  EXPECT_EQ(error_after([](auto& in) { in.k = in.k.to(at::kFloat); }),
            "[biased_attention] k must have four dimensions and the dtype of q (Double), got Float [2, 2, 6, 8]");
  EXPECT_EQ(error_after([](auto& in) { in.v = in.v.slice(0, 0, 1); }),
            "[biased_attention] v must have the batch and heads of q [2, 2, 3, 8], got [1, 2, 6, 8]");
  EXPECT_EQ(error_after([](auto& in) { in.k = in.k.slice(3, 0, 7); }),
            "[biased_attention] k must have the head dimension of q, 8, got 7");
  EXPECT_EQ(error_after([](auto& in) { in.v = in.v.slice(2, 0, 5); }),
            "[biased_attention] v must have as many keys as k, 6, got 5");
  EXPECT_EQ(error_after([](auto& in) { in.options.dropout = 1; }),
            "[biased_attention] dropout must lie in [0, 1), got 1");
  EXPECT_EQ(error_after([](auto& in) { in.options.softmax_scale = std::nan(""); }),
            "[biased_attention] softmax_scale must be finite, got nan");
}

TEST(AttentionErrors, Windows) {
  EXPECT_EQ(error_after([](auto& in) {
              in.bias.windows->key_index = in.bias.windows->key_index.to(at::kLong);
            }).substr(0, 60),
            "[biased_attention] key_index must be int32 [nnz], got Long [");
  EXPECT_EQ(error_after([](auto& in) { in.bias.windows->row_offsets = in.bias.windows->row_offsets.slice(0, 1); }),
            "[biased_attention] row_offsets must have B*Q+1 = 7 entries, got [6]");
  EXPECT_EQ(error_after([](auto& in) {
              in.bias.windows = Windows{at::tensor({0, 2, 2, 2, 2, 2, 2}, at::kLong), at::tensor({4, 1}, at::kInt),
                                        at::zeros({1, 2}, at::kDouble)};
            }),
            "[biased_attention] key_index must be sorted and unique in a row, got 4 then 1 in row 0");
  EXPECT_EQ(error_after([](auto& in) {
              in.bias.windows = Windows{at::tensor({0, 0, 2, 2, 2, 2, 2}, at::kLong), at::tensor({1, 6}, at::kInt),
                                        at::zeros({1, 2}, at::kDouble)};
            }),
            "[biased_attention] key_index must lie in 0 .. K-1 = 5, got 6 in row 1");
  EXPECT_EQ(error_after([](auto& in) {
              in.bias.windows = Windows{at::tensor({0, 1, 2, 1, 2, 2, 2}, at::kLong), at::tensor({1, 5}, at::kInt),
                                        at::zeros({1, 2}, at::kDouble)};
            }),
            "[biased_attention] row_offsets must never fall, got 2 then 1 at row 2");
  EXPECT_EQ(error_after([](auto& in) {
              in.bias.windows = Windows{at::tensor({0, 1, 1, 1, 1, 1, 1}, at::kLong), at::tensor({1, 5}, at::kInt),
                                        at::zeros({1, 2}, at::kDouble)};
            }),
            "[biased_attention] row_offsets must run from 0 to nnz = 2, got 0 to 1");
  EXPECT_EQ(error_after([](auto& in) { in.bias.windows->value[0][0] = kInfinity; }),
            "[biased_attention] window_value must be below +inf (-inf removes a key), got +inf");
  EXPECT_EQ(error_after([](auto& in) {
              in.bias.windows->value = in.bias.windows->value.expand({3, -1});
            }).substr(0, 59),
            "[biased_attention] window_value must be float [1 or H, nnz]");
}

TEST(AttentionErrors, SegmentsAndMasks) {
  EXPECT_EQ(error_after([](auto& in) {
              in.bias.segments->offsets = at::tensor({0, 3, 5}, at::kLong);
            }),
            "[biased_attention] segment_offsets must run from 0 to K = 6, got 0 to 5");
  EXPECT_EQ(
      error_after([](auto& in) { in.bias.segments->value = in.bias.segments->value->slice(3, 0, 1); }),
      "[biased_attention] segment_value must be float [B, 1 or H, Q, S] = [2, 1 or 2, 3, 2], got Double [2, 1, 3, 1]");
  EXPECT_EQ(error_after([](auto& in) { in.bias.segments.reset(); }),
            "[biased_attention] segment_value and segment_available need segment_offsets");
  EXPECT_EQ(
      error_after([](auto& in) {
        in.options.masks.attn_mask = at::ones({1, 1, 3, 6}, at::kBool);
      }),
      "[biased_attention] attn_mask must be a float tensor (a bool mask goes in as blocked_mask, true = blocked), "
      "got Bool [1, 1, 3, 6]");
  EXPECT_EQ(error_after([](auto& in) {
              in.options.masks.attn_mask = at::full({1, 1, 3, 6}, kInfinity, at::kDouble);
            }),
            "[biased_attention] attn_mask must be below +inf (-inf removes a key), got +inf");
  EXPECT_EQ(error_after([](auto& in) {
              in.options.masks.blocked_mask = at::ones({3, 6}, at::kBool);
            }),
            "[biased_attention] blocked_mask must be [1 or B, 1 or H, Q, K] = [1 or 2, 1 or 2, 3, 6], got [3, 6]");
  EXPECT_EQ(error_after([](auto& in) {
              in.options.masks.key_padding_mask = at::ones({2, 5}, at::kBool);
            }),
            "[biased_attention] key_padding_mask must be [B, K] = [2, 6], got [2, 5]");
  EXPECT_EQ(error_after([](auto& in) {
              in.options.masks.key_lengths = at::tensor({6, 7}, at::kLong);
            }),
            "[biased_attention] key_lengths must lie in 0 .. K = 6, got 7 for batch element 1");
  EXPECT_EQ(error_after([](auto& in) {
              in.options.masks.segment_available = at::ones({2, 3}, at::kBool);
            }),
            "[biased_attention] segment_available must be [B, S] = [2, 2], got [2, 3]");
}

TEST(AttentionErrors, TheReportIsAskedAfterTheShapes) {
  auto in = good();
  AttentionReport report;
  EXPECT_EQ(error_of([&] { biased_attention(in.q[0], in.k, in.v, in.bias, in.options, &report); }),
            "[biased_attention] q must be a float, double, half or bfloat16 tensor [B, H, Q, D], got Double [2, 3, 8]");
}

TEST(AttentionErrors, OtherOperators) {
  const auto q = at::zeros({1, 1, 2, 4}), k = at::zeros({1, 1, 3, 4});
  EXPECT_EQ(error_of([&] {
              sparse_attention(q, k, k, at::tensor({0, 1, 2}, at::kLong), at::tensor({0, 3}, at::kInt));
            }),
            "[sparse_attention] key_index must lie in 0 .. K-1 = 2, got 3 in row 1");
  EXPECT_EQ(error_of([&] {
              sparse_attention(q, k, k, at::tensor({0, 1, 2}, at::kLong), at::tensor({0, 2}, at::kInt),
                               at::tensor({0.0, kInfinity}, at::kFloat).view({1, 2}));
            }),
            "[sparse_attention] value must be below +inf (-inf removes a key), got +inf");
  EXPECT_EQ(error_of([&] {
              window_values(at::ones({1, 2, 1}), at::ones({4}), at::tensor({0, 50000000, 4}, at::kLong),
                            at::zeros({4}, at::kInt));
            }),
            "[window_values] row_offsets must never fall, got 50000000 then 4 at row 1");
  EXPECT_EQ(error_of([&] { implementation_from("fast"); }),
            "[biased_attention] implementation must be auto, fused, corrected, streamed or reference, got 'fast'");
  EXPECT_EQ(error_of([&] {
              build_windows(at::zeros({1, 1, 1, 2}, at::kLong), at::full({1, 1, 1}, 4, at::kInt),
                            at::tensor({8, 8}, at::kLong).view({1, 2}));
            }),
            "[build_windows] size must be odd and at least 1, got 4");
  EXPECT_EQ(error_of([&] { merge({}, {}); }),
            "[merge] outputs and logsumexps must have the same number of shards, at least one, got 0 and 0");
}

}  // namespace
}  // namespace camber::ops
