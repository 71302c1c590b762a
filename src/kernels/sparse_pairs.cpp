#include "kernels/sparse_pairs.h"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>

#include "kernels/dispatch.h"
#include "kernels/slots.h"

namespace camber::kernels {
namespace {

struct Site {
  std::int64_t batch;
  Cell at;
};

Site site_of(const std::int32_t* coordinates, std::int64_t row) {
  const std::int32_t* c = coordinates + 4 * row;
  return {c[0], {c[1], c[2], c[3]}};
}

bool is_inside(const Cell& at, const Cell& shape) {
  return at[0] >= 0 && at[0] < shape[0] && at[1] >= 0 && at[1] < shape[1] && at[2] >= 0 && at[2] < shape[2];
}

// Active cells and the row of each, by its number.
struct RowsOfCells {
  ActiveCells cells;
  std::vector<std::int32_t> row{};
};

// The input's cells, and its rows inside the grid in their order.
struct Input {
  const std::int32_t* coordinates;
  std::int64_t rows;
  RowsOfCells found;
  std::vector<std::int32_t> kept{};

  Input(const SparseGeometry& g, const std::int32_t* given, std::int64_t count)
      : coordinates(given), rows(count), found{ActiveCells(g.batches, g.input_shape)} {
    kept.reserve(static_cast<std::size_t>(rows));
    for (std::int64_t r = 0; r < rows; ++r) {
      const Site site = site_of(coordinates, r);
      if (!is_inside(site.at, g.input_shape)) continue;
      const std::int64_t index = found.cells.index(site.batch, site.at);
      if (found.cells.contains(index)) refuse_twice(site);
      found.cells.insert(index);
      kept.push_back(static_cast<std::int32_t>(r));
    }
    found.cells.number_cells();
    found.row = rows_by_number([&](std::size_t i) { return kept[i]; });
  }

  // value(i) for the i-th kept row, by the number of its cell.
  template <class Value>
  std::vector<std::int32_t> rows_by_number(const Value& value) const {
    std::vector<std::int32_t> by_number(kept.size());
    for (std::size_t i = 0; i < kept.size(); ++i) {
      const Site site = site_of(coordinates, kept[i]);
      by_number[static_cast<std::size_t>(found.cells.number(found.cells.index(site.batch, site.at)))] = value(i);
    }
    return by_number;
  }

  [[noreturn]] static void refuse_twice(const Site& site) {
    throw std::invalid_argument("coordinates must hold every site once, got (" + std::to_string(site.batch) + ", " +
                                std::to_string(site.at[0]) + ", " + std::to_string(site.at[1]) + ", " +
                                std::to_string(site.at[2]) + ") twice");
  }
};

// --- From outputs to inputs: which cells the taps of a site read ---

// The taps along x come many at a time, as bits of neighbouring cells.
class TapReader {
 public:
  TapReader(const SparseGeometry& g, const RowsOfCells& input) : g_(g), input_(input) {
    for (std::int64_t x = 0; x < 64; x += g.dilation[2]) spaced_ |= std::uint64_t{1} << x;
    at_once_ = 63 / g.dilation[2] + 1;
  }

  // visit(tap, input row) of an output site, by rising tap.
  template <class Visit>
  void read(const Site& site, const Visit& visit) const {
    Cell origin;
    for (std::size_t d = 0; d < 3; ++d) origin[d] = site.at[d] * g_.stride[d] - g_.padding[d];
    const Cell& shape = g_.input_shape;
    // The taps along x that stay inside the grid.
    const std::int64_t first = origin[2] >= 0 ? 0 : ceil_divide(-origin[2], g_.dilation[2]);
    const std::int64_t room = shape[2] - 1 - origin[2];
    const std::int64_t end = room < 0 ? 0 : std::min(g_.kernel[2], room / g_.dilation[2] + 1);
    for (std::int64_t kz = 0, z = origin[0]; kz < g_.kernel[0]; ++kz, z += g_.dilation[0]) {
      if (z < 0 || z >= shape[0]) continue;
      for (std::int64_t ky = 0, y = origin[1]; ky < g_.kernel[1]; ++ky, y += g_.dilation[1]) {
        if (y < 0 || y >= shape[1]) continue;
        const std::int64_t row = input_.cells.index(site.batch, {z, y, origin[2]});
        for (std::int64_t kx = first; kx < end; kx += at_once_)
          read_bits((kz * g_.kernel[1] + ky) * g_.kernel[2], row, kx, end, visit);
      }
    }
  }

 private:
  // Taps kx .. end of a row, as many as fit a window.
  template <class Visit>
  void read_bits(std::int64_t first_tap, std::int64_t row, std::int64_t kx, std::int64_t end,
                 const Visit& visit) const {
    const std::int64_t index = row + kx * g_.dilation[2], taps = std::min(at_once_, end - kx);
    const std::uint64_t wanted = spaced_ & (~std::uint64_t{0} >> (63 - (taps - 1) * g_.dilation[2]));
    for (std::uint64_t bits = input_.cells.window(index) & wanted; bits != 0; bits &= bits - 1) {
      const std::int64_t step = std::countr_zero(bits);
      const std::int64_t tap = g_.dilation[2] == 1 ? step : step / g_.dilation[2];
      visit(first_tap + kx + tap, input_.row[static_cast<std::size_t>(input_.cells.number(index + step))]);
    }
  }

  const SparseGeometry& g_;
  const RowsOfCells& input_;
  std::uint64_t spaced_ = 0;  // bits at multiples of the dilation
  std::int64_t at_once_ = 1;
};

// --- From inputs to outputs: which sites a row falls on, and by which taps ---

class TapWriter {
 public:
  explicit TapWriter(const SparseGeometry& g) : g_(g) {
    for (std::size_t d = 0; d < 3; ++d)
      for (std::int64_t t = 0; t < g.kernel[d]; ++t)
        reach_[d].push_back({t * g.dilation[d] / g.stride[d], t * g.dilation[d] % g.stride[d]});
  }

  // visit(tap, index of the output cell) of an input site inside the grid, by rising tap.
  template <class Visit>
  void write(const ActiveCells& outputs, const Site& site, const Visit& visit) const {
    std::array<Step, 3> at;
    for (std::size_t d = 0; d < 3; ++d) {
      const std::int64_t padded = site.at[d] + g_.padding[d];
      at[d] = {padded / g_.stride[d], padded % g_.stride[d]};
    }
    for_taps(0, at[0], [&](std::int64_t kz, std::int64_t z) {
      for_taps(1, at[1], [&](std::int64_t ky, std::int64_t y) {
        const std::int64_t row = outputs.index(site.batch, {z, y, 0}), tap = (kz * g_.kernel[1] + ky) * g_.kernel[2];
        for_taps(2, at[2], [&](std::int64_t kx, std::int64_t x) { visit(tap + kx, row + x); });
      });
    });
  }

 private:
  // A length as strides and what is left.
  struct Step {
    std::int64_t strides, left;
  };

  // visit(tap, output position) along one axis, for the taps from which the input lies a whole number of strides.
  template <class Visit>
  void for_taps(std::size_t d, const Step& at, const Visit& visit) const {
    for (std::size_t t = 0; t < reach_[d].size(); ++t) {
      const Step& reach = reach_[d][t];
      const std::int64_t output = at.strides - reach.strides;
      if (at.left == reach.left && output >= 0 && output < g_.output_shape[d])
        visit(static_cast<std::int64_t>(t), output);
    }
  }

  const SparseGeometry& g_;
  std::array<std::vector<Step>, 3> reach_;  // how far each tap of an axis reaches
};

// --- The lists ---

// Fills the lists from for_row(row, visit(tap, neighbour)), which is gone through twice: to count and to write.
template <class ForRow>
void list_pairs(std::int64_t taps, std::int64_t rows, const ParallelFor& parallel, const ForRow& for_row,
                PairMemory& memory) {
  constexpr std::int64_t kBlocks = 16;  // of a task
  const std::int64_t blocks = ceil_divide(rows, kPairBlock), stride = blocks + 1;
  memory.offsets.assign(static_cast<std::size_t>(taps * stride), 0);
  std::int64_t* offsets = memory.offsets.data();
  const auto for_blocks = [&](const auto& visit_block) {
    run_tasks(parallel, ceil_divide(blocks, kBlocks), static_cast<std::size_t>(taps) * sizeof(std::int64_t),
              [&](std::int64_t task, std::byte* scratch) {
                for (std::int64_t b = task * kBlocks; b < std::min(blocks, (task + 1) * kBlocks); ++b)
                  visit_block(b, std::min(rows, (b + 1) * kPairBlock), reinterpret_cast<std::int64_t*>(scratch));
              });
  };
  for_blocks([&](std::int64_t block, std::int64_t end, std::int64_t* counts) {
    std::fill_n(counts, taps, 0);
    for (std::int64_t row = block * kPairBlock; row < end; ++row)
      for_row(row, [&](std::int64_t tap, std::int32_t) { ++counts[tap]; });
    for (std::int64_t tap = 0; tap < taps; ++tap) offsets[tap * stride + block + 1] = counts[tap];
  });
  std::int64_t next = 0;
  for (std::int64_t tap = 0; tap < taps; ++tap)
    for (std::int64_t i = tap * stride; i < (tap + 1) * stride; ++i) offsets[i] = next += offsets[i];
  std::int32_t *from = memory.from(next), *to = memory.to(next);
  for_blocks([&](std::int64_t block, std::int64_t end, std::int64_t* position) {
    for (std::int64_t tap = 0; tap < taps; ++tap) position[tap] = offsets[tap * stride + block];
    for (std::int64_t row = block * kPairBlock; row < end; ++row)
      for_row(row, [&](std::int64_t tap, std::int32_t neighbour) {
        const std::int64_t pair = position[tap]++;
        from[pair] = neighbour;
        to[pair] = static_cast<std::int32_t>(row);
      });
  });
}

// (batch, z, y, x) of the cells, in order.
void write_coordinates(const ActiveCells& cells, std::int32_t* to) {
  const Cell& shape = cells.shape();
  Site site{0, {0, 0, 0}};
  std::int64_t row = -1;  // index of the first cell of the site's row, once there is one
  cells.for_each([&](std::int64_t index) {
    if (row < 0 || index >= row + shape[2]) {
      const std::int64_t rows = index / shape[2], slices = rows / shape[1];
      site = {slices / shape[0], {slices % shape[0], rows % shape[1], 0}};
      row = rows * shape[2];
    }
    *to++ = static_cast<std::int32_t>(site.batch);
    *to++ = static_cast<std::int32_t>(site.at[0]);
    *to++ = static_cast<std::int32_t>(site.at[1]);
    *to++ = static_cast<std::int32_t>(index - row);
  });
}

// The kept rows' coordinates, in their order.
const std::int32_t* keep_coordinates(const Input& input, SparseSites& sites) {
  sites.outputs = static_cast<std::int64_t>(input.kept.size());
  std::int32_t* const coordinates = sites.coordinates(4 * sites.outputs);
  std::int32_t* to = coordinates;
  for (const std::int32_t row : input.kept) to = std::copy_n(input.coordinates + 4 * std::int64_t{row}, 4, to);
  return coordinates;
}

// Finds the cells that the kept rows fall on, and writes their coordinates.
const std::int32_t* find_outputs(const Input& input, const TapWriter& writer, ActiveCells& outputs,
                                 SparseSites& sites) {
  for (const std::int32_t row : input.kept)
    writer.write(outputs, site_of(input.coordinates, row),
                 [&](std::int64_t, std::int64_t index) { outputs.insert(index); });
  sites.outputs = outputs.number_cells();
  std::int32_t* const coordinates = sites.coordinates(4 * sites.outputs);
  write_coordinates(outputs, coordinates);
  return coordinates;
}

// Fills `back`; output_row(index of a cell) is -1 where no output lies.
template <class OutputRow>
void list_back_pairs(const SparseGeometry& g, const Input& input, const TapWriter& writer, const ActiveCells& outputs,
                     const OutputRow& output_row, const ParallelFor& parallel, SparseSites& sites) {
  const auto for_row = [&](std::int64_t row, const auto& visit) {
    const Site site = site_of(input.coordinates, row);
    if (!is_inside(site.at, g.input_shape)) return;
    writer.write(outputs, site, [&](std::int64_t tap, std::int64_t index) {
      if (const std::int32_t output = output_row(index); output >= 0) visit(tap, output);
    });
  };
  list_pairs(g.taps(), input.rows, parallel, for_row, sites.back);
}

}  // namespace

void find_sites(const SparseGeometry& geometry, bool submanifold, const std::int32_t* coordinates, std::int64_t rows,
                const ParallelFor& parallel, SparseSites& sites) {
  const Input input(geometry, coordinates, rows);
  const TapWriter writer(geometry);
  ActiveCells outputs(submanifold ? 0 : geometry.batches, geometry.output_shape);
  const std::int32_t* of_outputs =
      submanifold ? keep_coordinates(input, sites) : find_outputs(input, writer, outputs, sites);
  sites.dropped = rows - static_cast<std::int64_t>(input.kept.size());
  sites.mirrored = submanifold && sites.dropped == 0;
  const TapReader reader(geometry, input.found);
  list_pairs(
      geometry.taps(), sites.outputs, parallel,
      [&](std::int64_t row, const auto& visit) { reader.read(site_of(of_outputs, row), visit); }, sites.forward);
  if (sites.mirrored) return;
  if (!submanifold)
    return list_back_pairs(
        geometry, input, writer, outputs, [&](std::int64_t index) { return outputs.number(index); }, parallel, sites);
  // Output rows count the kept rows.
  const ActiveCells& cells = input.found.cells;
  const auto row_of = input.rows_by_number([](std::size_t i) { return static_cast<std::int32_t>(i); });
  const auto output_row = [&](std::int64_t index) {
    return cells.contains(index) ? row_of[static_cast<std::size_t>(cells.number(index))] : -1;
  };
  list_back_pairs(geometry, input, writer, cells, output_row, parallel, sites);
}

}  // namespace camber::kernels
