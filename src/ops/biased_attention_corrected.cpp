#include <algorithm>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>

#include "camber/ops/deferred_check.h"
#include "ops/attention_arguments.h"
#include "ops/attention_parts.h"
#include "ops/corrected_statistics.h"
#include "ops/stock_pass.h"
#include "ops/window_correction.h"

// Attention by the operators that torch has for a device, without a bias, made exact afterwards. Segments are ranges of
// keys: one call each, joined by their logsumexps, to which the segment's bias is added. Windows change few weights of
// a row: the sum of these changes is added to output and logsumexp (camber/kernels/sparse.h). The backward is the
// operator's own, given the output and the logsumexp with the bias, and the changes of the windows' entries once more.
// A row whose window held most of the weight and lost it is a small difference of large numbers: such rows are
// recomputed by `streamed`.
namespace camber::ops {
namespace {

// A row whose sum of weights shrinks below this share has lost too many digits.
constexpr double kSmallestTotal = 0.25;

// Adds attention over one range to what the ranges before gave: output and logsumexp in place.
void join(StockResult& sum, const StockResult& range, const at::Tensor& bias) {
  const auto lse = bias.defined() ? range.logsumexp + bias : range.logsumexp;
  if (!sum.output.defined()) {
    sum = {range.output, lse};
    // A range that has no weight gives nothing, whatever it holds.
    if (bias.defined()) sum.output = sum.output.masked_fill(lse.eq(-kInfinity).unsqueeze(-1), 0);
    return;
  }
  const auto joint = at::logaddexp(sum.logsumexp, lse);
  const auto reference = joint.masked_fill(joint.eq(-kInfinity), 0);
  const auto share = [&](const at::Tensor& part) { return (part - reference).exp().unsqueeze(-1); };
  const auto gone = lse.eq(-kInfinity).unsqueeze(-1);
  sum.output = sum.output * share(sum.logsumexp) + (range.output * share(lse)).masked_fill(gone, 0);
  sum.logsumexp = joint;
}

// What flows back, without the rows that end here: those without keys and those computed by `streamed`.
struct Incoming {
  at::Tensor q{};          // of the operator, 0 in the rows left out
  at::Tensor grad_output;  // [B, H, Q, Dv], dtype of q
  at::Tensor logsumexp;    // [B, H, Q], +inf in the rows left out
  at::Tensor grad_logsumexp{};
};

Incoming without_rows(const BackwardTensors& t, const at::Tensor& left_out) {
  const auto column = left_out.unsqueeze(-1);
  return {.grad_output = t.grad_output.masked_fill(column, 0),
          .logsumexp = t.logsumexp.masked_fill(left_out, kInfinity),
          .grad_logsumexp = t.grad_logsumexp.defined() ? t.grad_logsumexp.masked_fill(left_out, 0) : at::Tensor{}};
}

// The stock backward over all ranges, into gradients of the compute type.
void stock_gradients(const StockPass& pass, const BackwardTensors& t, const Incoming& in, const Needs& needs,
                     std::array<at::Tensor, kGradients>& gradients) {
  const auto& a = pass.a;
  // A gradient of logsumexp: one more column, in which every value is 0, dO is 1 and O is -dlse, adds it to dO . O.
  const auto widened = [&](const at::Tensor& tensor, const at::Tensor& column) {
    const std::int64_t spare = pass.v.size(3) - tensor.size(3);
    if (spare == 0) return tensor;
    auto wide = at::zeros({tensor.size(0), tensor.size(1), tensor.size(2), pass.v.size(3)}, tensor.options());
    wide.slice(3, 0, tensor.size(3)).copy_(tensor);
    if (column.defined()) wide.select(3, tensor.size(3)).copy_(column);
    return wide;
  };
  const auto& dlse = in.grad_logsumexp;
  const auto grad_output = widened(in.grad_output, dlse.defined() ? at::ones_like(dlse) : dlse);
  const auto output = widened(t.output, dlse.defined() ? -dlse : dlse);
  const std::array<std::int64_t, 3> widths = {a.q.size(3), a.q.size(3), a.v.size(3)};
  for (const KeyRange& range : ranges_of(a)) {
    const auto bias = pass.bias_of(range);
    const auto logsumexp = bias.defined() ? in.logsumexp - bias : in.logsumexp;
    const auto parts = stock_backward(pass.which, pass.problem_of(range, in.q), grad_output, output, logsumexp);
    for (std::size_t i = kQuery; i <= kValue; ++i) {
      if (!needs[i]) continue;
      const auto part = parts[i].slice(3, 0, widths[i]);
      if (i == kQuery)
        gradients[i].add_(part);
      else
        gradients[i].slice(2, range.first, range.end).copy_(part);
    }
  }
}

at::Tensor sum_heads_if_shared(const at::Tensor& tensor, std::int64_t dim, std::int64_t heads) {
  return heads == 1 && tensor.size(dim) != 1 ? tensor.sum(dim, true) : tensor;
}

// The gradient of the segments' bias: what each segment's keys give without the windows, w (dO . O_s - delta), and what
// the windows' entries in it add. The outputs of the segments are computed anew.
void segment_gradient(const StockPass& pass, const BackwardTensors& t, const Incoming& in, const at::Tensor& slopes,
                      const at::Tensor& gradient) {
  const auto& a = pass.a;
  const std::int64_t heads = a.segment_value.size(1);
  const auto wide = in.grad_output.to(pass.type);
  auto delta = (wide * t.output.to(pass.type)).sum(-1);
  if (in.grad_logsumexp.defined()) delta = delta - in.grad_logsumexp;
  gradient.zero_();
  for (const KeyRange& range : ranges_of(a)) {
    const auto part = pass.forward(range);
    const auto z = part.logsumexp + pass.bias_of(range) - in.logsumexp;
    const auto slope = (z.exp() * ((wide * part.output).sum(-1) - delta)).masked_fill(z.eq(-kInfinity), 0);
    gradient.select(3, range.segment).copy_(sum_heads_if_shared(slope, 1, heads));
  }
  if (!slopes.defined()) return;
  const auto entries = entries_of(a.row_offsets, a.key_index, a.batch(), a.queries(), a.keys());
  const auto offsets = entry_offsets_by_segment(a, entries);
  const auto sums = sum_by_row(sum_heads_if_shared(slopes, 0, heads).t().contiguous(), offsets, 0);  // [B*Q*S, Hb]
  gradient.add_(sums.view({a.batch(), a.queries(), a.segments(), heads}).permute({0, 3, 1, 2}));
}

// The rows that were left out, by `streamed`.
void add_recomputed(const AttentionArguments& a, const BackwardTensors& t, std::int64_t b, const at::Tensor& queries,
                    const Needs& needs, std::array<at::Tensor, kGradients>& gradients) {
  const auto rows = [&](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.slice(0, b, b + 1).index_select(2, queries) : tensor;
  };
  const auto part = streamed_backward(part_of(a, b, queries), rows(t.output), rows(t.logsumexp), rows(t.grad_output),
                                      rows(t.grad_logsumexp), needs);
  if (needs[kQuery]) gradients[kQuery][b].index_copy_(1, queries, part[kQuery][0].to(gradients[kQuery].scalar_type()));
  // Where every row is left out, what the operator gave for the keys is 0 times what they hold, and may be NaN.
  for (const auto i : {kKey, kValue}) {
    if (!needs[i]) continue;
    auto target = gradients[i][b];
    if (queries.size(0) == a.queries()) target.zero_();
    target.add_(part[i][0]);
  }
  if (needs[kWindowValue])
    gradients[kWindowValue].index_copy_(1, entries_of_part(a, b, queries).second,
                                        part[kWindowValue].to(gradients[kWindowValue].scalar_type()));
  if (needs[kSegmentValue])
    gradients[kSegmentValue][b].index_copy_(1, queries,
                                            part[kSegmentValue][0].to(gradients[kSegmentValue].scalar_type()));
}

}  // namespace

std::vector<std::string> corrected_obstacles(const AttentionArguments& a) {
  auto obstacles = choose_stock_operator(a).obstacles;
  if (a.dropout > 0)
    obstacles.emplace_back("corrected: dropout is a function of its counters, not of torch's operator");
  if (a.table_value.defined())
    obstacles.emplace_back("corrected: a table adds to every score, which torch's operators take as a dense mask only");
  if (a.attn_mask.defined() && a.attn_mask.requires_grad())
    obstacles.emplace_back("corrected: attn_mask requires a gradient, which torch's operators do not give");
  return obstacles;
}

namespace {

std::array<at::Tensor, kGradients> to_input_types(const AttentionArguments& a,
                                                  std::array<at::Tensor, kGradients> gradients, const Needs& needs) {
  const auto inputs = a.differentiable();
  for (std::size_t i = 0; i < kGradients; ++i)
    if (needs[i]) gradients[i] = gradients[i].to(inputs[i]->scalar_type());
  return gradients;
}

// Has `streamed` compute some rows [B, Q].
void recompute_rows(const AttentionArguments& a, const at::Tensor& rows, CorrectedResult& corrected) {
  auto& result = corrected.result;
  corrected.recomputed = queries_of(a, rows);
  for (std::int64_t b = 0; b < a.batch(); ++b) {
    const auto& queries = corrected.recomputed[static_cast<std::size_t>(b)];
    if (queries.size(0) == 0) continue;
    const auto exact = streamed_forward(part_of(a, b, queries));
    result.output[b].index_copy_(1, queries, exact.output[0]);
    result.logsumexp[b].index_copy_(1, queries, exact.logsumexp[0]);
    if (!a.statistics) continue;
    result.row_statistics.select(1, b).index_copy_(2, queries, exact.row_statistics.select(1, 0));
    if (a.segments() > 0) result.segment_mass[b].index_copy_(1, queries, exact.segment_mass[0]);
  }
}

}  // namespace

CorrectedResult corrected_forward(const AttentionArguments& arguments) {
  const AttentionArguments a = with_rows_blocked(arguments);
  CorrectedResult corrected{.result = empty_results(a), .recomputed = {}};
  auto& result = corrected.result;
  if (result.logsumexp.numel() == 0 || a.keys() == 0) {
    result.output.zero_();
    result.logsumexp.fill_(-kInfinity);
    result.row_statistics.zero_();
    result.segment_mass.zero_();
    return corrected;
  }
  const bool all_streamed = a.q.is_cpu() && holds_non_finite(a);
  at::Tensor recompute = all_streamed ? every_row(a) : at::Tensor{};
  if (!all_streamed) {
    const StockPass pass(a, *choose_stock_operator(a).chosen, 0);
    StockResult sum;
    std::vector<RangeLogsumexp> ranges;
    for (const KeyRange& range : ranges_of(a)) {
      const auto part = pass.forward(range);
      ranges.push_back({range, part.logsumexp});
      join(sum, part, pass.bias_of(range));
    }
    const auto dense =
        sum.output.defined() ? sum.logsumexp.expand_as(result.logsumexp) : result.logsumexp.fill_(-kInfinity);
    result.logsumexp.copy_(dense);
    const auto dead = result.logsumexp.eq(-kInfinity).unsqueeze(-1);
    auto output = result.output.scalar_type() == pass.type ? result.output : at::empty_like(result.output, pass.type);
    if (sum.output.defined())
      output.copy_(sum.output.masked_fill(dead, 0));
    else
      output.zero_();
    const auto shift = a.window_value.defined() ? shift_of_entries(a, pass.removed) : at::Tensor{};
    if (a.window_value.defined()) {
      const auto total = correct_for_windows(a, shift, output, result.logsumexp);
      recompute = total.ge(kSmallestTotal).logical_and(total.lt(kInfinity)).logical_not().any(1);
    }
    if (!output.is_same(result.output)) result.output.copy_(output);
    if (a.statistics) corrected_statistics(pass, ranges, shift, result);
  }
  if (!recompute.defined()) return corrected;
  if (DeferredCheck* check = DeferredCheck::current(a.q.device())) {
    check->add(recompute.sum());
    return corrected;
  }
  recompute_rows(a, recompute, corrected);
  return corrected;
}

std::array<at::Tensor, kGradients> corrected_backward(const AttentionArguments& arguments, const BackwardTensors& t,
                                                      const Needs& needs, bool checked) {
  const AttentionArguments a = with_rows_blocked(arguments);
  auto gradients = empty_gradients(a, needs, a.compute_type());
  for (auto& gradient : gradients) gradient.zero_();
  if (t.logsumexp.numel() == 0 || a.keys() == 0) return to_input_types(a, gradients, needs);

  const bool all_streamed = a.q.is_cpu() && holds_non_finite(a);
  std::vector<at::Tensor> recomputed;
  const StockPass pass(a, *choose_stock_operator(a).chosen, t.grad_logsumexp.defined() ? 1 : 0);
  const auto shift = a.window_value.defined() && !all_streamed ? shift_of_entries(a, pass.removed) : at::Tensor{};
  auto left_out = t.logsumexp.eq(-kInfinity);
  if (all_streamed) {
    recomputed = queries_of(a, every_row(a));
  } else if (a.window_value.defined() && !checked) {
    const auto inverse = inverse_totals(a, shift, t.logsumexp);
    const auto kept = inverse.le(1 / kSmallestTotal).logical_and(inverse.gt(-kInfinity));
    const auto rows = kept.logical_not().logical_and(left_out.logical_not()).any(1);
    recomputed = queries_of(a, rows);
    left_out = left_out.logical_or(rows.unsqueeze(1));
  }
  if (!all_streamed) {
    auto in = without_rows(t, left_out);
    const bool some = std::any_of(recomputed.begin(), recomputed.end(), [](const auto& q) { return q.size(0) > 0; });
    in.q = some ? pass.q.masked_fill(left_out.unsqueeze(-1), 0) : pass.q;
    stock_gradients(pass, t, in, needs, gradients);
    at::Tensor slopes;
    if (a.window_value.defined()) {
      AttentionArguments kept = a;
      if (some) kept.q = a.q.masked_fill(left_out.unsqueeze(-1), 0);
      if (needs[kSegmentValue]) slopes = at::empty({a.heads(), a.key_index.size(0)}, t.logsumexp.options());
      correct_gradients_for_windows(kept, {shift, slopes}, {in.grad_output, in.grad_logsumexp, t.output, in.logsumexp},
                                    needs, gradients);
    }
    if (needs[kSegmentValue]) segment_gradient(pass, t, in, slopes, gradients[kSegmentValue]);
  }
  for (std::size_t b = 0; b < recomputed.size(); ++b)
    if (recomputed[b].size(0) > 0) add_recomputed(a, t, static_cast<std::int64_t>(b), recomputed[b], needs, gradients);
  return to_input_types(a, gradients, needs);
}

}  // namespace camber::ops
