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

}  // namespace
}  // namespace camber::kernels::test
