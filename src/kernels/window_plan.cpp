#include "kernels/window_plan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <new>

#include "kernels/dispatch.h"
#include "kernels/slots.h"
#include "kernels/units.h"

namespace camber::kernels {
namespace {

static_assert(kMostTileRows * kForwardKeys <= std::numeric_limits<std::int16_t>::max(),
              "WindowStretch::offset must reach every position of a tile");

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
      *to++ = {next[i], 0,
               static_cast<std::int16_t>(first_index + run->position + static_cast<std::int32_t>(key[i] - run->key)),
               static_cast<std::int16_t>(count)};
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

template <class T>
T* allocated(std::int64_t count) {
  auto* memory = static_cast<T*>(std::malloc(static_cast<std::size_t>(std::max<std::int64_t>(1, count)) * sizeof(T)));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

std::int64_t first_entry_of(const AttentionProblem& problem, const RowBox& box) {
  return problem.windows.row_offsets[box.batch * problem.queries + box.query];
}

}  // namespace

// Each tile's stretches, block by block; begin_[i + 1] is how many (block, tile) i has.
void WindowPlans::walk_tiles(const AttentionProblem& problem, const KeyPlans& plans, const RowBox& box, int tile_rows,
                             int lanes, int block_keys) {
  const WindowBias& windows = problem.windows;
  const std::int64_t first_entry = first_entry_of(problem, box);
  run_tasks(problem.parallel, plan_.tiles, 0, [&](std::int64_t tile, std::byte*) {
    const std::int64_t batch = box.batch + tile / plan_.batch_tiles, row = tile % plan_.batch_tiles * tile_rows;
    const KeyPlan& plan = plans.of(batch);
    const std::int64_t* of_row = windows.row_offsets + batch * problem.queries + box.query + row;
    const auto rows = static_cast<int>(std::min<std::int64_t>(tile_rows, box.queries - row));
    TileWalk walk{windows.key_index, plan, lanes, rows, {}, {}, {}};
    for (int i = 0; i < rows; ++i) {
      walk.end[static_cast<std::size_t>(i)] = of_row[i + 1];
      walk.move_to(i, of_row[i]);
    }
    WindowStretch* to = by_tile_.get() + (of_row[0] - first_entry);
    for (std::int64_t b = 0; b < blocks_; ++b) {
      WindowStart& count = begin_[static_cast<std::size_t>(b * plan_.tiles + tile + 1)];
      count = {0, 0};
      if (b >= plan.block_count) continue;
      const WindowStretch* first = to;
      for (int i = 0; i < rows; ++i) to = walk.take(i, plan.blocks[b], i * block_keys, to);
      count.stretch = to - first;
      for (const WindowStretch* at = first; at < to; ++at) count.value += at->count;
    }
    for (std::int64_t head = 0; head < windows.heads; ++head)
      largest_[static_cast<std::size_t>(head * plan_.tiles + tile)] =
          largest_absolute(windows.value + head * windows.entries + of_row[0], of_row[rows] - of_row[0]);
  });
}

// The same stretches block by block with their values.
void WindowPlans::place_in_order(const AttentionProblem& problem, const RowBox& box, int tile_rows) {
  const WindowBias& windows = problem.windows;
  for (std::size_t i = 1; i < begin_.size(); ++i) {
    begin_[i].stretch += begin_[i - 1].stretch;
    begin_[i].value += begin_[i - 1].value;
  }
  plan_.head_values = begin_.back().value;
  stretches_.reset(allocated<WindowStretch>(begin_.back().stretch));
  values_.reset(allocated<float>(windows.heads * plan_.head_values));
  run_tasks(problem.parallel, plan_.tiles, 0, [&](std::int64_t tile, std::byte*) {
    const std::int64_t batch = box.batch + tile / plan_.batch_tiles, row = tile % plan_.batch_tiles * tile_rows;
    const std::int64_t first = windows.row_offsets[batch * problem.queries + box.query + row];
    const WindowStretch* from = by_tile_.get() + (first - first_entry_of(problem, box));
    for (std::int64_t b = 0; b < blocks_; ++b) {
      const WindowStart *start = begin_.data() + b * plan_.tiles + tile, *end = start + 1;
      std::int32_t value = 0;
      for (std::int64_t s = start->stretch; s < end->stretch; ++s, ++from) {
        WindowStretch& stretch = stretches_.get()[s] = *from;
        stretch.value = value;
        for (std::int64_t head = 0; head < windows.heads; ++head) {
          const float* natural = windows.value + head * windows.entries + stretch.entry;
          float* to = values_.get() + head * plan_.head_values + start->value + value;
          for (int i = 0; i < stretch.count; ++i) to[i] = natural[i] * kLog2E;
        }
        value += stretch.count;
      }
    }
  });
}

void WindowPlans::build(const AttentionProblem& problem, const KeyPlans& plans, const RowBox& box, int tile_rows,
                        int lanes, int block_keys) {
  plan_ = {};
  if (problem.windows.row_offsets == nullptr) return;
  const std::int64_t end_row = (box.batch + box.batches - 1) * problem.queries + box.query + box.queries;
  const std::int64_t entries = problem.windows.row_offsets[end_row] - first_entry_of(problem, box);
  if (entries == 0) return;
  blocks_ = 0;
  for (std::int64_t b = 0; b < box.batches; ++b) blocks_ = std::max(blocks_, plans.of(box.batch + b).block_count);
  plan_.batch = box.batch;
  plan_.query = box.query;
  plan_.batch_tiles = ceil_divide(box.queries, tile_rows);
  plan_.tiles = box.batches * plan_.batch_tiles;
  stretches_.reset();  // not kept beside the new ones
  values_.reset();
  by_tile_.reset(allocated<WindowStretch>(entries));
  begin_.assign(static_cast<std::size_t>(blocks_ * plan_.tiles + 1), {0, 0});
  largest_.resize(static_cast<std::size_t>(problem.windows.heads * plan_.tiles));
  walk_tiles(problem, plans, box, tile_rows, lanes, block_keys);
  place_in_order(problem, box, tile_rows);
  by_tile_.reset();
  plan_.stretches = stretches_.get();
  plan_.begin = begin_.data();
  plan_.values = values_.get();
  plan_.largest = largest_.data();
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
