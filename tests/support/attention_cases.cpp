#include "support/attention_cases.h"

#include <algorithm>
#include <limits>

#include "camber/random/stream.h"

namespace camber::proof {
namespace {

at::Tensor normal(random::Stream stream, at::IntArrayRef shape, double deviation) {
  auto tensor = at::empty(shape, at::kDouble);
  auto* data = tensor.data_ptr<double>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i) data[i] = stream.normal(0, deviation);
  return tensor;
}

at::Tensor chance(random::Stream stream, at::IntArrayRef shape, double probability) {
  auto tensor = at::empty(shape, at::kBool);
  auto* data = tensor.data_ptr<bool>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i) data[i] = stream.chance(probability);
  return tensor;
}

at::Tensor sprinkle(const random::Stream& stream, const at::Tensor& value) {
  return value.masked_fill(chance(stream, value.sizes(), 0.1), -kInfinity);
}

ops::Windows make_windows(const AttentionCase& c, const random::Stream& stream) {
  std::vector<std::int64_t> offsets = {0};
  std::vector<std::int32_t> keys;
  for (std::int64_t row = 0; row < c.batch * c.queries; ++row) {
    auto draw = stream.at(static_cast<std::uint64_t>(row));
    const auto most = static_cast<std::uint64_t>(std::min(c.window_entries, c.keys));
    auto order = draw.permutation(c.keys);
    order.resize(draw.integer(most + 1));
    std::sort(order.begin(), order.end());
    for (const auto key : order) keys.push_back(static_cast<std::int32_t>(key));
    offsets.push_back(static_cast<std::int64_t>(keys.size()));
  }
  const std::int64_t heads = c.windows_per_head ? c.heads : 1;
  auto value = normal(stream.at("value"), {heads, static_cast<std::int64_t>(keys.size())}, c.bias_magnitude);
  if (c.infinities) value = sprinkle(stream.at("gone"), value);
  return {at::tensor(offsets, at::kLong), at::tensor(keys, at::kInt), value};
}

ops::Segments make_segments(const AttentionCase& c, const random::Stream& stream) {
  std::vector<std::int64_t> offsets = {0};
  for (std::int64_t s = 1; s < c.segments; ++s) offsets.push_back(c.keys * s / c.segments);
  offsets.push_back(c.keys);
  if (c.segments >= 3) offsets[2] = offsets[1];
  ops::Segments segments{.offsets = at::tensor(offsets, at::kLong)};
  if (c.segment_values) {
    auto value = normal(stream, {c.batch, c.segments_per_head ? c.heads : 1, c.queries, c.segments}, c.bias_magnitude);
    if (c.infinities) value = sprinkle(stream.at("gone"), value);
    segments.value = value;
  }
  return segments;
}

ops::Table make_table(const AttentionCase& c, const random::Stream& stream) {
  const std::int64_t heads = c.table_per_head ? c.heads : 1;
  auto bias = ops::StructuredBias::from_offsets(
      normal(stream, {heads, 5, 7}, c.bias_magnitude),
      at::stack({at::arange(c.queries).floor_divide(4), at::arange(c.queries).remainder(4)}, 1),
      at::stack({at::arange(c.keys).floor_divide(5), at::arange(c.keys).remainder(5)}, 1));
  if (c.table_by_index) {
    auto draw = stream.at("index");
    auto index = at::empty({c.queries, c.keys}, at::kLong);
    for (std::int64_t i = 0; i < index.numel(); ++i)
      index.data_ptr<std::int64_t>()[i] = static_cast<std::int64_t>(draw.integer(11));
    bias = ops::StructuredBias::from_table(normal(stream, {heads, 11}, c.bias_magnitude), index);
  }
  if (c.infinities) bias.table->value = sprinkle(stream.at("gone"), bias.table->value);
  return *bias.table;
}

ops::AttentionMasks make_masks(const AttentionCase& c, const random::Stream& stream) {
  ops::AttentionMasks masks;
  const std::int64_t mask_batch = c.attn_mask_shared ? 1 : c.batch, mask_heads = c.attn_mask_shared ? 1 : c.heads;
  if (c.attn_mask) {
    auto mask = normal(stream.at("mask"), {mask_batch, mask_heads, c.queries, c.keys}, c.bias_magnitude);
    masks.attn_mask = c.infinities ? sprinkle(stream.at("mask gone"), mask) : mask;
  }
  if (c.blocked_mask) {
    auto blocked = chance(stream.at("blocked"), {c.batch, 1, c.queries, c.keys}, 0.3);
    if (c.dead_rows) blocked.select(2, c.queries / 2).fill_(true);
    masks.blocked_mask = blocked;
  }
  if (c.key_padding) masks.key_padding_mask = chance(stream.at("padding"), {c.batch, c.keys}, 0.25);
  if (c.key_lengths) {
    std::vector<std::int64_t> lengths;
    lengths.reserve(static_cast<std::size_t>(c.batch));
    for (std::int64_t b = 0; b < c.batch; ++b) lengths.push_back(std::max<std::int64_t>(0, c.keys - 3 * b - 1));
    masks.key_lengths = at::tensor(lengths, at::kLong);
  }
  if (c.row_lengths) {
    masks.row_lengths = at::empty({c.batch, c.queries}, at::kLong);
    auto draw = stream.at("row lengths");
    for (std::int64_t i = 0; i < c.batch * c.queries; ++i)
      masks.row_lengths->data_ptr<std::int64_t>()[i] =
          static_cast<std::int64_t>(draw.integer(static_cast<std::uint64_t>(c.keys + 1)));
  }
  if (c.absent_segment) {
    auto available = at::ones({c.batch, c.segments}, at::kBool);
    for (std::int64_t b = 0; b < c.batch; ++b) available[b][b % c.segments] = false;
    masks.segment_available = available;
  }
  return masks;
}

}  // namespace

AttentionTestInputs make_inputs(const AttentionCase& c) {
  const random::Stream stream(17, c.name);
  const auto rows = [&](const char* name, std::int64_t count, std::int64_t width, double deviation) {
    if (!c.transposed_inputs) return normal(stream.at(name), {c.batch, c.heads, count, width}, deviation);
    return normal(stream.at(name), {c.batch, count, c.heads, width}, deviation).transpose(1, 2);
  };
  AttentionTestInputs inputs{.q = rows("q", c.queries, c.width, c.magnitude),
                             .k = rows("k", c.keys, c.width, c.magnitude),
                             .v = rows("v", c.keys, c.value_width, 1.0),
                             .bias = {},
                             .options = {}};
  if (c.window_entries > 0) inputs.bias.windows = make_windows(c, stream.at("windows"));
  if (c.segments > 0) inputs.bias.segments = make_segments(c, stream.at("segments"));
  if (c.table_of_offsets || c.table_by_index) inputs.bias.table = make_table(c, stream.at("table"));
  inputs.options.masks = make_masks(c, stream.at("masks"));
  inputs.options.dropout = c.dropout;
  inputs.options.dropout_seed = 123456789012345;
  return inputs;
}

std::vector<std::pair<std::string, at::Tensor>> AttentionTestInputs::differentiable() const {
  std::vector<std::pair<std::string, at::Tensor>> result = {{"q", q}, {"k", k}, {"v", v}};
  if (bias.windows) result.emplace_back("window_value", bias.windows->value);
  if (bias.segments && bias.segments->value) result.emplace_back("segment_value", *bias.segments->value);
  if (bias.table) result.emplace_back("table_value", bias.table->value);
  if (options.masks.attn_mask) result.emplace_back("attn_mask", *options.masks.attn_mask);
  return result;
}

AttentionTestInputs AttentionTestInputs::to(at::ScalarType type) const {
  AttentionTestInputs result = *this;
  // Bias and masks never drop below float.
  const auto bias_type = type == at::kDouble ? at::kDouble : at::kFloat;
  for (at::Tensor* tensor : {&result.q, &result.k, &result.v}) *tensor = tensor->to(type);
  if (result.bias.windows) result.bias.windows->value = result.bias.windows->value.to(bias_type);
  if (result.bias.segments && result.bias.segments->value) {
    result.bias.segments->value = result.bias.segments->value->to(bias_type);
  }
  if (result.bias.table) result.bias.table->value = result.bias.table->value.to(bias_type);
  if (result.options.masks.attn_mask) result.options.masks.attn_mask = result.options.masks.attn_mask->to(bias_type);
  return result;
}

AttentionTestInputs AttentionTestInputs::with_gradients() const {
  AttentionTestInputs result = *this;
  const auto leaf = [](const at::Tensor& tensor) {
    return tensor.detach().clone(at::MemoryFormat::Contiguous).requires_grad_(true);
  };
  for (at::Tensor* tensor : {&result.q, &result.k, &result.v}) *tensor = leaf(*tensor);
  if (result.bias.windows) result.bias.windows->value = leaf(result.bias.windows->value);
  if (result.bias.segments && result.bias.segments->value) {
    result.bias.segments->value = leaf(*result.bias.segments->value);
  }
  if (result.bias.table) result.bias.table->value = leaf(result.bias.table->value);
  if (result.options.masks.attn_mask) result.options.masks.attn_mask = leaf(*result.options.masks.attn_mask);
  return result;
}

double largest_score(const AttentionTestInputs& in) {
  auto z = at::matmul(in.q, in.k.transpose(-1, -2)) / std::sqrt(static_cast<double>(in.q.size(3)));
  z = z + in.bias.materialize(in.q.size(0), in.q.size(2), in.k.size(2), in.q);
  if (in.options.masks.attn_mask) z = z + *in.options.masks.attn_mask;
  if (z.numel() == 0) return 0;
  return z.masked_fill(z.eq(-kInfinity), 0).abs().max().item<double>();
}

std::vector<AttentionCase> attention_cases() {
  return {
      {.name = "one_of_everything", .heads = 1, .queries = 1, .keys = 1, .width = 1, .value_width = 1},
      {.name = "plain", .batch = 2},
      {.name = "value_width_differs", .width = 16, .value_width = 24},
      {.name = "queries_equal_keys", .queries = 9, .keys = 9, .window_entries = 3},
      {.name = "windows_shared", .batch = 2, .heads = 3, .queries = 13, .keys = 31, .window_entries = 6},
      {.name = "windows_per_head",
       .batch = 2,
       .heads = 3,
       .queries = 13,
       .keys = 33,
       .window_entries = 6,
       .windows_per_head = true},
      {.name = "windows_cover_all_keys", .queries = 6, .keys = 10, .window_entries = 10},
      {.name = "segments_shared", .batch = 2, .keys = 40, .segments = 4},
      {.name = "segments_per_head", .batch = 2, .keys = 40, .segments = 3, .segments_per_head = true},
      {.name = "segments_without_values",
       .batch = 2,
       .keys = 20,
       .segments = 3,
       .segment_values = false,
       .absent_segment = true},
      {.name = "windows_and_segments",
       .batch = 2,
       .heads = 4,
       .queries = 17,
       .keys = 65,
       .window_entries = 9,
       .segments = 3,
       .segments_per_head = true},
      {.name = "windows_per_head_segments_shared",
       .heads = 4,
       .queries = 17,
       .keys = 65,
       .window_entries = 9,
       .windows_per_head = true,
       .segments = 2},
      {.name = "float_mask", .batch = 2, .heads = 3, .attn_mask = true},
      {.name = "float_mask_shared", .batch = 2, .heads = 3, .attn_mask = true, .attn_mask_shared = true},
      {.name = "every_mask_with_the_bias",
       .batch = 3,
       .heads = 2,
       .queries = 11,
       .keys = 37,
       .window_entries = 8,
       .segments = 4,
       .absent_segment = true,
       .attn_mask = true,
       .blocked_mask = true,
       .key_padding = true,
       .key_lengths = true},
      {.name = "row_lengths", .batch = 2, .heads = 3, .queries = 29, .keys = 300, .row_lengths = true},
      {.name = "row_lengths_with_the_bias",
       .batch = 2,
       .queries = 17,
       .keys = 65,
       .window_entries = 9,
       .segments = 3,
       .attn_mask = true,
       .key_padding = true,
       .row_lengths = true},
      {.name = "table_of_offsets", .batch = 2, .heads = 3, .queries = 20, .keys = 33, .table_of_offsets = true},
      {.name = "table_by_index",
       .batch = 2,
       .heads = 3,
       .queries = 20,
       .keys = 33,
       .table_by_index = true,
       .table_per_head = false},
      {.name = "table_windows_segments_and_masks",
       .batch = 2,
       .queries = 13,
       .keys = 70,
       .window_entries = 8,
       .segments = 3,
       .table_of_offsets = true,
       .attn_mask = true,
       .key_padding = true,
       .row_lengths = true,
       .infinities = true},
      {.name = "few_queries", .batch = 2, .heads = 3, .queries = 3, .keys = 300, .window_entries = 9, .segments = 3},
      {.name = "infinities_and_dead_rows",
       .batch = 2,
       .heads = 2,
       .queries = 8,
       .keys = 21,
       .window_entries = 7,
       .segments = 3,
       .attn_mask = true,
       .blocked_mask = true,
       .infinities = true,
       .dead_rows = true},
      {.name = "windows_of_minus_infinity",
       .batch = 2,
       .queries = 40,
       .keys = 12,
       .window_entries = 12,
       .segments = 3,
       .absent_segment = true,
       .infinities = true,
       .bias_magnitude = 4},
      {.name = "large_scores", .queries = 6, .keys = 50, .window_entries = 5, .magnitude = 30, .bias_magnitude = 10},
      {.name = "scores_of_ten_thousand", .queries = 4, .keys = 40, .width = 32, .magnitude = 45},
      {.name = "transposed_inputs",
       .batch = 2,
       .heads = 4,
       .queries = 7,
       .keys = 19,
       .window_entries = 4,
       .transposed_inputs = true},
      {.name = "dropout",
       .batch = 2,
       .heads = 3,
       .queries = 6,
       .keys = 27,
       .window_entries = 4,
       .segments = 2,
       .attn_mask = true,
       .dropout = 0.3},
      {.name = "tile_edges",
       .heads = 2,
       .queries = 61,
       .keys = 257,
       .width = 32,
       .value_width = 32,
       .window_entries = 20,
       .segments = 3},
      {.name = "tile_edges_less_one",
       .heads = 1,
       .queries = 59,
       .keys = 255,
       .width = 32,
       .value_width = 32,
       .window_entries = 20,
       .segments = 3,
       .key_lengths = true},
      {.name = "several_tiles",
       .batch = 1,
       .heads = 2,
       .queries = 131,
       .keys = 1027,
       .width = 64,
       .value_width = 48,
       .window_entries = 40,
       .segments = 5,
       .absent_segment = true},
      {.name = "odd_width", .heads = 2, .queries = 14, .keys = 70, .width = 19, .value_width = 37, .window_entries = 5},
      {.name = "no_queries", .queries = 0, .keys = 5},
      {.name = "no_keys", .queries = 4, .keys = 0},
      {.name = "no_batch", .batch = 0, .queries = 4, .keys = 6},
  };
}

std::vector<AttentionCase> correctable_cases() {
  auto cases = attention_cases();
  std::erase_if(cases, [](const AttentionCase& c) { return !c.correctable(); });
  cases.push_back({.name = "strong_windows_on_every_key",
                   .batch = 2,
                   .heads = 3,
                   .queries = 33,
                   .keys = 24,
                   .window_entries = 24,
                   .windows_per_head = true,
                   .segments = 3,
                   .bias_magnitude = 10});
  cases.push_back({.name = "windows_under_masks",
                   .batch = 2,
                   .heads = 2,
                   .queries = 20,
                   .keys = 45,
                   .window_entries = 30,
                   .attn_mask = true,
                   .attn_mask_shared = true,
                   .blocked_mask = true,
                   .key_padding = true,
                   .key_lengths = true,
                   .infinities = true,
                   .dead_rows = true});
  return cases;
}

}  // namespace camber::proof
