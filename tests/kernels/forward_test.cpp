#include "kernels/attention_run.h"
#include "kernels/closeness.h"

namespace camber::kernels::test {
namespace {

void check_forward(const Case& c) {
  const CaseData data(c);
  const Reference expected = reference(data);
  for (const Isa isa : supported_isas()) {
    SCOPED_TRACE(c.name + " " + isa_name(isa));
    const ForwardRun found = run_forward(data, isa);
    const double allowed = relative_bound(expected, c);
    expect_close(found.output, expected.output, allowed * largest(expected.output), "output");
    expect_close(found.logsumexp, expected.logsumexp, allowed * std::max(1.0, largest(expected.logsumexp)),
                 "logsumexp");
  }
}

TEST(Forward, AgreesWithTheDefinitionOverSizes) {
  for (const Case& c : forward_cases()) check_forward(c);
}

TEST(Forward, AgreesWithTheDefinitionOverFeatures) {
  for (const Case& c : feature_cases()) check_forward(c);
}

// Sums over many keys are taken in two levels, a block's and the row's: the error must not grow with the number of
// keys.
TEST(Forward, StaysPreciseOverManyKeys) {
  for (const std::int64_t keys : {22384, 100000}) {
    const Case c{.name = "many_keys", .heads = 1, .queries = 24, .keys = keys};
    const CaseData data(c);
    const Reference expected = reference(data);
    for (const Isa isa : supported_isas()) {
      SCOPED_TRACE(std::string(isa_name(isa)) + ", keys " + std::to_string(keys));
      const ForwardRun found = run_forward(data, isa);
      expect_close(found.output, expected.output, 1.2e-6 * largest(expected.output), "output");
      expect_close(found.logsumexp, expected.logsumexp, 1.2e-6 * largest(expected.logsumexp), "logsumexp");
    }
  }
}

}  // namespace
}  // namespace camber::kernels::test
