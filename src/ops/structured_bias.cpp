#include "camber/ops/structured_bias.h"

#include <utility>
#include <vector>

#include <ATen/TensorIndexing.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "ops/attention_arguments.h"

namespace camber::ops {
namespace {

std::int64_t bytes_of(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.numel() * static_cast<std::int64_t>(tensor.element_size()) : 0;
}

// Each entry's row, [nnz].
at::Tensor rows_of(const at::Tensor& row_offsets) {
  const auto lengths = row_offsets.slice(0, 1) - row_offsets.slice(0, 0, -1);
  return at::arange(lengths.size(0), row_offsets.options()).repeat_interleave(lengths);
}

const char* layout_name(DenseLayout layout) {
  switch (layout) {
    case DenseLayout::kBatchQueryKey:
      return "[B, Q, K]";
    case DenseLayout::kQueryBatchKey:
      return "[Q, B, K]";
    default:
      return "[B*H, Q, K]";
  }
}

}  // namespace

at::Tensor StructuredBias::materialize(std::int64_t batch, std::int64_t queries, std::int64_t keys,
                                       const at::Tensor& example) const {
  at::Tensor dense;
  if (windows) {
    const auto& value = windows->value;
    const auto row = rows_of(windows->row_offsets);
    const std::int64_t entries = row.size(0);  // a device's list may go on behind its last row
    const auto flat = row * keys + windows->key_index.slice(0, 0, entries);
    dense = at::zeros({value.size(0), batch * queries * keys}, value.options())
                .index_copy(1, flat, value.slice(1, 0, entries))
                .view({value.size(0), batch, queries, keys})
                .transpose(0, 1);
  }
  if (segments && segments->value) {
    const auto offsets = segments->offsets.to(segments->value->device());
    const auto lengths = offsets.slice(0, 1) - offsets.slice(0, 0, -1);
    const auto spread = segments->value->repeat_interleave(lengths, -1, keys);
    dense = dense.defined() ? add_bias(dense, spread) : spread;
  }
  if (table) {
    AttentionArguments a{.q = at::empty({0, 1, queries, 1}, table->value.options()),
                         .k = at::empty({0, 1, keys, 1}, table->value.options())};
    a.table_value = table->value;
    if (table->index) a.table_index = *table->index;
    if (table->query_code) a.query_code = *table->query_code;
    if (table->key_code) a.key_code = *table->key_code;
    const auto values = table_scores(a, 0, queries).to(table->value.scalar_type()).unsqueeze(0);
    dense = dense.defined() ? add_bias(dense, values) : values.expand({batch, -1, -1, -1});
  }
  return dense.defined() ? dense : at::zeros({batch, 1, queries, keys}, example.options());
}

std::int64_t StructuredBias::bytes() const {
  std::int64_t total = 0;
  if (windows) total += bytes_of(windows->row_offsets) + bytes_of(windows->key_index) + bytes_of(windows->value);
  if (segments) total += bytes_of(segments->offsets) + (segments->value ? bytes_of(*segments->value) : 0);
  if (table)
    total += bytes_of(table->value) + bytes_of(table->index.value_or(at::Tensor{})) +
             bytes_of(table->query_code.value_or(at::Tensor{})) + bytes_of(table->key_code.value_or(at::Tensor{}));
  return total;
}

namespace {

bool is_integer(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kLong || tensor.scalar_type() == at::kInt;
}

// What key less query can be along one dimension, from the smallest on.
struct OffsetRange {
  std::int64_t smallest = 0, count = 1;
};

// Positions [Q, n] and [K, n] as codes of one number: index = key_code - query_code counts the offsets of all
// dimensions, the last one fastest.
struct OffsetCodes {
  std::vector<OffsetRange> ranges{};
  at::Tensor query{}, key{};
};

OffsetCodes codes_of(const at::Tensor& query_position, const at::Tensor& key_position) {
  const auto q = query_position.to(at::kLong), k = key_position.to(at::kLong);
  OffsetCodes codes{.query = at::zeros({q.size(0)}, q.options()), .key = at::zeros({k.size(0)}, k.options())};
  for (std::int64_t d = 0; d < q.size(1); ++d) {
    const auto of_queries = q.select(1, d), of_keys = k.select(1, d);
    OffsetRange range;
    if (q.size(0) > 0 && k.size(0) > 0) {
      const auto last_query = of_queries.max(), first_key = of_keys.min();
      range.smallest = (first_key - last_query).item<std::int64_t>();
      range.count = (of_keys.max() - of_queries.min()).item<std::int64_t>() - range.smallest + 1;
      codes.query = codes.query * range.count + (of_queries - last_query);
      codes.key = codes.key * range.count + (of_keys - first_key);
    }
    codes.ranges.push_back(range);
  }
  codes.query = codes.query.to(at::kInt);
  codes.key = codes.key.to(at::kInt);
  return codes;
}

void check_positions(const at::Tensor& query_position, const at::Tensor& key_position, std::int64_t dimensions) {
  for (const auto& [name, tensor] :
       {std::pair{"query_position", query_position}, std::pair{"key_position", key_position}})
    TORCH_CHECK_VALUE(is_integer(tensor) && tensor.dim() == 2 && tensor.size(1) == dimensions, "[StructuredBias] ",
                      name, " must be integers [rows, ", dimensions, "], got ", describe(tensor));
}

}  // namespace

StructuredBias StructuredBias::from_table(const at::Tensor& value, const at::Tensor& index) {
  TORCH_CHECK_VALUE(value.dim() == 2 && value.is_floating_point(),
                    "[StructuredBias] value must be float [1 or H, T], got ", describe(value));
  TORCH_CHECK_VALUE(index.dim() == 2 && is_integer(index), "[StructuredBias] index must be integers [Q, K], got ",
                    describe(index));
  return {.table = Table{.value = value, .index = index.to(at::kInt)}};
}

StructuredBias StructuredBias::from_offsets(const at::Tensor& table, const at::Tensor& query_position,
                                            const at::Tensor& key_position) {
  TORCH_CHECK_VALUE(table.dim() >= 2 && table.is_floating_point(),
                    "[StructuredBias] table must be float [1 or H, 2 m + 1, ..], got ", describe(table));
  for (std::int64_t d = 1; d < table.dim(); ++d)
    TORCH_CHECK_VALUE(table.size(d) % 2 == 1, "[StructuredBias] table must have odd extents 2 m + 1, got ",
                      describe(table));
  check_positions(query_position, key_position, table.dim() - 1);
  const auto codes = codes_of(query_position, key_position);
  auto value = table;
  for (std::int64_t d = 1; d < table.dim(); ++d) {
    const OffsetRange& range = codes.ranges[static_cast<std::size_t>(d - 1)];
    const auto offsets = at::arange(range.smallest, range.smallest + range.count, codes.key.options().dtype(at::kLong));
    const std::int64_t reach = table.size(d) / 2;
    value = value.index_select(d, (offsets.clamp(-reach, reach) + reach).to(table.device()));
  }
  return {.table = Table{.value = value.flatten(1), .query_code = codes.query, .key_code = codes.key}};
}

StructuredBias StructuredBias::from_slopes(const at::Tensor& slopes, const at::Tensor& query_position,
                                           const at::Tensor& key_position) {
  TORCH_CHECK_VALUE(slopes.dim() == 1 && slopes.is_floating_point(), "[StructuredBias] slopes must be float [H], got ",
                    describe(slopes));
  const auto q = query_position.unsqueeze(-1), k = key_position.unsqueeze(-1);
  check_positions(q, k, 1);
  const auto codes = codes_of(q, k);
  const OffsetRange& range = codes.ranges.front();
  const auto distance = at::arange(range.smallest, range.smallest + range.count, slopes.options()).abs();
  return {.table = Table{.value = -slopes.unsqueeze(1) * distance, .query_code = codes.query, .key_code = codes.key}};
}

at::Tensor dense_mask(const at::Tensor& dense, DenseLayout layout, std::int64_t batch, std::int64_t heads) {
  const bool per_head = layout == DenseLayout::kBatchHeadQueryKey;
  const std::int64_t axis = layout == DenseLayout::kQueryBatchKey ? 1 : 0;
  const std::int64_t expected = per_head ? batch * heads : batch;
  TORCH_CHECK_VALUE(dense.dim() == 3 && dense.size(axis) == expected, "[StructuredBias] dense must be ",
                    layout_name(layout), " with B = ", batch, " and H = ", heads, ", got ", describe(dense));
  if (per_head) return dense.view({batch, heads, dense.size(1), dense.size(2)});
  return (axis == 1 ? dense.transpose(0, 1) : dense).unsqueeze(1);
}

StructuredBias StructuredBias::from_dense(const at::Tensor& dense, DenseLayout layout, std::int64_t batch,
                                          std::int64_t heads, const std::optional<at::Tensor>& support) {
  TORCH_CHECK_VALUE(support || !dense.requires_grad(),
                    "[StructuredBias] support must be given for a dense bias that requires a gradient: entries that "
                    "happen to be zero would never learn (or pass the bias as attn_mask)");
  const auto values = dense_mask(dense, layout, batch, heads);  // [B, Hb, Q, K]
  const auto kept = support ? dense_mask(*support, layout, batch, heads).to(at::kBool) : values.detach().ne(0);
  const auto in_any_head = kept.any(1);                      // [B, Q, K]
  const auto entries = in_any_head.flatten(0, 1).nonzero();  // [nnz, 2]
  const auto row_count = in_any_head.flatten(0, 1).sum(1);
  const auto row_offsets = at::zeros({row_count.size(0) + 1}, row_count.options());
  row_offsets.slice(0, 1).copy_(row_count.cumsum(0));
  const auto queries = values.size(2);
  const auto row = entries.select(1, 0), key = entries.select(1, 1);
  const auto b = row.floor_divide(queries), q = row.remainder(queries);
  const auto value = values.permute({1, 0, 2, 3}).index({at::indexing::Slice(), b, q, key});  // [Hb, nnz]
  return {.windows = Windows{row_offsets, key.to(at::kInt), value}};
}

}  // namespace camber::ops
