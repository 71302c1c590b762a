#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>

#include "ops/attention_arguments.h"
#include "ops/attention_parts.h"

// Attention by chunks of queries: memory O(chunk * K), any device, nothing kept for the backward pass but the
// logsumexp. One batch element at a time, because its sparse rows are then one contiguous piece of the list.
namespace camber::ops {
namespace {

// Devices other than the CPU are not asked, since the answer would have to be waited for.
bool needs_care(const AttentionArguments& a) {
  return !a.q.is_cpu() || holds_non_finite(a);
}

// What stays the same over the chunks of one call.
struct Stream {
  const AttentionArguments& a;
  at::ScalarType type = a.compute_type();
  bool careful = needs_care(a);
  std::vector<std::int64_t> row_offsets =
      a.row_offsets.defined() ? host_offsets(a.row_offsets) : std::vector<std::int64_t>{};
  std::vector<std::int64_t> segment_offsets =
      a.segment_offsets.defined() ? host_offsets(a.segment_offsets) : std::vector<std::int64_t>{};

  std::int64_t chunk() const {
    const std::int64_t row_bytes = a.heads() * a.keys() * (type == at::kDouble ? 8 : 4);
    return rows_within_chunk(row_bytes, a.queries());
  }
};

at::Tensor finite_part(const at::Tensor& t) {
  return t.masked_fill(t.isfinite().logical_not(), 0);
}

// Adds a bias to scores in place.
void add_bias_to(at::Tensor& scores, const at::Tensor& bias, bool careful) {
  if (careful)
    scores = add_bias(scores, bias);
  else
    scores.add_(bias);
}

// One batch element: keys and values [H, K, D] in the compute type, without the content of removed keys.
struct Element {
  std::int64_t b;
  at::Tensor k, v, removed;

  Element(const Stream& stream, std::int64_t index) : b(index) {
    k = stream.a.k[b].to(stream.type);
    v = stream.a.v[b].to(stream.type);
    removed = removed_keys(stream.a, b);
    if (!removed.defined()) return;
    k = k.masked_fill(removed.unsqueeze(-1), 0);
    v = v.masked_fill(removed.unsqueeze(-1), 0);
  }
};

// Queries q0 .. q1 of one batch element.
struct Chunk {
  std::int64_t q0, q1;
  at::Tensor q;             // [H, c, D]
  at::Tensor window_index;  // [n]: row * K + key of the window entries of these queries
  std::int64_t first_entry = 0, last_entry = 0;

  std::int64_t rows() const { return q1 - q0; }
};

Chunk make_chunk(const Stream& stream, const Element& element, std::int64_t q0, std::int64_t q1) {
  const auto& a = stream.a;
  Chunk chunk{.q0 = q0, .q1 = q1, .q = a.q[element.b].slice(1, q0, q1).to(stream.type), .window_index = {}};
  if (stream.row_offsets.empty()) return chunk;
  const std::int64_t row = element.b * a.queries();
  chunk.first_entry = stream.row_offsets[static_cast<std::size_t>(row + q0)];
  chunk.last_entry = stream.row_offsets[static_cast<std::size_t>(row + q1)];
  const auto offsets = a.row_offsets.slice(0, row + q0, row + q1 + 1);
  const auto lengths = offsets.slice(0, 1) - offsets.slice(0, 0, -1);
  const auto local_row =
      at::arange(q1 - q0, a.row_offsets.options()).repeat_interleave(lengths, 0, chunk.last_entry - chunk.first_entry);
  chunk.window_index = local_row * a.keys() + a.key_index.slice(0, chunk.first_entry, chunk.last_entry);
  return chunk;
}

// [H, c, K]: scaled products and masks, without the bias.
at::Tensor base_scores(const Stream& stream, const Element& element, const Chunk& chunk) {
  const auto& a = stream.a;
  auto scores = at::matmul(chunk.q, element.k.transpose(-1, -2)).mul_(a.scale());
  const auto piece = [&](const at::Tensor& mask) {
    return mask[mask.size(0) == 1 ? 0 : element.b].slice(1, chunk.q0, chunk.q1);
  };
  if (a.table_value.defined()) add_bias_to(scores, table_scores(a, chunk.q0, chunk.q1), stream.careful);
  if (a.attn_mask.defined()) add_bias_to(scores, piece(a.attn_mask).to(stream.type), stream.careful);
  if (a.blocked_mask.defined()) scores.masked_fill_(piece(a.blocked_mask), -kInfinity);
  if (a.row_lengths.defined())
    scores.masked_fill_(beyond_row_lengths(a, chunk.q0, chunk.q1)[a.row_lengths.size(0) == 1 ? 0 : element.b],
                        -kInfinity);
  if (element.removed.defined()) scores.masked_fill_(element.removed, -kInfinity);
  return scores;
}

// [Hb, c, K]: the dense bias of this chunk alone; undefined without a bias.
at::Tensor bias_scores(const Stream& stream, const Element& element, const Chunk& chunk) {
  const auto& a = stream.a;
  at::Tensor bias;
  if (a.segment_value.defined()) {
    const auto value = a.segment_value[element.b].slice(1, chunk.q0, chunk.q1).to(stream.type);
    const auto offsets = a.segment_offsets.to(a.q.device());
    const auto lengths = offsets.slice(0, 1) - offsets.slice(0, 0, -1);
    bias = value.repeat_interleave(lengths, -1, a.keys());
  }
  if (!a.window_value.defined()) return bias;
  const auto value = a.window_value.slice(1, chunk.first_entry, chunk.last_entry).to(stream.type);
  const std::int64_t heads = value.size(0);
  if (!bias.defined()) bias = at::zeros({heads, chunk.rows(), a.keys()}, value.options());
  if (bias.size(0) < heads) bias = bias.expand({heads, chunk.rows(), a.keys()}).contiguous();
  // A row's keys are unique: what lies there is read, added to and written back.
  auto flat = bias.view({bias.size(0), -1});
  auto sum = flat.index_select(1, chunk.window_index);
  add_bias_to(sum, value, stream.careful);
  flat.index_copy_(1, chunk.window_index, sum);
  return bias;
}

// weights v / sum; a value without weight adds nothing, even where it is not finite.
at::Tensor weighted_values(const Stream& stream, const Element& element, const at::Tensor& weights,
                           const at::Tensor& sum) {
  if (!stream.careful) return at::matmul(weights, element.v).div_(sum);
  auto output = at::matmul(weights, finite_part(element.v)).div_(sum);
  const auto non_finite = element.v.isfinite().logical_not().to(stream.type);
  const auto seen = at::matmul(weights.ne(0).to(stream.type), non_finite).gt(0);
  return output.masked_fill_(seen, std::numeric_limits<double>::quiet_NaN());
}

void forward_chunk(const Stream& stream, const Element& element, const Chunk& chunk, const ForwardResult& result) {
  const auto& a = stream.a;
  const auto base = base_scores(stream, element, chunk);
  const auto bias = bias_scores(stream, element, chunk);
  const auto z = !bias.defined() ? base : stream.careful ? add_bias(base, bias) : base + bias;
  const auto rows = [&](const at::Tensor& tensor) { return tensor[element.b].slice(1, chunk.q0, chunk.q1); };

  const auto largest = a.keys() > 0 ? z.amax(-1, true) : at::zeros({a.heads(), chunk.rows(), 1}, z.options());
  const auto dead = a.keys() > 0 ? largest.eq(-kInfinity) : largest.eq(0);
  const auto shift = largest.masked_fill(dead, 0);
  auto weights = (z - shift).exp_();
  const auto sum = weights.sum(-1, true).masked_fill_(dead, 1);
  const auto logsumexp = (sum.log() + shift).masked_fill_(dead, -kInfinity).squeeze(-1);
  rows(result.logsumexp).copy_(logsumexp);
  if (a.dropout > 0) weights.mul_(dropout_factors(a, element.b, chunk.q0, chunk.q1));
  rows(result.output).copy_(weighted_values(stream, element, weights, sum));

  if (!a.statistics) return;
  const auto gone = bias.defined() ? bias.eq(-kInfinity) : at::zeros({1}, z.options()).to(at::kBool);
  const auto finite_bias = bias.defined() ? bias.masked_fill(gone, 0) : at::zeros({1}, z.options());
  row_statistics(a, z, base.masked_fill(gone, -kInfinity), finite_bias, logsumexp,
                 result.row_statistics.select(1, element.b).slice(2, chunk.q0, chunk.q1),
                 result.segment_mass.dim() > 1 ? rows(result.segment_mass) : result.segment_mass);
}

// d(score) of the chunk, [H, c, K], and what the value gradient is made of.
struct ScoreGradient {
  at::Tensor scores, weights;
};

ScoreGradient score_gradient(const Stream& stream, const Element& element, const Chunk& chunk,
                             const at::Tensor& logsumexp, const at::Tensor& grad_output, const at::Tensor& delta) {
  const auto& a = stream.a;
  auto z = base_scores(stream, element, chunk);
  if (const auto bias = bias_scores(stream, element, chunk); bias.defined()) add_bias_to(z, bias, stream.careful);
  const auto dead = logsumexp.eq(-kInfinity);
  auto p = z.sub_(logsumexp.masked_fill(dead, 0).unsqueeze(-1)).exp_();
  auto grad_weights = at::matmul(grad_output, element.v.transpose(-1, -2));
  auto weights = p;
  if (a.dropout > 0) {
    const auto factors = dropout_factors(a, element.b, chunk.q0, chunk.q1);
    grad_weights.mul_(factors);
    weights = p * factors;
  }
  // A weight of exactly zero has no gradient, whatever infinity or NaN a removed key carries on the value's side.
  auto scores = grad_weights.sub_(delta.unsqueeze(-1)).mul_(p).masked_fill_(p.eq(0), 0);
  return {scores, weights};
}

at::Tensor sum_heads_to(const at::Tensor& tensor, std::int64_t heads) {
  return heads == 1 && tensor.size(0) != 1 ? tensor.sum(0, true) : tensor;
}

void backward_chunk(const Stream& stream, const Element& element, const Chunk& chunk, const ScoreGradient& gradient,
                    const at::Tensor& grad_output, const Needs& needs, std::array<at::Tensor, kGradients>& gradients) {
  const auto& a = stream.a;
  const auto& ds = gradient.scores;
  const std::int64_t b = element.b;
  // A row that gives such a key or query a weight has NaN in ds already.
  const auto part = [&](const at::Tensor& t) { return stream.careful ? finite_part(t) : t; };
  if (needs[kQuery])
    gradients[kQuery][b].slice(1, chunk.q0, chunk.q1).copy_(at::matmul(ds, part(element.k)).mul_(a.scale()));
  if (needs[kKey]) gradients[kKey][b].add_(at::matmul(ds.transpose(-1, -2), part(chunk.q)).mul_(a.scale()));
  if (needs[kValue]) gradients[kValue][b].add_(at::matmul(gradient.weights.transpose(-1, -2), grad_output));
  if (needs[kWindowValue]) {
    const auto entries = ds.reshape({a.heads(), -1}).index_select(1, chunk.window_index);
    gradients[kWindowValue]
        .slice(1, chunk.first_entry, chunk.last_entry)
        .copy_(sum_heads_to(entries, a.window_value.size(0)));
  }
  if (needs[kSegmentValue]) {
    const auto shared = sum_heads_to(ds, a.segment_value.size(1));
    auto target = gradients[kSegmentValue][b].slice(1, chunk.q0, chunk.q1);
    for (std::int64_t s = 0; s < a.segments(); ++s)
      target.select(-1, s).copy_(shared
                                     .slice(-1, stream.segment_offsets[static_cast<std::size_t>(s)],
                                            stream.segment_offsets[static_cast<std::size_t>(s) + 1])
                                     .sum(-1));
  }
  if (needs[kTableValue])
    gradients[kTableValue].index_add_(1, table_entries(a, chunk.q0, chunk.q1).flatten(),
                                      sum_heads_to(ds, a.table_value.size(0)).flatten(1));
  if (needs[kAttnMask]) {
    const auto& mask = a.attn_mask;
    gradients[kAttnMask][mask.size(0) == 1 ? 0 : b].slice(1, chunk.q0, chunk.q1).add_(sum_heads_to(ds, mask.size(1)));
  }
}

}  // namespace

ForwardResult streamed_forward(const AttentionArguments& a) {
  const Stream stream{a};
  ForwardResult result = empty_results(a);
  for (std::int64_t b = 0; b < a.batch(); ++b) {
    const Element element(stream, b);
    for (std::int64_t q0 = 0; q0 < a.queries(); q0 += stream.chunk()) {
      const Chunk chunk = make_chunk(stream, element, q0, std::min(a.queries(), q0 + stream.chunk()));
      forward_chunk(stream, element, chunk, result);
    }
  }
  return result;
}

std::array<at::Tensor, kGradients> streamed_backward(const AttentionArguments& a, const at::Tensor& output,
                                                     const at::Tensor& logsumexp, const at::Tensor& grad_output,
                                                     const at::Tensor& grad_logsumexp, const Needs& needs) {
  const Stream stream{a};
  // Keys, values and a shared mask gather over chunks, so they are kept in the compute type until the end.
  auto gradients = empty_gradients(a, needs, stream.type);
  for (auto& gradient : gradients) gradient.zero_();
  for (std::int64_t b = 0; b < a.batch(); ++b) {
    const Element element(stream, b);
    for (std::int64_t q0 = 0; q0 < a.queries(); q0 += stream.chunk()) {
      const Chunk chunk = make_chunk(stream, element, q0, std::min(a.queries(), q0 + stream.chunk()));
      const auto rows = [&](const at::Tensor& t) { return t[b].slice(1, chunk.q0, chunk.q1).to(stream.type); };
      const auto row_lse = rows(logsumexp);
      // What flows back into a row without keys ends here, NaN included.
      const auto grad_rows = rows(grad_output).masked_fill(row_lse.eq(-kInfinity).unsqueeze(-1), 0);
      // d z = p * (dp - delta), with delta = sum_d dO * O less the gradient of logsumexp, whose derivative is p.
      auto delta = (grad_rows * rows(output)).sum(-1);
      if (grad_logsumexp.defined()) delta = delta - rows(grad_logsumexp);
      const auto gradient = score_gradient(stream, element, chunk, row_lse, grad_rows, delta);
      backward_chunk(stream, element, chunk, gradient, grad_rows, needs, gradients);
    }
  }
  const auto inputs = a.differentiable();
  for (std::size_t i = 0; i < kGradients; ++i)
    if (needs[i]) gradients[i] = gradients[i].to(inputs[i]->scalar_type());
  return gradients;
}

}  // namespace camber::ops
