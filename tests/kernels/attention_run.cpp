#include "kernels/attention_run.h"

#include <cmath>

namespace camber::kernels::test {
namespace {

std::size_t size(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

Strides contiguous(const AttentionProblem& p, std::int64_t rows, std::int64_t width) {
  return {p.heads * rows * width, rows * width, width};
}

}  // namespace

// Outputs start as NaN, so that an element that was not written shows.
ForwardRun run_forward(const CaseData& data, Isa isa, bool statistics, const ParallelFor& parallel) {
  AttentionProblem p = data.problem;
  p.parallel = parallel;
  ForwardRun run;
  const std::size_t rows = size(data.rows());
  run.output.assign(rows * size(p.value_width), NAN);
  run.logsumexp.assign(rows, NAN);
  std::vector<std::uint16_t> halves(run.output.size(), 0xFFFF);
  const bool full = p.type == ElementType::float32;
  ForwardResult result{full ? static_cast<void*>(run.output.data()) : halves.data(),
                       contiguous(p, p.queries, p.value_width),
                       run.logsumexp.data(),
                       {}};
  if (statistics) {
    for (auto* values : {&run.entropy, &run.largest_weight, &run.sum_of_squares, &run.change, &run.divergence})
      values->assign(rows, NAN);
    run.segment_mass.assign(rows * size(p.segments.count), NAN);
    run.keys_left.assign(rows, -1);
    result.statistics = {run.entropy.data(),      run.largest_weight.data(), run.sum_of_squares.data(),
                         run.segment_mass.data(), run.change.data(),         run.divergence.data(),
                         run.keys_left.data()};
  }
  forward(p, result, isa);
  for (std::size_t i = 0; !full && i < run.output.size(); ++i) run.output[i] = from_16_bits(p.type, halves[i]);
  return run;
}

BackwardRun run_backward(const CaseData& data, const ForwardRun& forward, Isa isa, unsigned wanted,
                         const ParallelFor& parallel) {
  AttentionProblem p = data.problem;
  p.parallel = parallel;
  const bool full = p.type == ElementType::float32;
  std::vector<std::uint16_t> halves;
  for (std::size_t i = 0; !full && i < forward.output.size(); ++i)
    halves.push_back(to_16_bits(p.type, forward.output[i]));
  const Strides output_strides = contiguous(p, p.queries, p.value_width);
  const auto rows_of = [&](const std::vector<float>& floats, const std::vector<std::uint16_t>& words) {
    return ConstRows{full ? static_cast<const void*>(floats.data()) : words.data(), output_strides};
  };
  const BackwardInput input{rows_of(forward.output, halves), forward.logsumexp.data(),
                            rows_of(data.grad_output, data.grad_output16), data.grad_logsumexp.data()};
  BackwardRun run;
  Gradients gradients;
  const auto rows = [&](unsigned flag, std::vector<float>& values, std::int64_t count, std::int64_t width) {
    if ((wanted & flag) == 0) return GradientRows{};
    values.assign(size(p.batches * p.heads * count * width), NAN);
    return GradientRows{values.data(), contiguous(p, count, width)};
  };
  gradients.q = rows(kQ, run.q, p.queries, p.key_width);
  gradients.k = rows(kK, run.k, p.keys, p.key_width);
  gradients.v = rows(kV, run.v, p.keys, p.value_width);
  if ((wanted & kWindow) != 0 && p.windows.row_offsets != nullptr) {
    run.window.assign(data.window_value.size(), NAN);
    gradients.window_value = run.window.data();
  }
  if ((wanted & kSegment) != 0 && p.segments.value != nullptr) {
    run.segment.assign(data.segment_value.size(), NAN);
    gradients.segment_value = run.segment.data();
  }
  if ((wanted & kTable) != 0 && p.table.value != nullptr) {
    run.table.assign(data.table_value.size(), NAN);
    gradients.table_value = run.table.data();
  }
  if ((wanted & kMask) != 0 && p.mask.data != nullptr) {
    run.mask.assign(data.mask.size(), NAN);
    gradients.mask = {run.mask.data(), p.mask.strides};
  }
  backward(p, input, gradients, isa);
  return run;
}

}  // namespace camber::kernels::test
