#include "kernels/window_plan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <new>

#include "kernels/dispatch.h"
#include "kernels/slots.h"

namespace camber::kernels {
namespace {

constexpr std::int64_t kBehindLast = std::numeric_limits<std::int64_t>::max();

// The rows of a tile, each at its first entry that was not placed yet.
struct TileWalk {
  const std::int32_t* keys;
  const KeyPlan& plan;
  int lanes, rows;
  std::array<std::int64_t, kMostTileRows> next, end, key;  // key: of entry `next`, kBehindLast behind the last

  void move_to(int row, std::int64_t entry) {
    const auto i = static_cast<std::size_t>(row);
    next[i] = entry;
    key[i] = entry < end[i] ? keys[entry] : kBehindLast;
  }

  // Appends a row's stretches on a block; entries on keys that were left out are skipped.
  WindowStretch* take(int row, const KeyBlock& block, int first_index, WindowStretch* to) {
    const auto i = static_cast<std::size_t>(row);
    const KeyRun* run = plan.runs + block.first_run;
    while (key[i] < block.end_key) {
      while (run->key + run->count <= key[i]) ++run;
      if (key[i] < run->key) {
        move_to(row, next[i] + 1);
        continue;
      }
      const std::int64_t limit = std::min({std::int64_t{lanes}, end[i] - next[i], run->key + run->count - key[i]});
      // Keys rise strictly, so that the last one tells whether all are neighbours.
      std::int64_t count = limit;
      if (keys[next[i] + limit - 1] != key[i] + limit - 1)
        for (count = 1; keys[next[i] + count] == key[i] + count;) ++count;
      *to++ = {next[i], first_index + run->position + static_cast<std::int32_t>(key[i] - run->key),
               static_cast<std::int32_t>(count)};
      move_to(row, next[i] + count);
    }
    return to;
  }
};

// Without their sign, floats are ordered as their bits are, NaN above all; and integers the compiler vectorises.
float largest_absolute(const float* values, std::int64_t count) {
  std::int32_t largest = 0;
  for (std::int64_t i = 0; i < count; ++i)
    largest = std::max(largest, std::bit_cast<std::int32_t>(values[i]) & std::numeric_limits<std::int32_t>::max());
  return std::bit_cast<float>(largest);
}

}  // namespace

void WindowPlans::build(const AttentionProblem& problem, const KeyPlans& plans, const RowBox& box, int tile_rows,
                        int lanes, int block_keys) {
  plan_ = {};
  if (problem.windows.row_offsets == nullptr) return;
  const std::int64_t first_row = box.batch * problem.queries + box.query;
  const std::int64_t end_row = (box.batch + box.batches - 1) * problem.queries + box.query + box.queries;
  const std::int64_t* offsets = problem.windows.row_offsets;
  const std::int64_t first_entry = offsets[first_row], entries = offsets[end_row] - first_entry;
  if (entries == 0) return;
  std::int64_t blocks = 0;
  for (std::int64_t b = 0; b < box.batches; ++b) blocks = std::max(blocks, plans.of(box.batch + b).block_count);
  const std::int64_t batch_tiles = ceil_divide(box.queries, tile_rows), tiles = box.batches * batch_tiles;
  stretches_.reset();  // not kept beside the new ones
  stretches_.reset(static_cast<WindowStretch*>(std::malloc(static_cast<std::size_t>(entries) * sizeof(WindowStretch))));
  if (stretches_ == nullptr) throw std::bad_alloc();
  begin_.resize(static_cast<std::size_t>((blocks + 1) * tiles));
  const WindowBias& windows = problem.windows;
  largest_.resize(static_cast<std::size_t>(windows.heads * tiles));
  plan_ = {stretches_.get(), begin_.data(), largest_.data(), box.batch, box.query, batch_tiles, tiles};
  run_tasks(problem.parallel, tiles, 0, [&](std::int64_t tile, std::byte*) {
    const std::int64_t batch = box.batch + tile / batch_tiles, row = tile % batch_tiles * tile_rows;
    const KeyPlan& plan = plans.of(batch);
    const std::int64_t* of_row = offsets + batch * problem.queries + box.query + row;
    const auto rows = static_cast<int>(std::min<std::int64_t>(tile_rows, box.queries - row));
    TileWalk walk{problem.windows.key_index, plan, lanes, rows, {}, {}, {}};
    for (int i = 0; i < rows; ++i) {
      walk.end[static_cast<std::size_t>(i)] = of_row[i + 1];
      walk.move_to(i, of_row[i]);
    }
    WindowStretch* to = stretches_.get() + (of_row[0] - first_entry);
    for (std::int64_t b = 0; b <= blocks; ++b) {
      begin_[static_cast<std::size_t>(b * tiles + tile)] = to - stretches_.get();
      if (b >= plan.block_count) continue;
      for (int i = 0; i < rows; ++i) to = walk.take(i, plan.blocks[b], i * block_keys, to);
    }
    for (std::int64_t head = 0; head < windows.heads; ++head)
      largest_[static_cast<std::size_t>(head * tiles + tile)] =
          largest_absolute(windows.value + head * windows.entries + of_row[0], of_row[rows] - of_row[0]);
  });
}

std::int64_t most_entries(const AttentionProblem& problem, std::int64_t rows) {
  std::int64_t most = 0;
  if (problem.windows.row_offsets == nullptr) return most;
  for (std::int64_t batch = 0; batch < problem.batches; ++batch) {
    const std::int64_t* offsets = problem.windows.row_offsets + batch * problem.queries;
    for (std::int64_t row = 0; row < problem.queries; row += rows)
      most = std::max(most, offsets[std::min(row + rows, problem.queries)] - offsets[row]);
  }
  return most;
}

}  // namespace camber::kernels
