#include "ops/corrected_statistics.h"

#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "ops/attention_parts.h"
#include "ops/sparse_entries.h"

// A row's keys fall into those that its windows list and the others. Of the others, those of one segment differ from
// the weights of their stock call by one factor, so that a few sums a row and segment, made without any bias, give all
// statistics of the biased and the plain attention. They need every score once: by chunks of queries, in float whatever
// q is. What windows list is added entry by entry, never taken away from a sum that held it: nothing cancels.
namespace camber::ops {
namespace {

// y of a key that does not count: its exponential is 0 in float and double, and so is the product of both.
constexpr double kNothing = -1000;

// Keys of one segment, or all; `reference` is the logsumexp of the stock call that they belong to.
struct Piece {
  KeyRange keys;
  at::Tensor reference;  // [B, H, Q]
  at::Tensor bias;       // broadcasts to it; undefined: none
  at::Tensor mask;       // [1|B, 1|H, 1|Q, keys], or undefined
};

// Over the keys of a piece that no window lists, with y = z without the bias - reference and e = exp y: [B, H, Q] each.
enum PieceSum { kWeight, kMoment, kSquares, kLargest, kKeys, kPieceSums };  // sum e, sum e y, sum e^2, max y, count

// `value` where a bias, which may be undefined, does not remove its keys.
at::Tensor where_present(const at::Tensor& value, const at::Tensor& bias, double otherwise) {
  return bias.defined() ? value.masked_fill(bias.eq(-kInfinity), otherwise) : value;
}

std::vector<Piece> pieces_of(const StockPass& pass, const std::vector<RangeLogsumexp>& ranges) {
  const auto& a = pass.a;
  std::vector<Piece> pieces;
  const auto add = [&](const KeyRange& keys, const at::Tensor& reference) {
    pieces.push_back({keys, reference, pass.bias_of(keys), pass.mask_of(keys)});
  };
  for (const auto& [range, logsumexp] : ranges) {
    if (range.segment >= 0 || !a.segment_offsets.defined()) {
      add(range, logsumexp);
      continue;
    }
    // Segments without a bias were one call.
    const auto offsets = host_offsets(a.segment_offsets);
    for (std::int64_t s = 0; s < a.segments(); ++s) {
      const KeyRange keys{offsets[static_cast<std::size_t>(s)], offsets[static_cast<std::size_t>(s) + 1], s};
      if (keys.end > keys.first) add(keys, logsumexp);
    }
  }
  return pieces;
}

// Bool [rows, K]: the keys that windows list for the rows b * Q + q from first_row on.
at::Tensor listed_keys(const AttentionArguments& a, const SparseEntries& entries, std::int64_t first_row,
                       std::int64_t rows) {
  const std::int64_t cells = rows * a.keys();
  const auto local = entries.row - first_row;
  const auto elsewhere = local.lt(0).logical_or(local.ge(rows)).logical_or(entries.unused);
  // One cell more than there are takes the entries of other rows.
  const auto cell = (local * a.keys() + a.key_index).masked_fill(elsewhere, cells);
  return at::zeros({cells + 1}, a.q.options().dtype(at::kBool))
      .index_fill_(0, cell, true)
      .narrow(0, 0, cells)
      .view({rows, a.keys()});
}

// Queries first .. first + count of batch element b.
struct Rows {
  std::int64_t b, first, count;
  at::Tensor of(const at::Tensor& t) const { return t.select(-3, b).narrow(-1, first, count); }  // [.., B, H, Q]
  at::Tensor of_mask(const at::Tensor& mask) const {                                             // [1|B, 1|H, 1|Q, K]
    const auto element = mask[mask.size(0) == 1 ? 0 : b];
    return element.size(1) == 1 ? element : element.narrow(1, first, count);
  }
};

// `listed` [count, K] may be undefined; k [H, keys, D] in the compute type.
void sum_unlisted(const StockPass& pass, const Piece& piece, const Rows& rows, const at::Tensor& k,
                  const at::Tensor& listed, const at::Tensor& sums) {
  const std::int64_t width = piece.keys.end - piece.keys.first;
  const auto q = pass.q[rows.b].narrow(1, rows.first, rows.count).to(pass.type) * pass.a.scale();
  auto y = at::matmul(q, k.transpose(-1, -2));
  at::Tensor left_out = listed.defined() ? listed.narrow(1, piece.keys.first, width) : listed;
  if (piece.mask.defined()) {
    const auto mask = rows.of_mask(piece.mask);
    y.add_(mask);
    const auto removed = mask.eq(-kInfinity);
    left_out = left_out.defined() ? left_out.logical_or(removed) : removed;
  }
  y.sub_(rows.of(piece.reference).unsqueeze(-1));
  if (left_out.defined()) y.masked_fill_(left_out, kNothing);
  const auto put = [&](PieceSum which, const at::Tensor& value) { rows.of(sums.select(0, which)).copy_(value); };
  put(kKeys, left_out.defined() ? width - left_out.sum(-1) : at::full({1, 1}, width, y.options()));
  put(kLargest, y.amax(-1));
  auto e = y.exp();
  put(kWeight, e.sum(-1));
  put(kMoment, y.mul_(e).sum(-1));
  put(kSquares, e.square_().sum(-1));
}

// [kPieceSums, B, H, Q] for every piece.
std::vector<at::Tensor> unlisted_sums(const StockPass& pass, const std::vector<Piece>& pieces,
                                      const SparseEntries* entries) {
  const auto& a = pass.a;
  std::vector<at::Tensor> sums;
  sums.reserve(pieces.size());
  for (std::size_t i = 0; i < pieces.size(); ++i)
    sums.push_back(at::empty({kPieceSums, a.batch(), a.heads(), a.queries()}, a.q.options().dtype(pass.type)));
  const std::int64_t block = rows_within_chunk(entries != nullptr ? a.keys() : 1, a.queries());
  for (std::int64_t b = 0; b < a.batch(); ++b)
    for (std::int64_t q0 = 0; q0 < a.queries(); q0 += block) {
      const std::int64_t q1 = std::min(a.queries(), q0 + block);
      const auto listed = entries != nullptr ? listed_keys(a, *entries, b * a.queries() + q0, q1 - q0) : at::Tensor{};
      for (std::size_t i = 0; i < pieces.size(); ++i) {
        const auto& keys = pieces[i].keys;
        const auto k = pass.k[b].slice(1, keys.first, keys.end).to(pass.type);
        const std::int64_t bytes = a.heads() * (keys.end - keys.first) * (pass.type == at::kDouble ? 8 : 4);
        const std::int64_t chunk = rows_within_chunk(bytes, q1 - q0);
        for (std::int64_t first = q0; first < q1; first += chunk) {
          const std::int64_t count = std::min(chunk, q1 - first);
          sum_unlisted(pass, pieces[i], {b, first, count}, k,
                       listed.defined() ? listed.narrow(0, first - q0, count) : listed, sums[i]);
        }
      }
    }
  return sums;
}

// The rows of both attentions. A dead row's references are +inf, so that its weights are 0.
struct RowTotals {
  at::Tensor logsumexp;  // with the bias
  at::Tensor plain;      // a logsumexp without it; what -inf in windows removes still counts here
  at::Tensor plain_sum;  // of the keys that are left, relative to `plain`
};

// Sums over the entries of each row and segment (of each row, without segments), in this order.
enum EntrySum { kMass, kLogarithm, kSquare, kDistance, kBias, kFinite, kEntrySums };

struct EntryStatistics {
  at::Tensor sums;     // [kEntrySums, B, H, Q, max(1, S)]
  at::Tensor largest;  // [B, H, Q]: of ln p
};

// Of one head: adds to totals.plain_sum, then sums up.
void sum_entries_of_head(const AttentionArguments& a, const SparseEntries& entries, const at::Tensor& shift,
                         const at::Tensor& plain_shift, const RowTotals& totals, const at::Tensor& offsets,
                         std::int64_t h, const EntryStatistics& result) {
  const auto type = a.compute_type();
  const auto of_head = [h](const at::Tensor& t) { return t.select(0, t.size(0) == 1 ? 0 : h); };
  const auto of_rows = [&](const at::Tensor& t) { return t.select(1, h).reshape({-1}).index_select(0, entries.row); };
  const auto product = entry_products(entries, rows_of_head(a.q, h), rows_of_head(a.k, h), type).mul_(a.scale());
  const auto bias = of_head(a.window_value).to(type);
  const auto z = add_bias(shift.defined() ? add_bias(product, of_head(shift)) : product, bias);
  const auto plain_z = plain_shift.defined() ? add_bias(product, of_head(plain_shift)) : product;
  const auto gone = z.eq(-kInfinity);
  const auto log_p = z - of_rows(totals.logsumexp), p = log_p.exp();
  const auto plain = (plain_z - of_rows(totals.plain)).masked_fill(gone, -kInfinity).exp();
  totals.plain_sum.select(1, h).add_(sum_by_row(plain, entries.row_offsets, 0).view({a.batch(), a.queries()}));
  const auto p0 = plain / of_rows(totals.plain_sum);
  const auto data = at::stack({p, (p * log_p).masked_fill(gone, 0), p.square(), (p - p0).abs(),
                               (p * bias).masked_fill(gone, 0), gone.logical_not().to(type)},
                              1);
  result.sums.select(2, h).copy_(
      sum_by_row(data, offsets, 0).view({a.batch(), a.queries(), -1, kEntrySums}).permute({3, 0, 1, 2}));
  result.largest.select(1, h).copy_(max_by_row(log_p, entries.row_offsets).view({a.batch(), a.queries()}));
}

EntryStatistics sum_entries(const AttentionArguments& a, const SparseEntries& entries, const at::Tensor& shift,
                            const at::Tensor& removed, const RowTotals& totals) {
  const std::int64_t parts = std::max<std::int64_t>(1, a.segments());
  const auto wide = a.q.options().dtype(a.compute_type());
  const EntryStatistics result{at::empty({kEntrySums, a.batch(), a.heads(), a.queries(), parts}, wide),
                               at::empty({a.batch(), a.heads(), a.queries()}, wide)};
  AttentionArguments plain = a;
  plain.segment_value.reset();
  const auto plain_shift = a.segment_value.defined() ? shift_of_entries(plain, removed) : shift;
  const auto offsets = a.segments() > 0 ? entry_offsets_by_segment(a, entries) : entries.row_offsets;
  for (std::int64_t h = 0; h < a.heads(); ++h)
    sum_entries_of_head(a, entries, shift, plain_shift, totals, offsets, h, result);
  return result;
}

// [B, H, Q]: the logsumexp of all keys that segments leave, without their bias.
at::Tensor plain_logsumexp(const StockPass& pass, const std::vector<RangeLogsumexp>& ranges) {
  at::Tensor joint;
  for (const auto& [range, logsumexp] : ranges) {
    const auto own = where_present(logsumexp, pass.bias_of(range), -kInfinity);
    joint = joint.defined() ? at::logaddexp(joint, own) : own;
  }
  return joint;
}

// Sums over all keys of a row, [B, H, Q] each; `mass` [B, H, Q, max(1, S)].
struct RowSums {
  at::Tensor mass, logarithm, squares, distance, bias, keys, largest;

  RowSums(const at::Tensor& like, std::int64_t parts)
      : mass(at::zeros({like.size(0), like.size(1), like.size(2), parts}, like.options())) {
    for (at::Tensor* sum : {&logarithm, &squares, &distance, &bias, &keys, &largest}) *sum = at::zeros_like(like);
  }

  void add(const EntryStatistics& listed) {
    const auto of_row = listed.sums.sum(-1);
    mass.copy_(listed.sums[kMass]);
    logarithm.copy_(of_row[kLogarithm]);
    squares.copy_(of_row[kSquare]);
    distance.copy_(of_row[kDistance]);
    bias.copy_(of_row[kBias]);
    keys.copy_(of_row[kFinite]);
    largest.copy_(listed.largest.exp());
  }

  // The weights of the piece are exp(y + log_scale), without the bias exp(y) * plain_scale.
  void add(const Piece& piece, const at::Tensor& sums, const at::Tensor& log_scale, const at::Tensor& plain_scale) {
    const auto scale = log_scale.exp(), weight = scale * sums[kWeight];
    auto of_segment = mass.select(-1, std::max<std::int64_t>(0, piece.keys.segment));
    of_segment.add_(weight);
    logarithm.add_(scale * sums[kMoment] + (weight * log_scale).masked_fill_(scale.eq(0), 0));
    squares.add_(scale.square() * sums[kSquares]);
    distance.add_((scale - plain_scale).abs_().mul_(sums[kWeight]));
    keys.add_(where_present(sums[kKeys], piece.bias, 0));
    largest = at::maximum(largest, (sums[kLargest] + log_scale).exp_());
    if (piece.bias.defined()) bias.add_(where_present(of_segment * piece.bias, piece.bias, 0));
  }
};

}  // namespace

void corrected_statistics(const StockPass& pass, const std::vector<RangeLogsumexp>& ranges, const at::Tensor& shift,
                          const ForwardResult& result) {
  const auto& a = pass.a;
  result.row_statistics.zero_();
  if (a.segments() > 0) result.segment_mass.zero_();
  if (ranges.empty()) return;
  const bool windows = a.window_value.defined();
  const auto entries =
      windows ? entries_of(a.row_offsets, a.key_index, a.batch(), a.queries(), a.keys()) : SparseEntries{};
  const auto pieces = pieces_of(pass, ranges);
  const auto sums = unlisted_sums(pass, pieces, windows ? &entries : nullptr);
  const auto dead = result.logsumexp.eq(-kInfinity);
  const RowTotals totals{result.logsumexp.masked_fill(dead, kInfinity),
                         plain_logsumexp(pass, ranges).masked_fill(dead, kInfinity), at::zeros_like(result.logsumexp)};
  std::vector<at::Tensor> plain_scale;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto present = where_present(pieces[i].reference, pieces[i].bias, -kInfinity);
    plain_scale.push_back((present - totals.plain).exp_());
    totals.plain_sum.add_(plain_scale[i] * sums[i][kWeight]);
  }
  RowSums rows(result.logsumexp, std::max<std::int64_t>(1, a.segments()));
  if (windows) rows.add(sum_entries(a, entries, shift, pass.removed, totals));
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto& [keys, reference, bias, mask] = pieces[i];
    const auto log_scale = (bias.defined() ? reference + bias : reference) - totals.logsumexp;
    rows.add(pieces[i], sums[i], log_scale, plain_scale[i] / totals.plain_sum);
  }

  const auto put = [&](Statistic which, const at::Tensor& value) {
    result.row_statistics.select(0, which).copy_(value.masked_fill(dead, 0));
  };
  put(kEntropy, -rows.logarithm);
  put(kLargestWeight, rows.largest);
  put(kSumOfSquares, rows.squares);
  put(kKeysLeft, rows.keys);
  if (a.segments() > 0) result.segment_mass.copy_(rows.mass.masked_fill(dead.unsqueeze(-1), 0));
  if (!windows && !a.segment_value.defined()) return;  // nothing changes: 0, without what rounding leaves
  put(kChange, 0.5 * rows.distance);
  put(kDivergence, rows.bias + (totals.plain - totals.logsumexp) + totals.plain_sum.log());
}

}  // namespace camber::ops
