#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

// sparse_attention in double, as the definition says it: what the kernels are held against, and what numeric gradients
// need. Rows are (batch, query) pairs; every loop over rows may be cut anywhere.
namespace camber::ops::sparse {

// A tensor [B, H, N, D] with a last stride of 1.
template <class T>
struct Rows {
  T* data = nullptr;
  std::int64_t batch_stride = 0, head_stride = 0, row_stride = 0;
  std::int64_t dimension = 0;

  T* at(std::int64_t batch, std::int64_t head, std::int64_t row) const {
    return data + batch * batch_stride + head * head_stride + row * row_stride;
  }
};

struct Problem {
  std::int64_t heads, queries, entries;
  Rows<const double> q, k, v;
  const std::int64_t* row_offsets;
  const std::int32_t* key_index;
  const double* bias;  // [bias_heads, entries] or nullptr
  std::int64_t bias_heads;
  double scale;
};

inline double dot(const double* a, const double* b, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

inline void add_scaled(double factor, const double* x, double* y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] += factor * x[i];
}

inline double score(const Problem& p, std::int64_t b, std::int64_t h, std::int64_t query, std::int64_t entry) {
  const double bias = p.bias == nullptr ? 0 : p.bias[(p.bias_heads == 1 ? 0 : h) * p.entries + entry];
  return p.scale * dot(p.q.at(b, h, query), p.k.at(b, h, p.key_index[entry]), p.q.dimension) + bias;
}

// output = the weighted sum of values, logsumexp [B, H, Q] = ln sum exp z; 0 and -inf where no key is left.
inline void forward_row(const Problem& p, std::int64_t row, const Rows<double>& output, double* logsumexp) {
  const std::int64_t b = row / p.queries, query = row % p.queries;
  const std::int64_t first = p.row_offsets[row], last = p.row_offsets[row + 1];
  for (std::int64_t h = 0; h < p.heads; ++h) {
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
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
inline void backward_row(const Problem& p, std::int64_t row, const double* logsumexp, const Rows<const double>& output,
                         const Rows<const double>& grad_output, double* weights, double* slopes,
                         const Rows<double>& grad_q) {
  const std::int64_t b = row / p.queries, query = row % p.queries;
  for (std::int64_t h = 0; h < p.heads; ++h) {
    const double lse = logsumexp[(b * p.heads + h) * p.queries + query];
    const double* go = grad_output.at(b, h, query);
    const double delta = dot(go, output.at(b, h, query), output.dimension);
    double* gq = grad_q.at(b, h, query);
    std::fill(gq, gq + grad_q.dimension, 0.0);
    for (std::int64_t e = p.row_offsets[row]; e < p.row_offsets[row + 1]; ++e) {
      const std::int64_t key = p.key_index[e], at = h * p.entries + e;
      const bool empty = lse == -std::numeric_limits<double>::infinity();
      weights[at] = empty ? 0 : std::exp(score(p, b, h, query, e) - lse);
      slopes[at] = weights[at] == 0 ? 0 : weights[at] * (dot(go, p.v.at(b, h, key), p.v.dimension) - delta);
      add_scaled(p.scale * slopes[at], p.k.at(b, h, key), gq, grad_q.dimension);
    }
  }
}

// gradient of the keys or values of one (batch, head): sum over the entries of scale * of_entry * the query's row.
inline void scatter_head(const Problem& p, std::int64_t b, std::int64_t h, const double* of_entry,
                         const Rows<const double>& rows, double scale, const Rows<double>& gradient,
                         std::int64_t keys) {
  for (std::int64_t key = 0; key < keys; ++key)
    std::fill(gradient.at(b, h, key), gradient.at(b, h, key) + gradient.dimension, 0.0);
  for (std::int64_t query = 0; query < p.queries; ++query) {
    const std::int64_t* offsets = p.row_offsets + b * p.queries + query;
    for (std::int64_t e = offsets[0]; e < offsets[1]; ++e)
      add_scaled(scale * of_entry[h * p.entries + e], rows.at(b, h, query), gradient.at(b, h, p.key_index[e]),
                 gradient.dimension);
  }
}

}  // namespace camber::ops::sparse
