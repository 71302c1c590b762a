#include "kernels/attention_run.h"
#include "kernels/closeness.h"

namespace camber::kernels::test {
namespace {

void check_statistics(const Case& c) {
  const CaseData data(c);
  const Reference expected = reference(data);
  for (const Isa isa : supported_isas()) {
    SCOPED_TRACE(c.name + " " + isa_name(isa));
    const ForwardRun found = run_forward(data, isa, true);
    const double allowed = relative_bound(expected, c);
    const auto close = [&](const std::vector<float>& values, const std::vector<double>& reference_values,
                           const char* what) {
      expect_close(values, reference_values, allowed * std::max(1.0, largest(reference_values)), what);
    };
    close(found.entropy, expected.entropy, "entropy");
    close(found.largest_weight, expected.largest_weight, "largest weight");
    close(found.sum_of_squares, expected.sum_of_squares, "sum of squares");
    close(found.segment_mass, expected.segment_mass, "segment mass");
    close(found.change, expected.change, "change");
    close(found.divergence, expected.divergence, "divergence");
    EXPECT_EQ(found.keys_left, expected.keys_left);
  }
}

TEST(Statistics, AgreeWithTheDefinitionOverSizes) {
  for (const Case& c : forward_cases()) check_statistics(c);
}

TEST(Statistics, AgreeWithTheDefinitionOverFeatures) {
  for (const Case& c : feature_cases()) check_statistics(c);
}

TEST(Statistics, LeaveTheOutputAsItIs) {
  for (const Case& c : feature_cases()) {
    const CaseData data(c);
    for (const Isa isa : supported_isas()) {
      SCOPED_TRACE(c.name + " " + isa_name(isa));
      const ForwardRun plain = run_forward(data, isa), counted = run_forward(data, isa, true);
      EXPECT_TRUE(plain.output == counted.output);
      EXPECT_TRUE(plain.logsumexp == counted.logsumexp);
    }
  }
}

TEST(Statistics, DoNotDependOnTheNumberOfThreads) {
  for (const double size : {2.0, 15.0}) {
    Case c{.name = "threads", .batches = 1, .heads = 2, .queries = 400, .keys = 700, .segments = 3, .segment_heads = 0};
    c.window_heads = 0;
    c.bias_size = size;
    CaseData data(c);
    for (std::size_t i = 0; i < data.segment_value.size(); i += std::size_t{3} * 37)
      data.segment_value[i] = 70;  // few strong rows
    for (const Isa isa : supported_isas()) {
      SCOPED_TRACE(std::string(isa_name(isa)) + ", bias " + std::to_string(size));
      const ForwardRun one = run_forward(data, isa, true);
      for (const std::int64_t slots : {2, 3, 7}) {
        const ForwardRun several = run_forward(data, isa, true, threads(slots));
        EXPECT_TRUE(one.entropy == several.entropy) << slots;
        EXPECT_TRUE(one.largest_weight == several.largest_weight) << slots;
        EXPECT_TRUE(one.sum_of_squares == several.sum_of_squares) << slots;
        EXPECT_TRUE(one.segment_mass == several.segment_mass) << slots;
        EXPECT_TRUE(one.change == several.change) << slots;
        EXPECT_TRUE(one.divergence == several.divergence) << slots;
      }
    }
  }
}

// Windows and segments that oppose each other: neither is strong alone, but between them a key falls out of the range
// of a float.
TEST(Statistics, HoldWhereWindowsAndSegmentsOpposeEachOther) {
  for (const float size : {-60.0F, -39.0F, -20.0F, 20.0F, 39.0F, 60.0F}) {
    Case c{.name = "opposed", .heads = 1, .queries = 14, .keys = 512, .segments = 2, .segment_heads = 1};
    c.window_heads = 1;
    CaseData data(c);
    for (std::size_t i = 0; i < data.segment_value.size(); ++i)
      data.segment_value[i] = std::abs(size) * (i % 2 == 0 ? 1.0F : -1.0F);
    for (std::size_t e = 0; e < data.window_value.size(); ++e)
      data.window_value[e] = data.key_index[e] < data.segment_offsets[1] ? size : -size;
    const Reference expected = reference(data);
    const double allowed = relative_bound(expected, c);
    for (const Isa isa : supported_isas()) {
      SCOPED_TRACE(std::string(isa_name(isa)) + ", bias " + std::to_string(size));
      const ForwardRun found = run_forward(data, isa, true);
      expect_close(found.change, expected.change, allowed, "change");
      expect_close(found.divergence, expected.divergence, allowed * largest(expected.divergence), "divergence");
    }
  }
}

}  // namespace
}  // namespace camber::kernels::test
