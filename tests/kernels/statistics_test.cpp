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

}  // namespace
}  // namespace camber::kernels::test
