#include <cmath>
#include <functional>
#include <limits>

#include "kernels/attention_run.h"
#include "kernels/closeness.h"

// NaN stays in its own row, and out of every row for which its key was removed by -inf.
namespace camber::kernels::test {
namespace {

constexpr float kGone = -std::numeric_limits<float>::infinity();
constexpr std::int64_t kKeys = 600;

std::size_t element(std::int64_t row, std::int64_t column, std::int64_t width) {
  return static_cast<std::size_t>(row * width + column);
}

// One head with a float mask, windows and two segments.
Case case_of_parts() {
  Case c{.name = "nan_parts", .heads = 1, .queries = 20, .keys = kKeys, .segments = 2, .segment_heads = 1};
  c.window_heads = 1;
  c.mask_batches = c.mask_heads = 1;
  return c;
}

bool finite_row(const std::vector<float>& values, std::int64_t row, std::int64_t width) {
  for (std::int64_t d = 0; d < width; ++d)
    if (!std::isfinite(values[element(row, d, width)])) return false;
  return true;
}

// Every row but `broken` (-1: none) must be what it is in `clean`, to the rounding of another way to the same sum.
void expect_rows_kept(const std::vector<float>& found, const std::vector<float>& clean, std::int64_t rows,
                      std::int64_t broken, const char* what) {
  const auto width = static_cast<std::int64_t>(found.size()) / rows;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t d = 0; d < width; ++d) {
      const float x = found[element(i, d, width)], expected = clean[element(i, d, width)];
      if (i == broken || x == expected) continue;
      ASSERT_NEAR(x, expected, 2e-5F * (1 + std::abs(expected))) << what << " of row " << i;
    }
}

TEST(Nan, InOneRowOfTheMaskLeavesTheMaximumOfAnother) {
  Case c{.name = "nan_maximum", .heads = 1, .queries = 2, .keys = 512};
  c.mask_batches = c.mask_heads = 1;
  CaseData data(c);
  std::fill(data.mask.begin(), data.mask.end(), 0.0F);
  data.mask[256] = 300;
  data.mask[512 + 272] = kNan;
  for (const Isa isa : supported_isas()) {
    SCOPED_TRACE(isa_name(isa));
    const ForwardRun found = run_forward(data, isa, true);
    EXPECT_NEAR(found.logsumexp[0], 300, 5);
    EXPECT_NEAR(found.largest_weight[0], 1, 1e-6);
    EXPECT_TRUE(std::isnan(found.logsumexp[1]));
  }
}

// A NaN in row 7 of each input in turn, at keys of a first block, of a later one and of the last, partial one.
TEST(Nan, OfAnyInputStaysInItsRow) {
  const Case c = case_of_parts();
  const std::int64_t row = 7;
  const std::vector<std::pair<const char*, std::function<void(CaseData&, std::int64_t)>>> inputs = {
      {"query", [&](CaseData& data, std::int64_t) { data.q[element(row, 3, c.key_width)] = kNan; }},
      {"mask", [&](CaseData& data, std::int64_t key) { data.mask[element(row, key, kKeys)] = kNan; }},
      {"window",
       [&](CaseData& data, std::int64_t key) {
         const auto first = data.row_offsets[row], count = data.row_offsets[row + 1] - first;
         data.window_value[static_cast<std::size_t>(first + key * count / kKeys)] = kNan;
       }},
      {"segment", [&](CaseData& data, std::int64_t key) { data.segment_value[element(row, key / 300, 2)] = kNan; }}};
  for (const Isa isa : supported_isas())
    for (const auto& [name, spoil] : inputs)
      for (const std::int64_t key : {5, 300, 599}) {
        SCOPED_TRACE(std::string(isa_name(isa)) + ", " + name + ", key " + std::to_string(key));
        CaseData data(c);
        const ForwardRun clean = run_forward(data, isa, true);
        const BackwardRun slopes = run_backward(data, clean, isa);
        spoil(data, key);
        const ForwardRun found = run_forward(data, isa, true);
        EXPECT_TRUE(std::isnan(found.logsumexp[row]));
        EXPECT_TRUE(std::isnan(found.output[element(row, 0, c.value_width)]));
        expect_rows_kept(found.output, clean.output, c.queries, row, "output");
        expect_rows_kept(found.logsumexp, clean.logsumexp, c.queries, row, "logsumexp");
        expect_rows_kept(found.entropy, clean.entropy, c.queries, row, "entropy");
        expect_rows_kept(found.change, clean.change, c.queries, row, "change");
        const BackwardRun gradients = run_backward(data, found, isa);
        expect_rows_kept(gradients.q, slopes.q, c.queries, row, "gradient of q");
        expect_rows_kept(gradients.mask, slopes.mask, c.queries, row, "gradient of the mask");
        expect_rows_kept(gradients.segment, slopes.segment, c.queries, row, "gradient of the segments");
      }
}

// Key and value are NaN; -inf in mask, window or segment removes the key for all rows.
TEST(Nan, OfAKeyThatMinusInfinityRemovesNeverLeaks) {
  Case c = case_of_parts();
  c.window_share = 0.98;
  const std::vector<std::pair<const char*, std::function<void(CaseData&, std::int64_t, std::int64_t)>>> parts = {
      {"mask", [](CaseData& data, std::int64_t row, std::int64_t key) { data.mask[element(row, key, kKeys)] = kGone; }},
      {"window",
       [](CaseData& data, std::int64_t row, std::int64_t key) {
         for (std::int64_t e = data.row_offsets[static_cast<std::size_t>(row)];
              e < data.row_offsets[static_cast<std::size_t>(row) + 1]; ++e)
           if (data.key_index[static_cast<std::size_t>(e)] == key)
             data.window_value[static_cast<std::size_t>(e)] = kGone;
       }},
      {"segment", [](CaseData& data, std::int64_t row, std::int64_t key) {
         data.segment_value[element(row, key < data.segment_offsets[1] ? 0 : 1, 2)] = kGone;
       }}};
  for (const Isa isa : supported_isas())
    for (const auto& [name, remove] : parts)
      for (const std::int64_t key : {5, 290, 300, 511, 599}) {
        SCOPED_TRACE(std::string(isa_name(isa)) + ", " + name + ", key " + std::to_string(key));
        CaseData data(c);
        data.k[element(key, 9, c.key_width)] = kNan;
        data.v[element(key, 4, c.value_width)] = kNan;
        std::vector<bool> removed(static_cast<std::size_t>(c.queries));
        for (std::int64_t row = 0; row < c.queries; ++row) {
          remove(data, row, key);
          removed[static_cast<std::size_t>(row)] = true;
          if (std::string(name) == "window") {
            const auto* first = data.key_index.data() + data.row_offsets[static_cast<std::size_t>(row)];
            const auto* last = data.key_index.data() + data.row_offsets[static_cast<std::size_t>(row) + 1];
            removed[static_cast<std::size_t>(row)] = std::find(first, last, static_cast<std::int32_t>(key)) != last;
          }
        }
        ASSERT_TRUE(std::count(removed.begin(), removed.end(), true) > 5);
        const ForwardRun forward = run_forward(data, isa, true);
        const BackwardRun backward = run_backward(data, forward, isa);
        for (std::int64_t row = 0; row < c.queries; ++row) {
          const bool clean = removed[static_cast<std::size_t>(row)];
          EXPECT_EQ(finite_row(forward.output, row, c.value_width), clean) << row;
          EXPECT_EQ(finite_row(forward.logsumexp, row, 1), clean) << row;
          EXPECT_EQ(finite_row(forward.entropy, row, 1), clean) << row;
          EXPECT_EQ(finite_row(backward.q, row, c.key_width), clean) << row;
          EXPECT_EQ(finite_row(backward.segment, row, 2), clean) << row;
          EXPECT_TRUE(!clean || finite_row(backward.mask, row, kKeys)) << row;
        }
        if (std::find(removed.begin(), removed.end(), false) != removed.end()) continue;
        for (const auto* gradient : {&backward.k, &backward.v, &backward.window})
          EXPECT_TRUE(std::all_of(gradient->begin(), gradient->end(), [](float x) { return std::isfinite(x); }));
      }
}

// One element of a value is NaN: of each row that sees the key, that one output.
TEST(Nan, OfAValueReachesTheRowsThatSeeIt) {
  Case c{.name = "nan_value", .heads = 1, .queries = 20, .keys = kKeys};
  c.blocked_batches = c.blocked_heads = 1;
  for (const auto type : {ElementType::float32, ElementType::bfloat16}) {
    c.type = type;
    CaseData data(c);
    data.v[element(300, 4, c.value_width)] = kNan;
    if (type == ElementType::bfloat16) data.v16[element(300, 4, c.value_width)] = 0x7FC0;
    for (const Isa isa : supported_isas()) {
      SCOPED_TRACE(isa_name(isa));
      const ForwardRun found = run_forward(data, isa);
      for (std::int64_t row = 0; row < c.queries; ++row)
        for (std::int64_t d = 0; d < c.value_width; ++d)
          EXPECT_EQ(std::isnan(found.output[element(row, d, c.value_width)]),
                    d == 4 && !data.blocked[element(row, 300, kKeys)])
              << row << ", " << d;
    }
  }
}

// All gradients of a row without keys are zero, whatever flows back into it and whatever its query holds.
TEST(Nan, ThatFlowsIntoARowWithoutKeysGoesNowhere) {
  for (const bool general : {false, true}) {
    Case c{.name = "nan_dead", .heads = 2, .queries = 14, .keys = 300};
    c.mask_batches = c.mask_heads = 1;
    if (general) c.blocked_batches = c.blocked_heads = 1;
    const std::int64_t row = 4;
    CaseData data(c);
    for (std::int64_t j = 0; j < c.keys; ++j) data.mask[element(row, j, c.keys)] = kGone;
    const CaseData clean = [&] {
      CaseData copy(c);
      copy.mask = data.mask;
      copy.problem.mask.data = copy.mask.data();
      return copy;
    }();
    for (std::int64_t h = 0; h < c.heads; ++h) {
      data.grad_logsumexp[element(h, row, c.queries)] = kNan;
      data.grad_output[element(h * c.queries + row, 6, c.value_width)] = kNan;
      data.q[element(h * c.queries + row, 2, c.key_width)] = kNan;
    }
    for (const Isa isa : supported_isas()) {
      SCOPED_TRACE(isa_name(isa));
      const ForwardRun expected_forward = run_forward(clean, isa);
      const ForwardRun forward = run_forward(data, isa);
      EXPECT_TRUE(forward.output == expected_forward.output);
      EXPECT_EQ(forward.logsumexp[static_cast<std::size_t>(row)], kGone);
      const BackwardRun expected = run_backward(clean, expected_forward, isa), found = run_backward(data, forward, isa);
      EXPECT_TRUE(found.q == expected.q);
      EXPECT_TRUE(found.k == expected.k);
      EXPECT_TRUE(found.v == expected.v);
      EXPECT_TRUE(found.mask == expected.mask);
    }
  }
}

}  // namespace
}  // namespace camber::kernels::test
