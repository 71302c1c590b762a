#include <cstring>

#include "kernels/attention_run.h"
#include "kernels/closeness.h"

namespace camber::kernels::test {
namespace {

template <class T>
void expect_same_bits(const std::vector<T>& a, const std::vector<T>& b, const char* what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  EXPECT_TRUE(a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0) << what;
}

void expect_same(const ForwardRun& a, const ForwardRun& b) {
  expect_same_bits(a.output, b.output, "output");
  expect_same_bits(a.logsumexp, b.logsumexp, "logsumexp");
  expect_same_bits(a.entropy, b.entropy, "entropy");
  expect_same_bits(a.largest_weight, b.largest_weight, "largest weight");
  expect_same_bits(a.sum_of_squares, b.sum_of_squares, "sum of squares");
  expect_same_bits(a.segment_mass, b.segment_mass, "segment mass");
  expect_same_bits(a.change, b.change, "change");
  expect_same_bits(a.divergence, b.divergence, "divergence");
  expect_same_bits(a.keys_left, b.keys_left, "keys left");
}

void expect_same(const BackwardRun& a, const BackwardRun& b) {
  expect_same_bits(a.q, b.q, "dq");
  expect_same_bits(a.k, b.k, "dk");
  expect_same_bits(a.v, b.v, "dv");
  expect_same_bits(a.window, b.window, "dwindow");
  expect_same_bits(a.segment, b.segment, "dsegment");
  expect_same_bits(a.mask, b.mask, "dmask");
  expect_same_bits(a.table, b.table, "dtable");
}

std::vector<Case> cases() {
  std::vector<Case> chosen;
  for (const Case& c : feature_cases())
    if (c.name == "windows_segments_absent" || c.name == "everything" || c.name == "dropout_and_everything" ||
        c.name == "windows_strong" || c.name == "row_lengths_and_everything" || c.name == "causal" ||
        c.name == "half" || c.name == "everything_few" || c.name == "table_of_offsets" ||
        c.name == "table_shared_by_heads" || c.name == "table_of_many_batches" || c.name == "small_batches" ||
        c.name == "table_and_everything" || c.name == "dropout_and_everything_few")
      chosen.push_back(c);
  chosen.push_back({.name = "one_query", .batches = 2, .queries = 1, .keys = 5000});
  chosen.push_back({.name = "larger",
                    .heads = 3,
                    .queries = 250,
                    .keys = 1700,
                    .window_heads = 1,
                    .segments = 5,
                    .segment_heads = 1});
  return chosen;
}

TEST(Slots, GiveTheSameBitsForAnyNumber) {
  for (const Case& c : cases()) {
    const CaseData data(c);
    for (const Isa isa : supported_isas()) {
      SCOPED_TRACE(c.name + " " + isa_name(isa));
      const ForwardRun forward = run_forward(data, isa, true);
      const BackwardRun backward = run_backward(data, forward, isa);
      for (const std::int64_t slots : {1, 2, 3, 8}) {
        SCOPED_TRACE(slots);
        expect_same(forward, run_forward(data, isa, true, threads(slots)));
        expect_same(backward, run_backward(data, forward, isa, kAllGradients, threads(slots)));
      }
    }
  }
}

TEST(Slots, MayAllRunInOneThread) {
  const CaseData data(cases().back());
  ParallelFor serial;
  serial.slots = 4;
  serial.run = [](void*, std::int64_t count, ParallelFor::Body body, void* context) {
    for (std::int64_t slot = count; slot-- > 0;) body(context, slot);
  };
  const ForwardRun forward = run_forward(data, chosen_isa());
  expect_same(forward, run_forward(data, chosen_isa(), false, serial));
}

TEST(Backward, ComputesOnlyWhatIsWantedWithTheSameBits) {
  for (const Case& c : cases()) {
    const CaseData data(c);
    for (const Isa isa : supported_isas()) {
      const ForwardRun forward = run_forward(data, isa);
      const BackwardRun all = run_backward(data, forward, isa);
      for (const unsigned wanted : {kQ, kK, kV, kWindow, kSegment, kMask, kTable}) {
        SCOPED_TRACE(c.name + " " + isa_name(isa) + " " + std::to_string(wanted));
        const BackwardRun one = run_backward(data, forward, isa, wanted);
        expect_same(
            {wanted == kQ ? all.q : std::vector<float>{}, wanted == kK ? all.k : std::vector<float>{},
             wanted == kV ? all.v : std::vector<float>{}, wanted == kWindow ? all.window : std::vector<float>{},
             wanted == kSegment ? all.segment : std::vector<float>{}, wanted == kMask ? all.mask : std::vector<float>{},
             wanted == kTable ? all.table : std::vector<float>{}},
            one);
      }
    }
  }
}

// Problems whose arrays do not fit one wave: cut by queries, by heads, by batches.
TEST(Backward, AgreesWithTheDefinitionOverSeveralWaves) {
  for (const Case& c : {Case{.name = "queries",
                       .heads = 1,
                       .queries = 4900,
                       .keys = 200,
                       .key_width = 256,
                       .value_width = 8,
                       .window_heads = 1,
                       .segments = 2,
                       .segment_heads = 1},
                        Case{.name = "heads",
                        .heads = 4,
                        .queries = 1500,
                        .keys = 200,
                        .key_width = 256,
                        .value_width = 8,
                        .window_heads = 1,
                        .segments = 2,
                        .segment_heads = 0},
                        Case{.name = "batches",
                        .batches = 5,
                        .heads = 2,
                        .queries = 700,
                        .keys = 200,
                        .key_width = 256,
                        .value_width = 8,
                        .segments = 2,
                        .segment_heads = 1,
                        .mask_batches = 1,
                        .mask_heads = 1}}) {
    const CaseData data(c);
    const Reference expected = reference(data);
    const Isa isa = chosen_isa();
    SCOPED_TRACE(c.name);
    const BackwardRun found = run_backward(data, run_forward(data, isa), isa, kAllGradients, threads(2));
    const double allowed = 10 * relative_bound(expected, c);
    expect_close(found.q, expected.grad_q, allowed * largest(expected.grad_q), "dq");
    expect_close(found.k, expected.grad_k, allowed * largest(expected.grad_k), "dk");
    expect_close(found.v, expected.grad_v, allowed * largest(expected.grad_v), "dv");
    expect_close(found.window, expected.grad_window, allowed * largest(expected.grad_window), "dwindow");
    expect_close(found.segment, expected.grad_segment, allowed * largest(expected.grad_segment), "dsegment");
    expect_close(found.mask, expected.grad_mask, allowed * largest(expected.grad_mask), "dmask");
  }
}

}  // namespace
}  // namespace camber::kernels::test
