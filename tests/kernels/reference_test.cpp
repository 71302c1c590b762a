#include <functional>

#include "kernels/closeness.h"

namespace camber::kernels::test {
namespace {

// What the reference's gradients are the gradients of.
double loss(const CaseData& data) {
  const Reference r = reference(data);
  double sum = 0;
  for (std::size_t i = 0; i < r.output.size(); ++i) sum += r.output[i] * data.grad_output[i];
  for (std::size_t i = 0; i < r.logsumexp.size(); ++i)
    if (std::isfinite(r.logsumexp[i])) sum += r.logsumexp[i] * data.grad_logsumexp[i];
  return sum;
}

// Central differences of the loss, element by element; the data are floats, so steps are powers of two.
void check(CaseData& data, std::vector<float>& values, const std::vector<double>& gradient, const char* what) {
  ASSERT_EQ(values.size(), gradient.size()) << what;
  for (std::size_t i = 0; i < values.size(); i += 1 + values.size() / 23) {
    const float before = values[i];
    if (!std::isfinite(before)) {
      EXPECT_EQ(gradient[i], 0.0) << what;
      continue;
    }
    const float step = 0x1p-9f;
    values[i] = before + step;
    const double up = loss(data), wide = static_cast<double>(values[i]);
    values[i] = before - step;
    const double slope = (up - loss(data)) / (wide - static_cast<double>(values[i]));
    values[i] = before;
    EXPECT_NEAR(slope, gradient[i], 2e-4 * std::max(1.0, largest(gradient))) << what << " " << i;
  }
}

TEST(Reference, GradientsAreThoseOfItsForward) {
  Case c{.name = "numeric", .batches = 2, .heads = 2, .queries = 3, .keys = 9, .key_width = 4, .value_width = 5};
  c.window_heads = c.segment_heads = c.mask_batches = 1;
  c.mask_heads = 0;
  c.segments = 3;
  c.removed = 0.1;
  c.blocked_batches = 0;
  c.blocked_heads = 1;
  c.lengths = true;
  c.dropout = 0.25;
  CaseData data(c);
  const Reference r = reference(data);
  check(data, data.q, r.grad_q, "q");
  check(data, data.k, r.grad_k, "k");
  check(data, data.v, r.grad_v, "v");
  check(data, data.window_value, r.grad_window, "window");
  check(data, data.segment_value, r.grad_segment, "segment");
  check(data, data.mask, r.grad_mask, "mask");
}

}  // namespace
}  // namespace camber::kernels::test
