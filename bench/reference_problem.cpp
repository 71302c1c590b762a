#include "reference_problem.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "camber/random/stream.h"

namespace camber::bench {
namespace {

std::vector<float> normal(const char* name, std::int64_t count) {
  random::Stream stream(7, name);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& x : values) x = static_cast<float>(stream.normal());
  return values;
}

std::vector<std::uint16_t> rounded(const std::vector<float>& values) {
  std::vector<std::uint16_t> halves;
  halves.reserve(values.size());
  for (const float x : values) {
    std::uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    halves.push_back(static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16));
  }
  return halves;
}

// The keys of a size x size window round (row, column), cut at the map's border, in rising order.
void add_window(std::int64_t first_key, std::int64_t rows, std::int64_t columns, std::int64_t row, std::int64_t column,
                std::int64_t size, std::vector<std::int32_t>& keys) {
  const std::int64_t half = size / 2;
  for (std::int64_t r = std::max<std::int64_t>(0, row - half); r <= std::min(rows - 1, row + half); ++r)
    for (std::int64_t c = std::max<std::int64_t>(0, column - half); c <= std::min(columns - 1, column + half); ++c)
      keys.push_back(static_cast<std::int32_t>(first_key + r * columns + c));
}

}  // namespace

ReferenceProblem::ReferenceProblem(const ReferenceSizes& s) : sizes(s) {
  q = normal("q", s.batches * s.heads * s.queries * s.width);
  k = normal("k", s.batches * s.heads * s.keys() * s.width);
  v = normal("v", s.batches * s.heads * s.keys() * s.width);
  grad_output = normal("grad_output", s.batches * s.heads * s.queries * s.width);
  q16 = rounded(q);
  k16 = rounded(k);
  v16 = rounded(v);
  random::Stream position(7, "windows");
  const auto draw = [&](std::int64_t count) {
    return static_cast<std::int64_t>(position.integer(static_cast<std::uint64_t>(count)));
  };
  row_offsets.push_back(0);
  for (std::int64_t row = 0; row < s.batches * s.queries; ++row) {
    add_window(0, s.grid, s.grid, draw(s.grid), draw(s.grid), 5, key_index);
    const std::int64_t seen = 1 + draw(2), first = draw(std::max<std::int64_t>(1, s.cameras - 1));
    for (std::int64_t camera = first; camera < std::min(first + seen, s.cameras); ++camera)
      add_window(s.grid * s.grid + camera * s.map_rows * s.map_columns, s.map_rows, s.map_columns, draw(s.map_rows),
                 draw(s.map_columns), 15, key_index);
    row_offsets.push_back(static_cast<std::int64_t>(key_index.size()));
  }
  window_value = normal("window_value", static_cast<std::int64_t>(key_index.size()));
  segment_offsets.push_back(0);
  for (std::int64_t camera = 0; camera <= s.cameras; ++camera)
    segment_offsets.push_back(s.grid * s.grid + camera * s.map_rows * s.map_columns);
  segment_value = normal("segment_value", s.batches * s.queries * (s.cameras + 1));
}

kernels::AttentionProblem ReferenceProblem::plain() const {
  kernels::AttentionProblem p;
  p.batches = sizes.batches;
  p.heads = sizes.heads;
  p.queries = sizes.queries;
  p.keys = sizes.keys();
  p.key_width = p.value_width = sizes.width;
  p.softmax_scale = 1 / std::sqrt(static_cast<float>(sizes.width));
  const std::int64_t row = sizes.heads * sizes.width;
  p.q = {q.data(), {sizes.queries * row, sizes.width, row}};
  p.k = {k.data(), {sizes.keys() * row, sizes.width, row}};
  p.v = {v.data(), {sizes.keys() * row, sizes.width, row}};
  return p;
}

kernels::AttentionProblem ReferenceProblem::with_windows() const {
  kernels::AttentionProblem p = plain();
  p.windows = {row_offsets.data(), key_index.data(), window_value.data(), 1,
               static_cast<std::int64_t>(key_index.size())};
  return p;
}

}  // namespace camber::bench
