#include "kernels/attention_run.h"
#include "kernels/closeness.h"

namespace camber::kernels::test {
namespace {

void check_backward(const Case& c) {
  const CaseData data(c);
  const Reference expected = reference(data);
  for (const Isa isa : supported_isas()) {
    SCOPED_TRACE(c.name + " " + isa_name(isa));
    const BackwardRun found = run_backward(data, run_forward(data, isa), isa);
    const double allowed = 10 * relative_bound(expected, c);
    expect_close(found.q, expected.grad_q, allowed * largest(expected.grad_q), "dq");
    expect_close(found.k, expected.grad_k, allowed * largest(expected.grad_k), "dk");
    expect_close(found.v, expected.grad_v, allowed * largest(expected.grad_v), "dv");
    expect_close(found.window, expected.grad_window, allowed * largest(expected.grad_window), "dwindow");
    expect_close(found.segment, expected.grad_segment, allowed * largest(expected.grad_segment), "dsegment");
    expect_close(found.table, expected.grad_table, allowed * largest(expected.grad_table), "dtable");
    expect_close(found.mask, expected.grad_mask, allowed * largest(expected.grad_mask), "dmask");
  }
}

TEST(Backward, AgreesWithTheDefinitionOverSizes) {
  for (const Case& c : forward_cases()) check_backward(c);
}

TEST(Backward, AgreesWithTheDefinitionOverFeatures) {
  for (const Case& c : feature_cases()) check_backward(c);
}

}  // namespace
}  // namespace camber::kernels::test
