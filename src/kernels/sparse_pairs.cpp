#include "kernels/sparse_pairs.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "kernels/dispatch.h"
#include "kernels/slots.h"

namespace camber::kernels {
namespace {

using Cell = std::array<std::int64_t, 3>;

// Which cells of all batches are active, a bit each, and how many active ones come before: a row number in
// sorted order without sorting or hashing.
class ActiveCells {
 public:
  ActiveCells(std::int64_t batches, const std::array<std::int64_t, 3>& shape)
      : shape_(shape), words_(static_cast<std::size_t>(ceil_divide(batches * shape[0] * shape[1] * shape[2], 64))) {}

  std::int64_t index(std::int64_t batch, const Cell& at) const {
    return ((batch * shape_[0] + at[0]) * shape_[1] + at[1]) * shape_[2] + at[2];
  }
  bool contains(std::int64_t index) const { return ((words_[word(index)] >> (index % 64)) & 1) != 0; }
  void insert(std::int64_t index) { words_[word(index)] |= std::uint64_t{1} << (index % 64); }

  // Numbers the active cells; returns how many there are.
  std::int64_t finish() {
    before_.resize(words_.size());
    std::int32_t count = 0;
    for (std::size_t w = 0; w < words_.size(); ++w) {
      before_[w] = count;
      count += std::popcount(words_[w]);
    }
    return count;
  }
  // The number of an active cell.
  std::int32_t rank(std::int64_t index) const {
    const std::uint64_t below = words_[word(index)] & ((std::uint64_t{1} << (index % 64)) - 1);
    return before_[word(index)] + std::popcount(below);
  }
  // visit(index) of every active cell, in order.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (std::size_t w = 0; w < words_.size(); ++w)
      for (std::uint64_t left = words_[w]; left != 0; left &= left - 1)
        visit(static_cast<std::int64_t>(w) * 64 + std::countr_zero(left));
  }

 private:
  static std::size_t word(std::int64_t index) { return static_cast<std::size_t>(index / 64); }

  std::array<std::int64_t, 3> shape_;
  std::vector<std::uint64_t> words_;
  std::vector<std::int32_t> before_;
};

struct InputSite {
  std::int64_t batch;
  Cell at;
};

InputSite site_of(const std::int32_t* coordinates, std::int64_t row) {
  const std::int32_t* c = coordinates + 4 * row;
  return {c[0], {c[1], c[2], c[3]}};
}

bool inside(const Cell& at, const std::array<std::int64_t, 3>& shape) {
  return at[0] >= 0 && at[0] < shape[0] && at[1] >= 0 && at[1] < shape[1] && at[2] >= 0 && at[2] < shape[2];
}

// The input's cells, and its rows inside the grid in their order.
struct InputCells {
  ActiveCells cells;
  std::vector<std::int32_t> kept;

  InputCells(const SparseGeometry& g, const std::int32_t* coordinates, std::int64_t rows)
      : cells(g.batches, g.input_shape) {
    kept.reserve(static_cast<std::size_t>(rows));
    for (std::int64_t row = 0; row < rows; ++row) {
      const InputSite site = site_of(coordinates, row);
      if (!inside(site.at, g.input_shape)) continue;
      const std::int64_t index = cells.index(site.batch, site.at);
      if (cells.contains(index)) refuse_twice(site);
      cells.insert(index);
      kept.push_back(static_cast<std::int32_t>(row));
    }
  }

  [[noreturn]] static void refuse_twice(const InputSite& site) {
    throw std::invalid_argument("coordinates must hold every site once, got (" + std::to_string(site.batch) + ", " +
                                std::to_string(site.at[0]) + ", " + std::to_string(site.at[1]) + ", " +
                                std::to_string(site.at[2]) + ") twice");
  }
};

NeighbourTable empty_table(const SparseGeometry& g, std::int64_t rows) {
  return {std::vector<std::int32_t>(static_cast<std::size_t>(g.taps() * rows), -1), g.taps(), rows};
}

// Calls part(first, end) for ranges of at most kRows rows.
template <class Part>
void for_row_ranges(const ParallelFor& parallel, std::int64_t rows, const Part& part) {
  constexpr std::int64_t kRows = 2048;
  run_tasks(parallel, ceil_divide(rows, kRows), 0,
            [&](std::int64_t task, std::byte*) { part(task * kRows, std::min(rows, (task + 1) * kRows)); });
}

// --- Submanifold: every kept row looks for its neighbours ---

SparseSites find_same_sites(const SparseGeometry& g, const std::int32_t* coordinates, std::int64_t rows,
                            const ParallelFor& parallel) {
  InputCells input(g, coordinates, rows);
  input.cells.finish();
  const auto kept = static_cast<std::int64_t>(input.kept.size());
  std::vector<std::int32_t> row_of_rank(input.kept.size());
  SparseSites sites{.coordinates = std::vector<std::int32_t>(input.kept.size() * 4),
                    .by_output = empty_table(g, kept),
                    .by_input = {},
                    .dropped = rows - kept,
                    .mirrored = kept == rows};
  if (!sites.mirrored) sites.by_input = empty_table(g, rows);
  for_row_ranges(parallel, kept, [&](std::int64_t first, std::int64_t end) {
    for (std::int64_t output = first; output < end; ++output) {
      const std::int32_t row = input.kept[static_cast<std::size_t>(output)];
      std::copy_n(coordinates + 4 * std::int64_t{row}, 4, sites.coordinates.data() + 4 * output);
      const InputSite site = site_of(coordinates, row);
      row_of_rank[static_cast<std::size_t>(input.cells.rank(input.cells.index(site.batch, site.at)))] = row;
    }
  });
  for_row_ranges(parallel, kept, [&](std::int64_t first, std::int64_t end) {
    for (std::int64_t output = first; output < end; ++output) {
      const InputSite site = site_of(sites.coordinates.data(), output);
      std::int32_t* to = sites.by_output.neighbour.data() + output;
      Cell tap, at;
      for (tap[0] = 0; tap[0] < g.kernel[0]; ++tap[0])
        for (tap[1] = 0; tap[1] < g.kernel[1]; ++tap[1])
          for (tap[2] = 0; tap[2] < g.kernel[2]; ++tap[2], to += kept) {
            for (std::size_t d = 0; d < 3; ++d) at[d] = site.at[d] + (tap[d] - g.kernel[d] / 2) * g.dilation[d];
            if (!inside(at, g.input_shape)) continue;
            const std::int64_t index = input.cells.index(site.batch, at);
            if (input.cells.contains(index)) *to = row_of_rank[static_cast<std::size_t>(input.cells.rank(index))];
          }
    }
  });
  return sites;
}

// --- Strided: every kept row goes to the sites whose taps it falls on ---

// The taps of one axis that input position x falls on, with their output positions.
struct AxisTargets {
  std::vector<std::int64_t> tap, output;

  void find(const SparseGeometry& g, std::size_t d, std::int64_t x) {
    tap.clear();
    output.clear();
    for (std::int64_t t = 0; t < g.kernel[d]; ++t) {
      const std::int64_t scaled = x + g.padding[d] - t * g.dilation[d];
      if (scaled < 0 || scaled % g.stride[d] != 0 || scaled / g.stride[d] >= g.output_shape[d]) continue;
      tap.push_back(t);
      output.push_back(scaled / g.stride[d]);
    }
  }
};

// visit(tap, index of the output cell) for all of them.
template <class Visit>
void for_targets(const SparseGeometry& g, const ActiveCells& outputs, const InputSite& site,
                 std::array<AxisTargets, 3>& axes, const Visit& visit) {
  for (std::size_t d = 0; d < 3; ++d) axes[d].find(g, d, site.at[d]);
  for (std::size_t z = 0; z < axes[0].tap.size(); ++z)
    for (std::size_t y = 0; y < axes[1].tap.size(); ++y)
      for (std::size_t x = 0; x < axes[2].tap.size(); ++x)
        visit((axes[0].tap[z] * g.kernel[1] + axes[1].tap[y]) * g.kernel[2] + axes[2].tap[x],
              outputs.index(site.batch, {axes[0].output[z], axes[1].output[y], axes[2].output[x]}));
}

std::vector<std::int32_t> coordinates_of(const SparseGeometry& g, const ActiveCells& cells, std::int64_t count) {
  std::vector<std::int32_t> coordinates;
  coordinates.reserve(static_cast<std::size_t>(4 * count));
  const auto& shape = g.output_shape;
  cells.for_each([&](std::int64_t index) {
    const std::int64_t row = index / shape[2], slice = row / shape[1];
    for (const std::int64_t value : {slice / shape[0], slice % shape[0], row % shape[1], index % shape[2]})
      coordinates.push_back(static_cast<std::int32_t>(value));
  });
  return coordinates;
}

SparseSites find_strided_sites(const SparseGeometry& g, const std::int32_t* coordinates, std::int64_t rows,
                               const ParallelFor& parallel) {
  const InputCells input(g, coordinates, rows);
  ActiveCells outputs(g.batches, g.output_shape);
  {
    std::array<AxisTargets, 3> axes;
    for (const std::int32_t row : input.kept)
      for_targets(g, outputs, site_of(coordinates, row), axes,
                  [&](std::int64_t, std::int64_t index) { outputs.insert(index); });
  }
  const std::int64_t count = outputs.finish();
  SparseSites sites{.coordinates = coordinates_of(g, outputs, count),
                    .by_output = empty_table(g, count),
                    .by_input = empty_table(g, rows),
                    .dropped = rows - static_cast<std::int64_t>(input.kept.size()),
                    .mirrored = false};
  for_row_ranges(parallel, static_cast<std::int64_t>(input.kept.size()), [&](std::int64_t first, std::int64_t end) {
    std::array<AxisTargets, 3> axes;
    for (std::int64_t i = first; i < end; ++i) {
      const std::int32_t row = input.kept[static_cast<std::size_t>(i)];
      for_targets(g, outputs, site_of(coordinates, row), axes, [&](std::int64_t tap, std::int64_t index) {
        const std::int32_t output = outputs.rank(index);
        sites.by_input.neighbour[static_cast<std::size_t>(tap * rows + row)] = output;
        sites.by_output.neighbour[static_cast<std::size_t>(tap * count + output)] = row;
      });
    }
  });
  return sites;
}

// The opposite of by_output, where rows of the input and the output are not the same.
void fill_by_input(SparseSites& sites) {
  const NeighbourTable& from = sites.by_output;
  NeighbourTable& to = sites.by_input;
  for (std::int64_t tap = 0; tap < from.taps; ++tap)
    for (std::int64_t row = 0; row < from.rows; ++row)
      if (const std::int32_t input = from.neighbour[static_cast<std::size_t>(tap * from.rows + row)]; input >= 0)
        to.neighbour[static_cast<std::size_t>(tap * to.rows + input)] = static_cast<std::int32_t>(row);
}

}  // namespace

SparseSites find_sites(const SparseGeometry& geometry, const std::int32_t* coordinates, std::int64_t rows,
                       const ParallelFor& parallel) {
  if (!geometry.submanifold) return find_strided_sites(geometry, coordinates, rows, parallel);
  SparseSites sites = find_same_sites(geometry, coordinates, rows, parallel);
  if (!sites.mirrored) fill_by_input(sites);
  return sites;
}

std::vector<std::int64_t> pair_offsets(const NeighbourTable& table, const ParallelFor& parallel) {
  const std::int64_t blocks = ceil_divide(table.rows, kPairBlock);
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(table.taps * (blocks + 1)));
  run_tasks(parallel, table.taps, 0, [&](std::int64_t tap, std::byte*) {
    const std::int32_t* neighbour = table.neighbour.data() + tap * table.rows;
    std::int64_t* counts = offsets.data() + tap * (blocks + 1) + 1;
    for (std::int64_t block = 0; block < blocks; ++block)
      counts[block] =
          std::count_if(neighbour + block * kPairBlock, neighbour + std::min(table.rows, (block + 1) * kPairBlock),
                        [](std::int32_t row) { return row >= 0; });
  });
  std::int64_t next = 0;
  for (std::int64_t tap = 0; tap < table.taps; ++tap) {
    std::int64_t* of_tap = offsets.data() + tap * (blocks + 1);
    of_tap[0] = next;
    for (std::int64_t block = 1; block <= blocks; ++block) of_tap[block] = next += of_tap[block];
  }
  return offsets;
}

void write_pairs(const NeighbourTable& table, const std::int64_t* offsets, std::int32_t* neighbours, std::int32_t* rows,
                 const ParallelFor& parallel) {
  const std::int64_t blocks = ceil_divide(table.rows, kPairBlock);
  run_tasks(parallel, table.taps, 0, [&](std::int64_t tap, std::byte*) {
    const std::int32_t* neighbour = table.neighbour.data() + tap * table.rows;
    std::int64_t pair = offsets[tap * (blocks + 1)];
    for (std::int64_t row = 0; row < table.rows; ++row) {
      if (neighbour[row] < 0) continue;
      neighbours[pair] = neighbour[row];
      rows[pair++] = static_cast<std::int32_t>(row);
    }
  });
}

}  // namespace camber::kernels
