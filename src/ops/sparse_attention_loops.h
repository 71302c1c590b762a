#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

// The loops of sparse_attention on raw pointers. Rows are (batch, query) pairs; every loop over rows or keys may be cut
// anywhere, so that the result does not depend on the number of threads.
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

template <class T>
T dot(const T* a, const T* b, std::int64_t n) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

template <class T>
void add_scaled(T factor, const T* x, T* y, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) y[i] += factor * x[i];
}

template <class T>
struct Problem {
  std::int64_t heads, queries, entries;
  Rows<const T> q, k, v;
  const std::int64_t* row_offsets;
  const std::int32_t* key_index;
  const T* bias;  // [bias_heads, entries] or nullptr
  std::int64_t bias_heads;
  T scale;
};

// weights [H, nnz] become softmax(z), output the weighted sum of values.
template <class T>
void forward_row(const Problem<T>& p, std::int64_t row, T* weights, const Rows<T>& output) {
  const std::int64_t b = row / p.queries, query = row % p.queries;
  const std::int64_t first = p.row_offsets[row], last = p.row_offsets[row + 1];
  for (std::int64_t h = 0; h < p.heads; ++h) {
    T* w = weights + h * p.entries;
    const T* bias = p.bias == nullptr ? nullptr : p.bias + (p.bias_heads == 1 ? 0 : h) * p.entries;
    T largest = -std::numeric_limits<T>::infinity();
    for (std::int64_t e = first; e < last; ++e) {
      w[e] = p.scale * dot(p.q.at(b, h, query), p.k.at(b, h, p.key_index[e]), p.q.dimension) +
             (bias == nullptr ? T(0) : bias[e]);
      largest = w[e] > largest ? w[e] : largest;
    }
    T* out = output.at(b, h, query);
    std::fill(out, out + output.dimension, T(0));
    if (largest == -std::numeric_limits<T>::infinity()) {
      // No key, or none left: weights of zero. A NaN score is not below the rest and must still be seen.
      bool broken = false;
      for (std::int64_t e = first; e < last; ++e) broken = broken || std::isnan(w[e]);
      std::fill(w + first, w + last, broken ? std::numeric_limits<T>::quiet_NaN() : T(0));
      if (broken) std::fill(out, out + output.dimension, std::numeric_limits<T>::quiet_NaN());
      continue;
    }
    T sum = 0;
    for (std::int64_t e = first; e < last; ++e) sum += w[e] = std::exp(w[e] - largest);
    for (std::int64_t e = first; e < last; ++e) {
      w[e] /= sum;
      add_scaled(w[e], p.v.at(b, h, p.key_index[e]), out, output.dimension);
    }
  }
}

// score_gradient [H, nnz] becomes d z; grad_q its product with the keys.
template <class T>
void backward_row(const Problem<T>& p, std::int64_t row, const T* weights, const Rows<const T>& output,
                  const Rows<const T>& grad_output, T* score_gradient, const Rows<T>& grad_q) {
  const std::int64_t b = row / p.queries, query = row % p.queries;
  for (std::int64_t h = 0; h < p.heads; ++h) {
    const T* w = weights + h * p.entries;
    T* ds = score_gradient + h * p.entries;
    const T* go = grad_output.at(b, h, query);
    const T delta = dot(go, output.at(b, h, query), output.dimension);
    T* gq = grad_q.at(b, h, query);
    std::fill(gq, gq + grad_q.dimension, T(0));
    for (std::int64_t e = p.row_offsets[row]; e < p.row_offsets[row + 1]; ++e) {
      const std::int64_t key = p.key_index[e];
      ds[e] = w[e] == 0 ? T(0) : w[e] * (dot(go, p.v.at(b, h, key), p.v.dimension) - delta);
      add_scaled(p.scale * ds[e], p.k.at(b, h, key), gq, grad_q.dimension);
    }
  }
}

// The list by keys: entries of (b, key) stand at offsets[b * K + key], in the order of the rows.
struct Transposed {
  std::vector<std::int64_t> offsets, entry, row;

  Transposed(const std::int64_t* row_offsets, const std::int32_t* key_index, std::int64_t batch, std::int64_t queries,
             std::int64_t keys)
      : offsets(static_cast<std::size_t>(batch * keys + 1)),
        entry(static_cast<std::size_t>(row_offsets[batch * queries])),
        row(entry.size()) {
    const auto slot = [&](std::int64_t r, std::int64_t e) {
      return static_cast<std::size_t>(r / queries * keys + key_index[e]);
    };
    for (std::int64_t r = 0; r < batch * queries; ++r)
      for (std::int64_t e = row_offsets[r]; e < row_offsets[r + 1]; ++e) ++offsets[slot(r, e) + 1];
    for (std::size_t i = 1; i < offsets.size(); ++i) offsets[i] += offsets[i - 1];
    std::vector<std::int64_t> next(offsets.begin(), offsets.end() - 1);
    for (std::int64_t r = 0; r < batch * queries; ++r) {
      for (std::int64_t e = row_offsets[r]; e < row_offsets[r + 1]; ++e) {
        const auto place = static_cast<std::size_t>(next[slot(r, e)]++);
        entry[place] = e;
        row[place] = r;
      }
    }
  }
};

// Gradients of one key and its value: one owner, entries in the order of the rows.
template <class T>
void backward_key(const Problem<T>& p, const Transposed& list, std::int64_t b, std::int64_t key, std::int64_t keys,
                  const T* weights, const T* score_gradient, const Rows<const T>& grad_output, const Rows<T>& grad_k,
                  const Rows<T>& grad_v) {
  const auto slot = static_cast<std::size_t>(b * keys + key);
  for (std::int64_t h = 0; h < p.heads; ++h) {
    T* gk = grad_k.at(b, h, key);
    T* gv = grad_v.at(b, h, key);
    std::fill(gk, gk + grad_k.dimension, T(0));
    std::fill(gv, gv + grad_v.dimension, T(0));
    for (std::int64_t i = list.offsets[slot]; i < list.offsets[slot + 1]; ++i) {
      const std::int64_t e = list.entry[static_cast<std::size_t>(i)];
      const std::int64_t query = list.row[static_cast<std::size_t>(i)] % p.queries;
      add_scaled(p.scale * score_gradient[h * p.entries + e], p.q.at(b, h, query), gk, grad_k.dimension);
      add_scaled(weights[h * p.entries + e], grad_output.at(b, h, query), gv, grad_v.dimension);
    }
  }
}

}  // namespace camber::ops::sparse
