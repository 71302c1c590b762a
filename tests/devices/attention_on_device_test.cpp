#include <gtest/gtest.h>

#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "camber/ops/deferred_check.h"
#include "camber/ops/sparse_attention.h"
#include "camber/ops/windows.h"
#include "support/attention_runs.h"
#include "support/comparison.h"
#include "support/test_device.h"

// The operators with tensors of another device: the same values as on the CPU, by the implementation that is meant to
// run there.
namespace camber::ops {
namespace {

using namespace camber::proof;

AttentionTestInputs on_device(const AttentionTestInputs& in) {
  AttentionTestInputs moved = in;
  const auto move = [](std::optional<at::Tensor>& tensor) {
    if (tensor) tensor = tensor->to(test_device());
  };
  for (at::Tensor* tensor : {&moved.q, &moved.k, &moved.v}) *tensor = tensor->to(test_device());
  if (moved.bias.windows)
    for (at::Tensor* t : {&moved.bias.windows->row_offsets, &moved.bias.windows->key_index, &moved.bias.windows->value})
      *t = t->to(test_device());
  if (moved.bias.segments) move(moved.bias.segments->value);  // the offsets stay on the host
  if (moved.bias.table) {
    moved.bias.table->value = moved.bias.table->value.to(test_device());
    for (auto* codes : {&moved.bias.table->index, &moved.bias.table->query_code, &moved.bias.table->key_code})
      move(*codes);
  }
  auto& masks = moved.options.masks;
  for (auto* mask : {&masks.attn_mask, &masks.blocked_mask, &masks.key_padding_mask, &masks.key_lengths,
                     &masks.row_lengths, &masks.segment_available})
    move(*mask);
  return moved;
}

class DeviceCase : public ::testing::TestWithParam<AttentionCase> {};
INSTANTIATE_TEST_SUITE_P(Table, DeviceCase, ::testing::ValuesIn(attention_cases()),
                         [](const auto& param_info) { return param_info.param.name; });

TEST_P(DeviceCase, AutoIsWithinTheBoundOfFloat) {
  const auto exact = make_inputs(GetParam()).to(at::kFloat).to(at::kDouble);
  const double bound = 4e-6 + 8 * std::pow(2.0, -24) * largest_score(exact);
  const auto expected = attend(exact, Implementation::kReference, true);
  const auto in = on_device(exact.to(at::kFloat));
  AttentionReport report;
  const auto actual = attend(in, Implementation::kAuto, true, &report);
  EXPECT_EQ(report.ran, GetParam().correctable() ? Implementation::kCorrected : Implementation::kStreamed)
      << report.sentence();
  EXPECT_EQ(actual.output.device(), test_device());
  EXPECT_TRUE(close_to_largest(actual.output.cpu(), expected.output, bound));
  EXPECT_TRUE(close(actual.logsumexp.cpu(), expected.logsumexp, bound));
  EXPECT_TRUE(close_statistics(actual, expected, 10 * bound));
  // Whether statistics are asked for changes no bit.
  EXPECT_TRUE(same_bits(attend(in, Implementation::kAuto).output.cpu(), actual.output.cpu()));
  const auto wanted = gradients_of(exact, Implementation::kReference, false);
  const auto gradients = gradients_of(in, Implementation::kAuto, false);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    EXPECT_TRUE(close_to_largest(gradients[i].cpu(), wanted[i], 10 * bound)) << exact.differentiable()[i].first;
}

TEST_P(DeviceCase, StreamedIsWithinTheBoundOfFloatWithStatistics) {
  const auto exact = make_inputs(GetParam()).to(at::kFloat).to(at::kDouble);
  const double bound = 4e-6 + 8 * std::pow(2.0, -24) * largest_score(exact);
  const auto expected = attend(exact, Implementation::kReference, true);
  const auto in = on_device(exact.to(at::kFloat));
  const auto actual = attend(in, Implementation::kStreamed, true);
  EXPECT_TRUE(close_to_largest(actual.output.cpu(), expected.output, bound));
  EXPECT_TRUE(close_statistics(actual, expected, 10 * bound));
  const auto wanted = gradients_of(exact, Implementation::kReference);
  const auto gradients = gradients_of(in, Implementation::kStreamed);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    EXPECT_TRUE(close_to_largest(gradients[i].cpu(), wanted[i], 10 * bound)) << exact.differentiable()[i].first;
}

// Half precision takes the flash operator where no mask is given.
TEST_P(DeviceCase, HalfPrecisionIsCloseToItsDouble) {
  for (const auto type : {at::kHalf, at::kBFloat16}) {
    const auto in = make_inputs(GetParam()).to(type);
    const auto expected = attend(in.to(at::kDouble), Implementation::kReference, true);
    const auto actual = attend(on_device(in), Implementation::kAuto, true);
    EXPECT_TRUE(close_to_largest(actual.output.cpu(), expected.output, 1e-2));
    EXPECT_TRUE(close_statistics(actual, expected, 1e-2));
    for (const auto& gradient : gradients_of(on_device(in), Implementation::kAuto, false))
      EXPECT_TRUE(gradient.isfinite().all().item<bool>());
  }
}

TEST(AttentionOnDevice, ReportSaysWhyEachBetterImplementationCouldNotRun) {
  const auto in = on_device(make_inputs({.name = "report", .window_entries = 3}).to(at::kFloat));
  AttentionReport report;
  attend(in, Implementation::kAuto, false, &report);
  const std::string where = test_device().str();
  EXPECT_EQ(report.sentence(), "corrected ran; fused: q lies on " + where + ", the kernels run on the CPU");
  attend(in, Implementation::kAuto, true, &report);
  EXPECT_EQ(report.ran, Implementation::kCorrected) << "statistics are no reason to leave it";
  const auto wide = on_device(make_inputs({.name = "report"}));
  attend(wide, Implementation::kAuto, false, &report);
  EXPECT_EQ(report.sentence(),
            "streamed ran; fused: q lies on " + where +
                ", the kernels run on the CPU; fused: q is Double, the kernels " +
                "take float, bfloat16 and half; corrected: no attention operator of torch takes Double on " + where);
}

TEST(AttentionOnDevice, ATensorOfAnotherDeviceIsRefusedInASentence) {
  auto in = on_device(make_inputs({.name = "mixed", .window_entries = 3}).to(at::kFloat));
  in.bias.windows->value = in.bias.windows->value.cpu();
  EXPECT_EQ(error_of([&] { attend(in, Implementation::kAuto); }),
            "[biased_attention] window_value must be on the device of q, " + test_device().str() + ", got cpu");
}

// One wait for the rows to recompute in each pass; none where no window can ask for it.
TEST(AttentionOnDevice, TheHostIsWaitedForOnceAPass) {
  for (const std::int64_t entries : {0, 4}) {
    AttentionCase c{.name = "waits", .batch = 2, .queries = 20, .keys = 30, .window_entries = entries, .segments = 3};
    const auto in = on_device(make_inputs(c).to(at::kFloat)).with_gradients();
    AttentionOutput out;
    for (const bool statistics : {true, false}) {
      reset_traffic();
      out = attend(in, Implementation::kAuto, statistics);
      EXPECT_EQ(traffic().waits(), entries > 0 ? 1 : 0);
    }
    reset_traffic();
    out.output.sum().backward();
    EXPECT_EQ(traffic().waits(), entries > 0 ? 1 : 0);
  }
}

// Under a check neither pass waits: rows that would have to be recomputed are counted instead.
TEST(AttentionOnDevice, ADeferredCheckCountsTheRowsInsteadOfWaiting) {
  for (const double bias : {0.5, -30.0}) {
    const AttentionCase c{.name = "check", .batch = 2, .queries = 20, .keys = 30, .window_entries = 24, .segments = 3};
    auto in = on_device(make_inputs(c).to(at::kFloat)).with_gradients();
    in.bias.windows->value = at::full_like(in.bias.windows->value, bias).requires_grad_(true);
    AttentionReport report;
    const auto expected = attend(in, Implementation::kAuto, true, &report);
    const auto wanted = torch::autograd::grad({expected.output.square().sum()}, {in.q, in.bias.windows->value});
    AttentionOutput actual;
    at::Tensor failures;
    reset_traffic();
    {
      DeferredCheck check;
      actual = attend(in, Implementation::kAuto, true);
      failures = check.failures();
    }
    const auto loss = actual.output.square().sum();
    const auto gradients = torch::autograd::grad({loss}, {in.q, in.bias.windows->value});
    EXPECT_EQ(traffic().waits(), 0);
    EXPECT_EQ(failures.cpu().item<std::int64_t>(), report.recomputed_rows);
    EXPECT_EQ(report.recomputed_rows > 0, bias < 0);
    if (bias < 0) continue;
    EXPECT_TRUE(same_bits(actual.output.cpu(), expected.output.cpu()));
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(same_bits(gradients[i].cpu(), wanted[i].cpu()));
    EXPECT_TRUE(close_statistics(actual, expected, 0));
  }
}

// A device is not asked whether its inputs are finite: with windows such a row is recomputed, without them it is not.
TEST(AttentionOnDevice, StatisticsOfANanStayInItsRow) {
  for (const std::int64_t entries : {0, 4}) {
    AttentionCase c{.name = "nan", .batch = 2, .queries = 6, .keys = 30, .window_entries = entries, .segments = 3};
    c.absent_segment = c.blocked_mask = true;
    auto in = make_inputs(c).to(at::kFloat);
    in.q[1][0][2].fill_(std::nan(""));
    AttentionReport report;
    const auto expected = named_statistics(attend(in, Implementation::kReference, true));
    const auto actual = named_statistics(attend(on_device(in), Implementation::kAuto, true, &report));
    EXPECT_EQ(report.ran, Implementation::kCorrected);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto seen = actual[i].second.cpu();
      const bool counts = actual[i].first == "keys_left";
      auto in_row = at::zeros_like(seen, at::kBool);
      if (!counts) in_row[1][0][2].fill_(true);
      const auto broken = seen.isnan();
      EXPECT_FALSE(broken.logical_and(in_row.logical_not()).any().item<bool>()) << actual[i].first;
      EXPECT_TRUE(counts || broken[1][0][2].any().item<bool>()) << actual[i].first;
      EXPECT_TRUE(close(seen.masked_fill(in_row, 0), expected[i].second.masked_fill(in_row, 0), 1e-5))
          << actual[i].first;
    }
  }
}

TEST(DeferredChecks, DoNotNestAndLeaveTheCpuAlone) {
  DeferredCheck check;
  EXPECT_EQ(error_of([] { DeferredCheck second; }), "[DeferredCheck] checks must not nest");
  const auto in = make_inputs({.name = "host", .queries = 5, .keys = 9, .window_entries = 9}).to(at::kFloat);
  attend(in, Implementation::kCorrected);
  EXPECT_FALSE(check.failures().defined());
  EXPECT_EQ(DeferredCheck::current(at::kCPU), nullptr);
}

// Lists may go on behind their last row where a device made them: what stands there changes nothing.
TEST(AttentionOnDevice, EntriesBehindTheLastRowAreNobodys) {
  const AttentionCase c{.name = "tail",
                        .batch = 2,
                        .heads = 2,
                        .queries = 9,
                        .keys = 30,
                        .window_entries = 6,
                        .windows_per_head = true,
                        .segments = 3};
  const auto in = on_device(make_inputs(c).to(at::kFloat));
  auto longer = in;
  auto& windows = *longer.bias.windows;
  constexpr std::int64_t kMore = 50;
  windows.key_index = at::constant_pad_nd(windows.key_index, {0, kMore}, 7);
  windows.value = at::constant_pad_nd(windows.value, {0, kMore}, 1e4);
  const std::int64_t entries = in.bias.windows->key_index.size(0);
  for (const auto implementation : {Implementation::kAuto, Implementation::kStreamed, Implementation::kReference}) {
    const auto expected = attend(in, implementation, true), with_tail = attend(longer, implementation, true);
    EXPECT_TRUE(same_bits(with_tail.output.cpu(), expected.output.cpu()));
    EXPECT_TRUE(close_statistics(with_tail, expected, 0));
    const auto wanted = gradients_of(in, implementation, false), actual = gradients_of(longer, implementation, false);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      auto own = actual[i].cpu();
      if (own.sizes() != wanted[i].sizes()) {
        EXPECT_TRUE(own.slice(1, entries).eq(0).all().item<bool>());
        own = own.slice(1, 0, entries);
      }
      EXPECT_TRUE(same_bits(own.contiguous(), wanted[i].cpu())) << i;
    }
  }
}

TEST(AttentionOnDevice, AutocastLowersQueriesAndLeavesTheBias) {
  const AttentionCase c{.name = "autocast", .queries = 9, .keys = 30, .window_entries = 6, .segments = 2};
  const auto in = on_device(make_inputs(c).to(at::kFloat));
  const auto type = test_device().type();
  at::autocast::set_autocast_dtype(type, at::kBFloat16);
  at::autocast::set_autocast_enabled(type, true);
  const auto lowered = attend(in, Implementation::kAuto).output;
  const auto& windows = *in.bias.windows;
  const auto local = sparse_attention(in.q.to(at::kBFloat16), in.k.to(at::kBFloat16), in.v.to(at::kBFloat16),
                                      windows.row_offsets, windows.key_index);
  at::autocast::set_autocast_enabled(type, false);
  at::autocast::clear_cache();
  EXPECT_EQ(lowered.scalar_type(), at::kBFloat16);
  EXPECT_EQ(local.scalar_type(), at::kFloat);
  EXPECT_TRUE(same_bits(lowered.cpu(),
                        attend(on_device(make_inputs(c).to(at::kBFloat16)), Implementation::kAuto).output.cpu()));
}

TEST(SparseAttentionOnDevice, EqualsTheKernels) {
  const AttentionCase c{.name = "sparse",
                        .batch = 2,
                        .heads = 3,
                        .queries = 21,
                        .keys = 60,
                        .width = 16,
                        .value_width = 24,
                        .window_entries = 9,
                        .windows_per_head = true,
                        .infinities = true};
  const auto host = make_inputs(c).to(at::kFloat);
  const auto run = [](const AttentionTestInputs& in) {
    const auto leaves = in.with_gradients();
    const auto& windows = *leaves.bias.windows;
    const auto output =
        sparse_attention(leaves.q, leaves.k, leaves.v, windows.row_offsets, windows.key_index, windows.value);
    auto result = torch::autograd::grad({output.square().sum()}, {leaves.q, leaves.k, leaves.v, windows.value});
    result.push_back(output);
    return result;
  };
  const auto expected = run(host), actual = run(on_device(host));
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(close(actual[i].cpu(), expected[i], 3e-6)) << i;
}

TEST(WindowsOnDevice, EqualTheKernels) {
  const auto center = at::tensor({3, 2, 0, 0, 5, 4, -1, -1}, at::kLong).view({1, 2, 2, 2});
  const auto size = at::tensor({3, 5, 3, 3}, at::kInt).view({1, 2, 2});
  const auto shape = at::tensor({6, 5, 4, 4}, at::kLong).view({2, 2});
  const auto host = build_windows(center, size, shape);
  const auto moved = build_windows(center.to(test_device()), size.to(test_device()), shape);
  EXPECT_TRUE(moved.key_index.cpu().equal(host.key_index));
  const auto run = [](const WindowIndex& index, at::Device device) {
    const auto strength = at::arange(8, at::kFloat).view({2, 2, 2}).to(device).requires_grad_(true);
    const auto profile = index.squared_distance.to(at::kFloat).neg().exp();
    const auto value = window_values(strength, profile, index.row_offsets, index.map_index);
    return std::pair{value.detach(), torch::autograd::grad({value.square().sum()}, {strength})[0]};
  };
  const auto expected = run(host, at::kCPU), actual = run(moved, test_device());
  EXPECT_TRUE(same_bits(actual.first.cpu(), expected.first));
  EXPECT_TRUE(close(actual.second.cpu(), expected.second, 1e-6));
}

}  // namespace
}  // namespace camber::ops
