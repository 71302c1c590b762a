#include "ops/sparse_attention_reference.h"

#include <algorithm>
#include <cmath>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include "ops/attention_arguments.h"

// Rows are (batch, query) pairs; every loop over rows may be cut anywhere. A key that a bias of -inf removes adds
// nothing, whatever it holds: -inf + NaN and 0 * NaN would be NaN.
namespace camber::ops {
namespace {

// A tensor [B, H, N, D] with a last stride of 1.
template <class T>
struct RowsOf {
  T* data = nullptr;
  std::int64_t batch_stride = 0, head_stride = 0, row_stride = 0;
  std::int64_t dimension = 0;

  T* at(std::int64_t batch, std::int64_t head, std::int64_t row) const {
    return data + batch * batch_stride + head * head_stride + row * row_stride;
  }
};

struct ReferenceProblem {
  std::int64_t heads, queries, entries;
  RowsOf<const double> q, k, v;
  const std::int64_t* row_offsets;
  const std::int32_t* key_index;
  const double* bias;  // [bias_heads, entries] or nullptr
  std::int64_t bias_heads;
  double scale;
};

double dot(const double* a, const double* b, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// y += factor * x; nothing where the factor is 0.
void add_scaled(double factor, const double* x, double* y, std::int64_t n) {
  if (factor == 0) return;
  for (std::int64_t i = 0; i < n; ++i) y[i] += factor * x[i];
}

double score(const ReferenceProblem& p, std::int64_t b, std::int64_t h, std::int64_t query, std::int64_t entry) {
  const double bias = p.bias == nullptr ? 0 : p.bias[(p.bias_heads == 1 ? 0 : h) * p.entries + entry];
  if (bias == -kInfinity) return bias;
  return p.scale * dot(p.q.at(b, h, query), p.k.at(b, h, p.key_index[entry]), p.q.dimension) + bias;
}

// output = the weighted sum of values, logsumexp [B, H, Q] = ln sum exp z; 0 and -inf where no key is left.
void forward_row(const ReferenceProblem& p, std::int64_t row, const RowsOf<double>& output, double* logsumexp) {
  const std::int64_t b = row / p.queries, query = row % p.queries;
  const std::int64_t first = p.row_offsets[row], last = p.row_offsets[row + 1];
  for (std::int64_t h = 0; h < p.heads; ++h) {
    double largest = -kInfinity, sum = 0;
    for (std::int64_t e = first; e < last; ++e) largest = std::max(largest, score(p, b, h, query, e));
    const double reference = std::isinf(largest) ? 0 : largest;
    double* out = output.at(b, h, query);
    std::fill(out, out + output.dimension, 0.0);
    for (std::int64_t e = first; e < last; ++e) {
      const double weight = std::exp(score(p, b, h, query, e) - reference);
      sum += weight;
      add_scaled(weight, p.v.at(b, h, p.key_index[e]), out, output.dimension);
    }
    if (sum != 0)
      for (std::int64_t d = 0; d < output.dimension; ++d) out[d] /= sum;
    else
      std::fill(out, out + output.dimension, 0.0);
    logsumexp[(b * p.heads + h) * p.queries + query] = reference + std::log(sum);
  }
}

// weights and slopes [H, nnz] become softmax(z) and d z; grad_q the slopes' product with the keys.
void backward_row(const ReferenceProblem& p, std::int64_t row, const double* logsumexp,
                  const RowsOf<const double>& output, const RowsOf<const double>& grad_output, double* weights,
                  double* slopes, const RowsOf<double>& grad_q) {
  const std::int64_t b = row / p.queries, query = row % p.queries;
  for (std::int64_t h = 0; h < p.heads; ++h) {
    const double lse = logsumexp[(b * p.heads + h) * p.queries + query];
    const double* go = grad_output.at(b, h, query);
    const double delta = dot(go, output.at(b, h, query), output.dimension);
    double* gq = grad_q.at(b, h, query);
    std::fill(gq, gq + grad_q.dimension, 0.0);
    for (std::int64_t e = p.row_offsets[row]; e < p.row_offsets[row + 1]; ++e) {
      const std::int64_t key = p.key_index[e], at = h * p.entries + e;
      const bool empty = lse == -kInfinity;
      weights[at] = empty ? 0 : std::exp(score(p, b, h, query, e) - lse);
      slopes[at] = weights[at] == 0 ? 0 : weights[at] * (dot(go, p.v.at(b, h, key), p.v.dimension) - delta);
      add_scaled(p.scale * slopes[at], p.k.at(b, h, key), gq, grad_q.dimension);
    }
  }
}

// gradient of the keys or values of one (batch, head): sum over the entries of scale * of_entry * the query's row.
void scatter_head(const ReferenceProblem& p, std::int64_t b, std::int64_t h, const double* of_entry,
                  const RowsOf<const double>& rows, double scale, const RowsOf<double>& gradient, std::int64_t keys) {
  for (std::int64_t key = 0; key < keys; ++key)
    std::fill(gradient.at(b, h, key), gradient.at(b, h, key) + gradient.dimension, 0.0);
  for (std::int64_t query = 0; query < p.queries; ++query) {
    const std::int64_t* offsets = p.row_offsets + b * p.queries + query;
    for (std::int64_t e = offsets[0]; e < offsets[1]; ++e)
      add_scaled(scale * of_entry[h * p.entries + e], rows.at(b, h, query), gradient.at(b, h, p.key_index[e]),
                 gradient.dimension);
  }
}

RowsOf<const double> const_double_rows(const at::Tensor& t) {
  return {t.const_data_ptr<double>(), t.stride(0), t.stride(1), t.stride(2), t.size(3)};
}
RowsOf<double> double_rows(const at::Tensor& t) {
  return {t.data_ptr<double>(), t.stride(0), t.stride(1), t.stride(2), t.size(3)};
}

ReferenceProblem double_problem(const SparseInputs& in) {
  return {.heads = in.q.size(1),
          .queries = in.q.size(2),
          .entries = in.key_index.size(0),
          .q = const_double_rows(in.q),
          .k = const_double_rows(in.k),
          .v = const_double_rows(in.v),
          .row_offsets = in.row_offsets.const_data_ptr<std::int64_t>(),
          .key_index = in.key_index.const_data_ptr<std::int32_t>(),
          .bias = in.bias.defined() ? in.bias.const_data_ptr<double>() : nullptr,
          .bias_heads = in.bias.defined() ? in.bias.size(0) : 0,
          .scale = in.scale};
}

}  // namespace

void sparse_reference_forward(const SparseInputs& in, const at::Tensor& output, const at::Tensor& logsumexp) {
  const auto problem = double_problem(in);
  const auto out = double_rows(output);
  auto* lse = logsumexp.data_ptr<double>();
  at::parallel_for(0, in.rows(), 8, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) forward_row(problem, row, out, lse);
  });
}

void sparse_reference_backward(const SparseInputs& in, const at::Tensor& grad, const at::Tensor& output,
                               const at::Tensor& logsumexp, const SparseGradients& wanted) {
  const auto problem = double_problem(in);
  const std::int64_t heads = in.q.size(1), entries = in.key_index.size(0);
  const auto weights = at::empty({heads, entries}, in.q.options()),
             slopes = at::empty({heads, entries}, in.q.options());
  const auto grad_q = wanted[0].defined() ? wanted[0] : at::empty(in.q.sizes(), in.q.options());
  auto *w = weights.data_ptr<double>(), *ds = slopes.data_ptr<double>();
  at::parallel_for(0, in.rows(), 8, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      backward_row(problem, row, logsumexp.const_data_ptr<double>(), const_double_rows(output), const_double_rows(grad),
                   w, ds, double_rows(grad_q));
  });
  if (wanted[3].defined()) wanted[3].copy_(wanted[3].size(0) == heads ? slopes : slopes.sum(0, true));
  // One owner for each head of a batch: its rows in order.
  at::parallel_for(0, in.q.size(0) * heads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      if (wanted[1].defined())
        scatter_head(problem, i / heads, i % heads, ds, problem.q, in.scale, double_rows(wanted[1]), in.k.size(2));
      if (wanted[2].defined())
        scatter_head(problem, i / heads, i % heads, w, const_double_rows(grad), 1.0, double_rows(wanted[2]),
                     in.k.size(2));
    }
  });
}

}  // namespace camber::ops
