#include "kernels/attention_case.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "camber/random/stream.h"

namespace camber::kernels::test {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

Strides layout(const Case& c, std::int64_t rows, std::int64_t width) {
  if (c.interleaved) return {rows * c.heads * width, width, c.heads * width};
  return {c.heads * rows * width, rows * width, width};
}

std::vector<float> normal(random::Stream stream, std::int64_t count, double size) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(size * stream.normal());
  return values;
}

void remove_some(random::Stream stream, double share, std::vector<float>& values) {
  for (float& value : values)
    if (stream.uniform() < share) value = kMinusInfinity;
}

std::unique_ptr<bool[]> flags(random::Stream stream, std::int64_t count, double share) {
  auto result = std::make_unique<bool[]>(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) result[static_cast<std::size_t>(i)] = stream.uniform() < share;
  return result;
}

// Runs of neighbouring keys with gaps, as windows in a grid give them.
void make_windows(const Case& c, random::Stream stream, CaseData& data) {
  data.row_offsets.push_back(0);
  for (std::int64_t row = 0; row < c.batches * c.queries; ++row) {
    auto key = static_cast<std::int64_t>(stream.integer(4));
    while (key < c.keys && row % 5 != 3) {  // some rows have no entries
      const auto length = static_cast<std::int64_t>(1 + stream.integer(21));
      for (std::int64_t i = 0; i < length && key < c.keys; ++i, ++key)
        data.key_index.push_back(static_cast<std::int32_t>(key));
      key +=
          1 + static_cast<std::int64_t>(static_cast<double>(length) * (1 / c.window_share - 1) * 2 * stream.uniform());
    }
    data.row_offsets.push_back(static_cast<std::int64_t>(data.key_index.size()));
  }
  const auto entries = static_cast<std::int64_t>(data.key_index.size());
  const std::int64_t heads = c.window_heads == 1 ? 1 : c.heads;
  data.window_value = normal(stream.at("value"), heads * entries, c.bias_size);
  remove_some(stream.at("removed"), c.removed, data.window_value);
  data.problem.windows = {data.row_offsets.data(), data.key_index.data(), data.window_value.data(), heads, entries};
}

void make_segments(const Case& c, random::Stream stream, CaseData& data) {
  data.segment_offsets.push_back(0);
  for (std::int64_t s = 1; s < c.segments; ++s)  // the second one is empty
    data.segment_offsets.push_back(s == 2 ? data.segment_offsets.back() : c.keys * s / (c.segments + 1));
  data.segment_offsets.push_back(c.keys);
  data.problem.segments = {data.segment_offsets.data(), c.segments, nullptr, 1, nullptr};
  if (c.segment_heads >= 0) {
    const std::int64_t heads = c.segment_heads == 1 ? 1 : c.heads;
    data.segment_value = normal(stream, c.batches * heads * c.queries * c.segments, c.bias_size);
    remove_some(stream.at("removed"), c.removed, data.segment_value);
    data.problem.segments.value = data.segment_value.data();
    data.problem.segments.heads = heads;
  }
  if (c.absent_segment) {
    data.available = std::make_unique<bool[]>(static_cast<std::size_t>(c.batches * c.segments));
    for (std::int64_t i = 0; i < c.batches * c.segments; ++i)
      data.available[static_cast<std::size_t>(i)] = i % c.segments != i / c.segments % c.segments;
    data.problem.segments.available = data.available.get();
  }
}

// Codes of positions in a row, or on a grid seven wide, or indices without any order.
void make_table(const Case& c, random::Stream stream, CaseData& data) {
  const auto code = [&](std::int64_t i) {
    return static_cast<std::int32_t>(c.table_form == 1 ? i / 7 * 13 + i % 7 : i);
  };
  TableBias& table = data.problem.table;
  table.heads = c.table_heads == 1 ? 1 : c.heads;
  table.size = 37;
  if (c.table_form == 2) {
    for (std::int64_t i = 0; i < c.queries * c.keys; ++i)
      data.table_index.push_back(static_cast<std::int32_t>(stream.integer(37)));
    table.index = data.table_index.data();
  } else {
    table.size = code(c.keys) + code(c.queries);
    for (std::int64_t i = 0; i < c.queries; ++i) data.query_code.push_back(code(i) - code(c.queries - 1));
    for (std::int64_t j = 0; j < c.keys; ++j) data.key_code.push_back(code(j));
    table.query_code = data.query_code.data();
    table.key_code = data.key_code.data();
  }
  data.table_value = normal(stream.at("value"), table.heads * table.size, c.bias_size);
  remove_some(stream.at("removed"), c.removed, data.table_value);
  table.value = data.table_value.data();
}

void make_masks(const Case& c, random::Stream stream, CaseData& data) {
  const auto strides = [&](int one_batch, int one_head) {
    const std::int64_t plane = c.queries * c.keys, head_planes = one_head == 1 ? 1 : c.heads;
    return Strides{one_batch == 1 ? 0 : head_planes * plane, one_head == 1 ? 0 : plane, c.keys};
  };
  const auto count = [&](int one_batch, int one_head) {
    return (one_batch == 1 ? 1 : c.batches) * (one_head == 1 ? 1 : c.heads) * c.queries * c.keys;
  };
  if (c.mask_batches >= 0) {
    data.mask = normal(stream.at("mask"), count(c.mask_batches, c.mask_heads), c.bias_size);
    for (float& value : data.mask) value += static_cast<float>(c.mask_shift);
    remove_some(stream.at("mask removed"), c.removed, data.mask);
    data.problem.mask = {data.mask.data(), strides(c.mask_batches, c.mask_heads), c.mask_batches == 1 ? 1 : c.batches,
                         c.mask_heads == 1 ? 1 : c.heads};
  }
  if (c.blocked_batches >= 0) {
    const std::int64_t flag_count = count(c.blocked_batches, c.blocked_heads);
    data.blocked = flags(stream.at("blocked"), flag_count, c.blocked_share);
    if (c.empty_row)
      for (std::int64_t plane = 0; plane < flag_count; plane += c.queries * c.keys)
        for (std::int64_t j = 0; j < c.keys; ++j) data.blocked[static_cast<std::size_t>(plane + j)] = true;
    data.problem.blocked = {data.blocked.get(), strides(c.blocked_batches, c.blocked_heads)};
  }
  if (c.padding) {
    data.padding = flags(stream.at("padding"), c.batches * c.keys, 0.1);
    // A long run as well, so that whole blocks vanish.
    for (std::int64_t j = c.keys / 3; j < c.keys / 2; ++j) data.padding[static_cast<std::size_t>(j)] = true;
    data.problem.key_padding = data.padding.get();
  }
  if (c.row_lengths != 0) {
    // Row i sees about as large a share of the keys as its place among the queries; row 0 may see none.
    const std::int64_t shared = c.row_lengths == 1 ? 1 : c.batches;
    for (std::int64_t b = 0; b < shared; ++b)
      for (std::int64_t i = 0; i < c.queries; ++i)
        data.row_lengths.push_back(std::min(c.keys, (i + 1) * c.keys / c.queries + 3 * b - (i == 0 ? c.keys : 0) / 2));
    for (std::int64_t& length : data.row_lengths) length = std::max<std::int64_t>(0, length);
    data.problem.row_lengths = {data.row_lengths.data(), shared == 1 ? 0 : c.queries};
  }
  if (c.lengths) {
    for (std::int64_t b = 0; b < c.batches; ++b) data.key_lengths.push_back(b == 1 ? 0 : c.keys - 1 - b * 3);
    data.problem.key_lengths = data.key_lengths.data();
  }
}

}  // namespace

// By the definition: the nearest of the numbers of that type, ties to even.
std::uint16_t to_16_bits(ElementType type, float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  if (type == ElementType::bfloat16) return static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
  const double size = std::abs(static_cast<double>(x));
  if (!(size < 65520)) return static_cast<std::uint16_t>(sign | (std::isnan(x) ? 0x7E00 : 0x7C00));
  // Numbers of exponent e lie 2^(e - 10) apart, those below 2^-14 as those above it.
  const int exponent = std::max(-14, size == 0 ? -14 : std::ilogb(size));
  const auto steps = static_cast<int>(std::nearbyint(std::ldexp(size, 10 - exponent)));
  return static_cast<std::uint16_t>(sign | ((exponent + 14) * 1024 + steps));
}

float from_16_bits(ElementType type, std::uint16_t x) {
  if (type == ElementType::bfloat16) {
    const std::uint32_t bits = static_cast<std::uint32_t>(x) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  const int exponent = x >> 10 & 31, mantissa = x & 1023;
  const double size = exponent == 31
                          ? (mantissa == 0 ? INFINITY : NAN)
                          : std::ldexp(exponent == 0 ? mantissa : 1024 + mantissa, (exponent == 0 ? 1 : exponent) - 25);
  return static_cast<float>((x & 0x8000) != 0 ? -size : size);
}

CaseData::CaseData(const Case& c, std::uint64_t seed) {
  const random::Stream stream(seed, c.name);
  problem.batches = c.batches;
  problem.heads = c.heads;
  problem.queries = c.queries;
  problem.keys = c.keys;
  problem.key_width = c.key_width;
  problem.value_width = c.value_width;
  problem.softmax_scale = static_cast<float>(1 / std::sqrt(static_cast<double>(c.key_width)));
  problem.type = c.type;
  problem.dropout = {c.dropout, 0x1234567890ABCDEFull};
  q = normal(stream.at("q"), c.batches * c.heads * c.queries * c.key_width, c.magnitude);
  k = normal(stream.at("k"), c.batches * c.heads * c.keys * c.key_width, c.magnitude);
  v = normal(stream.at("v"), c.batches * c.heads * c.keys * c.value_width, 1);
  const auto halve = [&](std::vector<float>& from, std::vector<std::uint16_t>& to) -> const void* {
    if (c.type == ElementType::float32) return from.data();
    for (float& x : from) {
      to.push_back(to_16_bits(c.type, x));
      x = from_16_bits(c.type, to.back());
    }
    return to.data();
  };
  problem.q = {halve(q, q16), layout(c, c.queries, c.key_width)};
  problem.k = {halve(k, k16), layout(c, c.keys, c.key_width)};
  problem.v = {halve(v, v16), layout(c, c.keys, c.value_width)};
  if (c.window_heads >= 0) make_windows(c, stream.at("windows"), *this);
  if (c.segments > 0) make_segments(c, stream.at("segments"), *this);
  if (c.table_heads >= 0) make_table(c, stream.at("table"), *this);
  make_masks(c, stream.at("masks"), *this);
  grad_output = normal(stream.at("grad_output"), rows() * c.value_width, 1);
  halve(grad_output, grad_output16);
  grad_logsumexp = normal(stream.at("grad_logsumexp"), rows(), 1);
}

ParallelFor threads(std::int64_t slots) {
  ParallelFor parallel;
  parallel.slots = slots;
  parallel.run = [](void*, std::int64_t count, ParallelFor::Body body, void* context) {
    std::vector<std::thread> running;
    for (std::int64_t slot = 1; slot < count; ++slot) running.emplace_back(body, context, slot);
    body(context, 0);
    for (std::thread& thread : running) thread.join();
  };
  return parallel;
}

std::vector<Case> forward_cases() {
  std::vector<Case> cases;
  const auto add = [&](Case c) {
    c.name = std::to_string(c.batches) + "x" + std::to_string(c.heads) + "_" + std::to_string(c.queries) + "x" +
             std::to_string(c.keys) + "_d" + std::to_string(c.key_width) + "_" + std::to_string(c.value_width) +
             (c.interleaved ? "_interleaved" : "") + (c.magnitude != 1 ? "_large" : "");
    cases.push_back(c);
  };
  add({.batches = 1, .heads = 1, .queries = 1, .keys = 1, .key_width = 1, .value_width = 1});
  // Edges of tiles (6 and 12 rows), panels (8, 16, 32 keys) and blocks (256 keys).
  for (const std::int64_t queries : {1, 5, 6, 7, 11, 12, 13, 25})
    for (const std::int64_t keys : {1, 15, 16, 17, 31, 32, 33, 255, 256, 257, 700})
      add({.queries = queries, .keys = keys});
  for (const std::int64_t width : {16, 32, 64, 128})
    add({.queries = 13, .keys = 300, .key_width = width, .value_width = width});
  for (const std::int64_t width : {1, 3, 8, 15, 17, 24, 31, 33, 40, 48, 65, 100, 129, 200, 255, 256})
    add({.queries = 9, .keys = 270, .key_width = width, .value_width = 1 + (width * 7) % 256});
  add({.batches = 3, .heads = 4, .queries = 31, .keys = 513, .interleaved = true});
  add({.batches = 2, .heads = 3, .queries = 61, .keys = 97, .key_width = 20, .value_width = 36, .interleaved = true});
  add({.queries = 14, .keys = 600, .magnitude = 12});
  add({.queries = 14, .keys = 600, .magnitude = 130});  // logits beyond 1e4
  for (const std::int64_t queries : {2, 3, 4})
    for (const std::int64_t keys : {1, 17, 257, 1500}) add({.queries = queries, .keys = keys});
  add({.batches = 3, .heads = 4, .queries = 2, .keys = 2600, .key_width = 40, .value_width = 72, .interleaved = true});
  add({.queries = 3, .keys = 5000, .magnitude = 130});
  add({.queries = 0, .keys = 5});
  add({.queries = 5, .keys = 0});
  add({.batches = 0, .queries = 5, .keys = 5});
  add({.heads = 0, .queries = 5, .keys = 5});
  add({.heads = 1, .queries = 1100, .keys = 40, .key_width = 16, .value_width = 16});  // several tasks a head
  return cases;
}

std::vector<Case> feature_cases() {
  const Case base{.batches = 2, .heads = 3, .queries = 29, .keys = 1100, .key_width = 16, .value_width = 24};
  std::vector<Case> cases;
  const auto add = [&](const char* name, const auto& change) {
    Case c = base;
    c.name = name;
    change(c);
    cases.push_back(c);
  };
  add("windows_shared", [](Case& c) { c.window_heads = 1; });
  add("windows_of_heads", [](Case& c) { c.window_heads = 0; });
  add("windows_wide", [](Case& c) { c.window_heads = 1, c.window_share = 0.9; });
  add("windows_removed", [](Case& c) { c.window_heads = 0, c.removed = 0.5; });
  add("windows_large", [](Case& c) { c.window_heads = 1, c.bias_size = 1e4; });
  add("windows_strong", [](Case& c) { c.window_heads = 1, c.bias_size = 60; });
  add("windows_interleaved_bfloat16",
      [](Case& c) { c.window_heads = 1, c.interleaved = true, c.type = ElementType::bfloat16; });
  add("odd_width_bfloat16",
      [](Case& c) { c.key_width = 33, c.value_width = 41, c.keys = 271, c.type = ElementType::bfloat16; });
  add("segments_shared", [](Case& c) { c.segments = 7, c.segment_heads = 1; });
  add("segments_of_heads", [](Case& c) { c.segments = 7, c.segment_heads = 0; });
  add("segments_without_values", [](Case& c) { c.segments = 5; });
  add("segments_many", [](Case& c) { c.segments = 300, c.segment_heads = 1; });
  add("segments_removed", [](Case& c) { c.segments = 3, c.segment_heads = 0, c.removed = 0.4; });
  add("segments_strong", [](Case& c) { c.segments = 4, c.segment_heads = 0, c.bias_size = 100; });
  add("segment_absent", [](Case& c) { c.segments = 4, c.absent_segment = true; });
  add("windows_and_segments", [](Case& c) { c.window_heads = 1, c.segments = 7, c.segment_heads = 1; });
  add("windows_segments_absent", [](Case& c) {
    c.window_heads = 0, c.segments = 7, c.segment_heads = 1, c.absent_segment = true, c.removed = 0.1;
  });
  add("mask_shared", [](Case& c) { c.mask_batches = 1, c.mask_heads = 1; });
  add("mask_of_batches", [](Case& c) { c.mask_batches = 0, c.mask_heads = 1; });
  add("mask_of_heads", [](Case& c) { c.mask_batches = 1, c.mask_heads = 0; });
  add("mask_full_removed", [](Case& c) { c.mask_batches = 0, c.mask_heads = 0, c.removed = 0.5; });
  add("mask_large", [](Case& c) { c.mask_batches = 0, c.mask_heads = 1, c.bias_size = 1e4; });
  add("blocked_shared", [](Case& c) { c.blocked_batches = 1, c.blocked_heads = 1; });
  add("blocked_full", [](Case& c) { c.blocked_batches = 0, c.blocked_heads = 0, c.blocked_share = 0.9; });
  add("row_without_keys", [](Case& c) { c.blocked_batches = 0, c.blocked_heads = 1, c.empty_row = true; });
  add("padding", [](Case& c) { c.padding = true; });
  add("lengths", [](Case& c) { c.lengths = true; });
  add("everything", [](Case& c) {
    c.window_heads = 1, c.segments = 7, c.segment_heads = 0, c.absent_segment = true, c.mask_batches = 1,
    c.mask_heads = 0;
    c.blocked_batches = 0, c.blocked_heads = 1, c.padding = c.lengths = c.empty_row = true, c.removed = 0.05;
  });
  add("half", [](Case& c) { c.type = ElementType::float16, c.interleaved = true; });
  add("odd_width_half", [](Case& c) {
    c.key_width = 33, c.value_width = 41, c.keys = 271, c.type = ElementType::float16,
    c.mask_batches = c.mask_heads = 0;
  });
  add("row_lengths", [](Case& c) { c.row_lengths = 1; });
  add("row_lengths_bfloat16", [](Case& c) { c.row_lengths = 1, c.type = ElementType::bfloat16; });
  add("row_lengths_of_batches", [](Case& c) { c.row_lengths = 2, c.mask_batches = 0, c.mask_heads = 1; });
  add("row_lengths_and_everything", [](Case& c) {
    c.row_lengths = 2, c.window_heads = 0, c.segments = 6, c.segment_heads = 1, c.absent_segment = true;
    c.mask_batches = 1, c.mask_heads = 1, c.padding = c.lengths = true, c.removed = 0.05, c.dropout = 0.1;
  });
  add("causal", [](Case& c) { c.queries = 300, c.keys = 300, c.row_lengths = 1, c.batches = 1; });
  add("table_of_distances", [](Case& c) { c.table_heads = 0; });
  add("table_of_offsets", [](Case& c) { c.table_heads = 0, c.table_form = 1, c.queries = c.keys = 49; });
  add("table_shared_by_heads", [](Case& c) { c.table_heads = 1, c.removed = 0.1; });
  add("table_by_index", [](Case& c) { c.table_heads = 0, c.table_form = 2, c.mask_batches = c.mask_heads = 1; });
  // Slots take whole batches, and ask for the rows of the next one.
  add("small_batches", [](Case& c) {
    c.batches = 20, c.heads = 3, c.queries = 19, c.keys = 23, c.interleaved = true, c.mask_batches = c.mask_heads = 0;
  });
  add("small_batches_half", [](Case& c) { c.batches = 17, c.queries = 13, c.type = ElementType::float16; });
  // From eight batches on a small table is written out once.
  add("table_of_many_batches", [](Case& c) {
    c.table_heads = 0, c.table_form = 1, c.queries = c.keys = 49, c.batches = 9, c.mask_batches = 0, c.mask_heads = 1;
  });
  add("table_of_many_batches_by_index", [](Case& c) {
    c.table_heads = 1, c.table_form = 2, c.batches = 8, c.queries = 70, c.keys = 130, c.removed = 0.1, c.padding = true;
    c.blocked_batches = c.blocked_heads = 1, c.type = ElementType::bfloat16;
  });
  add("table_of_many_batches_few", [](Case& c) { c.table_heads = 0, c.batches = 8, c.queries = 2; });
  add("table_and_everything", [](Case& c) {
    c.table_heads = 0, c.table_form = 1, c.row_lengths = 2, c.window_heads = 1, c.segments = 6, c.segment_heads = 1;
    c.mask_batches = 0, c.mask_heads = 1, c.blocked_batches = c.blocked_heads = 1, c.padding = c.lengths = true;
    c.absent_segment = true, c.removed = 0.05, c.dropout = 0.1, c.type = ElementType::float16;
  });
  add("mask_far_below_zero", [](Case& c) { c.mask_batches = 1, c.mask_heads = 1, c.mask_shift = -300, c.keys = 200; });
  add("dropout", [](Case& c) { c.dropout = 0.25; });
  add("dropout_and_everything", [](Case& c) {
    c.window_heads = 0, c.segments = 6, c.segment_heads = 1, c.absent_segment = true, c.mask_batches = 0,
    c.mask_heads = 1;
    c.padding = c.lengths = true, c.dropout = 0.1;
  });
  // The same for few queries, which go another way.
  for (std::size_t i = 0, count = cases.size(); i < count; ++i) {
    Case few = cases[i];
    few.name += "_few";
    few.queries = 1 + static_cast<std::int64_t>(i) % 4;
    cases.push_back(few);
  }
  return cases;
}

}  // namespace camber::kernels::test
