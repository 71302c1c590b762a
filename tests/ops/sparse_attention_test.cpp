#include "camber/ops/sparse_attention.h"

#include <cmath>
#include <mutex>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include "support/attention_cases.h"
#include "support/comparison.h"

namespace camber::ops {
namespace {

using namespace camber::proof;

AttentionCase lists(bool per_head) {
  return {.name = "lists",
          .batch = 2,
          .heads = 3,
          .queries = 9,
          .keys = 20,
          .width = 5,
          .value_width = 6,
          .window_entries = 7,
          .windows_per_head = per_head};
}

// The same attention, densely: every key that is not listed is blocked.
at::Tensor dense(const AttentionTestInputs& in) {
  auto listed = in;
  listed.bias.windows->value = at::ones_like(in.bias.windows->value.detach());
  const auto kept = listed.bias.materialize(in.q.size(0), in.q.size(2), in.k.size(2), in.q).ne(0);
  return biased_attention(in.q, in.k, in.v, in.bias,
                          {.masks = {.blocked_mask = kept.logical_not()}, .implementation = Implementation::kReference})
      .output;
}

at::Tensor sparse(const AttentionTestInputs& in) {
  return sparse_attention(in.q, in.k, in.v, in.bias.windows->row_offsets, in.bias.windows->key_index,
                          in.bias.windows->value);
}

TEST(SparseAttention, EqualsDenseAttentionOverTheListedKeys) {
  for (const bool per_head : {false, true}) {
    const auto in = make_inputs(lists(per_head)).with_gradients();
    std::vector<at::Tensor> leaves = {in.q, in.k, in.v, in.bias.windows->value};
    const auto expected = dense(in), actual = sparse(in);
    EXPECT_TRUE(close(actual, expected, 1e-12));
    const auto expected_gradients = torch::autograd::grad({expected.square().sum()}, leaves);
    const auto actual_gradients = torch::autograd::grad({actual.square().sum()}, leaves);
    for (std::size_t i = 0; i < leaves.size(); ++i)
      EXPECT_TRUE(close(actual_gradients[i], expected_gradients[i], 1e-12)) << i;
  }
}

TEST(SparseAttention, GradientsMatchTheNumericJacobian) {
  const auto in = make_inputs(lists(true)).with_gradients();
  EXPECT_TRUE(gradients_match([&] { return sparse(in).square().sum(); }, in.differentiable()));
}

TEST(SparseAttention, SecondDerivativesAreRefusedInASentence) {
  const auto in = make_inputs(lists(true)).with_gradients();
  const auto first =
      torch::autograd::grad({sparse(in).square().sum()}, {in.q}, {}, std::nullopt, /*create_graph=*/true);
  EXPECT_EQ(error_of([&] { torch::autograd::grad({first[0].sum()}, {in.q}); }),
            "[sparse_attention] double backward must not be asked for: only first derivatives exist (biased_attention "
            "with implementation = reference has higher ones)");
}

TEST(SparseAttention, AnEmptyListGivesZerosAndNoGradient) {
  const auto q = at::randn({1, 2, 3, 4}, at::kDouble).requires_grad_(true);
  const auto k = at::randn({1, 2, 5, 4}, at::kDouble).requires_grad_(true);
  const auto out = sparse_attention(q, k, k, at::tensor({0, 2, 2, 3}, at::kLong), at::tensor({0, 4, 1}, at::kInt));
  EXPECT_EQ(out.select(2, 1).abs().max().item<double>(), 0);
  EXPECT_EQ(torch::autograd::grad({out.square().sum()}, {q})[0].select(2, 1).abs().max().item<double>(), 0);
}

// Entry 1 of query 0 is removed by -inf; its key and value are NaN, or inf. In both types it adds nothing to any
// result, and a listed key that is not removed still shows its NaN.
TEST(SparseAttention, ARemovedKeyLeaksNothing) {
  const auto row_offsets = at::tensor({0, 3, 5}, at::kLong);
  const auto key_index = at::tensor({0, 1, 2, 0, 3}, at::kInt);
  for (const at::ScalarType type : {at::kDouble, at::kFloat})
    for (const double odd : {std::nan(""), kInfinity}) {
      const auto made = [&](double content) {
        at::manual_seed(7);
        std::vector<at::Tensor> leaves = {at::randn({1, 2, 2, 5}, type), at::randn({1, 2, 4, 5}, type),
                                          at::randn({1, 2, 4, 6}, type), at::randn({2, 5}, type)};
        leaves[1].select(2, 1).fill_(content);
        leaves[2].select(2, 1).fill_(content);
        leaves[3].select(1, 1).fill_(-kInfinity);
        for (auto& leaf : leaves) leaf.requires_grad_(true);
        const auto out = sparse_attention(leaves[0], leaves[1], leaves[2], row_offsets, key_index, leaves[3]);
        auto results = torch::autograd::grad({out.square().sum()}, leaves);
        results.push_back(out);
        return results;
      };
      const auto expected = made(0.5), actual = made(odd);
      for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_TRUE(same_bits(actual[i], expected[i])) << c10::toString(type) << " " << odd << " " << i;
    }
}

TEST(SparseAttention, AListedNanIsSeenByItsOwnRowAlone) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    auto k = at::randn({1, 1, 3, 4}, type);
    k.select(2, 2).fill_(std::nan(""));
    const auto q = at::randn({1, 1, 2, 4}, type), v = at::randn({1, 1, 3, 4}, type);
    const auto out = sparse_attention(q, k, v, at::tensor({0, 2, 4}, at::kLong), at::tensor({0, 1, 1, 2}, at::kInt));
    EXPECT_TRUE(out.select(2, 0).isfinite().all().item<bool>());
    EXPECT_TRUE(out.select(2, 1).isnan().all().item<bool>());
  }
}

TEST(SparseAttention, BitsDoNotDependOnTheNumberOfThreads) {
  const auto in = make_inputs({.name = "threads",
                               .batch = 2,
                               .heads = 4,
                               .queries = 300,
                               .keys = 500,
                               .width = 16,
                               .value_width = 16,
                               .window_entries = 40})
                      .to(at::kFloat)
                      .with_gradients();
  const std::vector<at::Tensor> leaves = {in.q, in.k, in.v, in.bias.windows->value};
  const int threads = at::get_num_threads();
  std::vector<std::vector<at::Tensor>> results;
  for (const int count : {1, 2, 3}) {
    at::set_num_threads(count);
    const auto out = sparse(in);
    auto gradients = torch::autograd::grad({out.square().sum()}, leaves);
    gradients.push_back(out);
    results.push_back(gradients);
  }
  at::set_num_threads(threads);
  for (std::size_t run = 1; run < results.size(); ++run)
    for (std::size_t i = 0; i < results[0].size(); ++i) EXPECT_TRUE(same_bits(results[run][i], results[0][i]));
}

TEST(Threads, MoreThanOneIsSeenAtWork) {
  const int threads = at::get_num_threads();
  at::set_num_threads(2);
  std::mutex mutex;
  std::set<std::thread::id> seen;
  at::parallel_for(0, 64, 1, [&](std::int64_t, std::int64_t) {
    const std::lock_guard lock(mutex);
    seen.insert(std::this_thread::get_id());
  });
  at::set_num_threads(threads);
  EXPECT_GT(seen.size(), 1u);
}

}  // namespace
}  // namespace camber::ops
