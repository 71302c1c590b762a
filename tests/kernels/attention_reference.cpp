#include "kernels/attention_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "camber/random/philox.h"

namespace camber::kernels::test {
namespace {

constexpr double kNoScore = -std::numeric_limits<double>::infinity();

// One row's scores, with and without the finite bias, and what decides them.
struct Row {
  std::vector<double> z, plain, keep;
  std::vector<std::int64_t> window_entry;  // of each key, or -1
  std::vector<std::int64_t> segment;       // of each key, or 0
};

struct Loops {
  const CaseData& data;
  const AttentionProblem& p = data.problem;
  Reference result{};

  std::size_t at(const Strides& s, std::int64_t b, std::int64_t h, std::int64_t row) const {
    return static_cast<std::size_t>(b * s.batch + h * s.head + row * s.row);
  }
  std::int64_t segment_row(std::int64_t b, std::int64_t h, std::int64_t i) const {
    return ((b * p.segments.heads + (p.segments.heads == 1 ? 0 : h)) * p.queries + i) * p.segments.count;
  }
  std::int64_t window_base(std::int64_t h) const { return (p.windows.heads == 1 ? 0 : h) * p.windows.entries; }

  std::size_t table_entry(std::int64_t h, std::int64_t i, std::int64_t j) const {
    const TableBias& t = p.table;
    const std::int64_t index = t.index != nullptr ? t.index[i * p.keys + j] : t.key_code[j] - t.query_code[i];
    return static_cast<std::size_t>((t.heads == 1 ? 0 : h) * t.size + index);
  }

  bool removed(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j, std::int64_t segment) const {
    if (p.key_lengths != nullptr && j >= p.key_lengths[b]) return true;
    if (p.row_lengths.data != nullptr && j >= p.row_lengths.data[b * p.row_lengths.batch_stride + i]) return true;
    if (p.key_padding != nullptr && p.key_padding[b * p.keys + j]) return true;
    if (p.blocked.data != nullptr && p.blocked.data[at(p.blocked.strides, b, h, i) + static_cast<std::size_t>(j)])
      return true;
    return p.segments.available != nullptr && !p.segments.available[b * p.segments.count + segment];
  }

  Row row(std::int64_t b, std::int64_t h, std::int64_t i) const {
    const auto keys = static_cast<std::size_t>(p.keys);
    Row r{std::vector<double>(keys), std::vector<double>(keys), std::vector<double>(keys, 1.0),
          std::vector<std::int64_t>(keys, -1), std::vector<std::int64_t>(keys, 0)};
    if (p.windows.row_offsets != nullptr)
      for (std::int64_t e = p.windows.row_offsets[b * p.queries + i]; e < p.windows.row_offsets[b * p.queries + i + 1];
           ++e)
        r.window_entry[static_cast<std::size_t>(p.windows.key_index[e])] = e;
    for (std::int64_t s = 0; p.segments.offsets != nullptr && s < p.segments.count; ++s)
      for (std::int64_t j = p.segments.offsets[s]; j < p.segments.offsets[s + 1]; ++j)
        r.segment[static_cast<std::size_t>(j)] = s;
    for (std::int64_t j = 0; j < p.keys; ++j) {
      const auto k = static_cast<std::size_t>(j);
      double product = 0;
      for (std::int64_t d = 0; d < p.key_width; ++d)
        product += static_cast<double>(data.q[at(p.q.strides, b, h, i) + static_cast<std::size_t>(d)]) *
                   data.k[at(p.k.strides, b, h, j) + static_cast<std::size_t>(d)];
      double score = static_cast<double>(p.softmax_scale) * product, bias = 0;
      if (p.mask.data != nullptr) score += p.mask.data[at(p.mask.strides, b, h, i) + k];
      if (p.table.value != nullptr) score += p.table.value[table_entry(h, i, j)];
      if (r.window_entry[k] >= 0) bias += p.windows.value[window_base(h) + r.window_entry[k]];
      if (p.segments.value != nullptr) bias += p.segments.value[segment_row(b, h, i) + r.segment[k]];
      if (removed(b, h, i, j, r.segment[k])) score = kNoScore;
      r.z[k] = score + bias;
      r.plain[k] = bias == kNoScore ? kNoScore : score;
      if (p.dropout.probability > 0) {
        const std::uint32_t word =
            random::attention_dropout_word(p.dropout.seed, static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(h),
                                           static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(j));
        r.keep[k] = word >= random::dropout_threshold(p.dropout.probability) ? 1 / (1 - p.dropout.probability) : 0;
      }
    }
    return r;
  }

  static double log_sum_exp(const std::vector<double>& z) {
    double largest = kNoScore, sum = 0;
    for (const double x : z) largest = std::max(largest, x);
    if (largest == kNoScore) return kNoScore;
    for (const double x : z) sum += std::exp(x - largest);
    return largest + std::log(sum);
  }

  // Weights; zeros where no key is left.
  static std::vector<double> softmax(const std::vector<double>& z, double lse) {
    std::vector<double> w(z.size(), 0.0);
    for (std::size_t j = 0; j < z.size() && lse != kNoScore; ++j) w[j] = std::exp(z[j] - lse);
    return w;
  }

  void statistics(const Row& r, const std::vector<double>& w, double lse, std::size_t index) {
    const double plain_lse = log_sum_exp(r.plain);
    const std::vector<double> plain = softmax(r.plain, plain_lse);
    for (std::size_t j = 0; j < w.size(); ++j) {
      result.keys_left[index] += r.z[j] > kNoScore;
      if (r.z[j] > kNoScore) result.largest_score = std::max(result.largest_score, std::abs(r.z[j]));
      if (w[j] > 0) result.entropy[index] -= w[j] * (r.z[j] - lse);
      result.largest_weight[index] = std::max(result.largest_weight[index], w[j]);
      result.sum_of_squares[index] += w[j] * w[j];
      if (p.segments.offsets != nullptr)
        result.segment_mass[index * static_cast<std::size_t>(p.segments.count) +
                            static_cast<std::size_t>(r.segment[j])] += w[j];
      result.change[index] += 0.5 * std::abs(w[j] - plain[j]);
      if (w[j] > 0) result.divergence[index] += w[j] * ((r.z[j] - lse) - (r.plain[j] - plain_lse));
    }
  }

  void gradients(const Row& r, const std::vector<double>& w, std::int64_t b, std::int64_t h, std::int64_t i) {
    const auto index = static_cast<std::size_t>((b * p.heads + h) * p.queries + i);
    const float* go = data.grad_output.data() + index * static_cast<std::size_t>(p.value_width);
    std::vector<double> dw(w.size());
    double delta = 0;
    for (std::size_t j = 0; j < w.size(); ++j) {
      const float* v = data.v.data() + at(p.v.strides, b, h, static_cast<std::int64_t>(j));
      for (std::int64_t d = 0; d < p.value_width; ++d) dw[j] += static_cast<double>(go[d]) * v[d] * r.keep[j];
      delta += w[j] * dw[j];
    }
    const auto width = static_cast<std::size_t>(p.key_width), value_width = static_cast<std::size_t>(p.value_width);
    const double scale = p.softmax_scale;
    for (std::size_t j = 0; j < w.size(); ++j) {
      const double dz = w[j] * (dw[j] - delta + data.grad_logsumexp[index]);
      const std::size_t key_row = static_cast<std::size_t>((b * p.heads + h) * p.keys) + j;
      const float* k = data.k.data() + at(p.k.strides, b, h, static_cast<std::int64_t>(j));
      const float* q = data.q.data() + at(p.q.strides, b, h, i);
      for (std::size_t d = 0; d < width; ++d) {
        result.grad_q[index * width + d] += scale * dz * k[d];
        result.grad_k[key_row * width + d] += scale * dz * q[d];
      }
      for (std::size_t d = 0; d < value_width; ++d)
        result.grad_v[key_row * value_width + d] += w[j] * r.keep[j] * go[d];
      if (r.window_entry[j] >= 0)
        result.grad_window[static_cast<std::size_t>(window_base(h) + r.window_entry[j])] += dz;
      if (p.segments.value != nullptr)
        result.grad_segment[static_cast<std::size_t>(segment_row(b, h, i) + r.segment[j])] += dz;
      if (p.table.value != nullptr) result.grad_table[table_entry(h, i, static_cast<std::int64_t>(j))] += dz;
      if (p.mask.data != nullptr) result.grad_mask[at(p.mask.strides, b, h, i) + j] += dz;
    }
  }

  void run() {
    const auto rows = static_cast<std::size_t>(data.rows()), width = static_cast<std::size_t>(p.value_width);
    result.output.resize(rows * width);
    for (auto* values : {&result.logsumexp, &result.entropy, &result.largest_weight, &result.sum_of_squares,
                         &result.change, &result.divergence})
      values->resize(rows);
    result.keys_left.resize(rows);
    result.segment_mass.resize(rows * static_cast<std::size_t>(p.segments.count));
    result.grad_q.resize(rows * static_cast<std::size_t>(p.key_width));
    result.grad_k.resize(static_cast<std::size_t>(p.batches * p.heads * p.keys * p.key_width));
    result.grad_v.resize(static_cast<std::size_t>(p.batches * p.heads * p.keys * p.value_width));
    result.grad_window.resize(data.window_value.size());
    result.grad_segment.resize(data.segment_value.size());
    result.grad_mask.resize(data.mask.size());
    result.grad_table.resize(data.table_value.size());
    for (std::int64_t b = 0; b < p.batches; ++b)
      for (std::int64_t h = 0; h < p.heads; ++h)
        for (std::int64_t i = 0; i < p.queries; ++i) {
          const auto index = static_cast<std::size_t>((b * p.heads + h) * p.queries + i);
          const Row r = row(b, h, i);
          const double lse = log_sum_exp(r.z);
          const std::vector<double> w = softmax(r.z, lse);
          result.logsumexp[index] = lse;
          for (std::size_t j = 0; j < w.size(); ++j)
            for (std::size_t d = 0; d < width; ++d)
              result.output[index * width + d] +=
                  w[j] * r.keep[j] * data.v[at(p.v.strides, b, h, static_cast<std::int64_t>(j)) + d];
          statistics(r, w, lse, index);
          gradients(r, w, b, h, i);
        }
  }
};

}  // namespace

Reference reference(const CaseData& data) {
  Loops loops{data};
  loops.run();
  return loops.result;
}

}  // namespace camber::kernels::test
