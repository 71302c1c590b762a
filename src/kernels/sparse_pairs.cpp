#include "camber/kernels/sparse_pairs.h"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>

#include "kernels/active_cells.h"
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
    found.row.resize(kept.size());
    for (const std::int32_t r : kept) {
      const Site site = site_of(coordinates, r);
      found.row[static_cast<std::size_t>(found.cells.number(found.cells.index(site.batch, site.at)))] = r;
    }
  }

  [[noreturn]] static void refuse_twice(const Site& site) {
    throw std::invalid_argument("coordinates must hold every site once, got (" + std::to_string(site.batch) + ", " +
                                std::to_string(site.at[0]) + ", " + std::to_string(site.at[1]) + ", " +
                                std::to_string(site.at[2]) + ") twice");
  }
};

// --- From outputs to inputs: which cells the taps of a site read ---

// A bit for every tap that finds a cell, in words of 64 taps; the taps along x come many at a time, as bits of
// neighbouring cells. Few branches, and none that depends on what is found.
class TapReader {
 public:
  TapReader(const SparseGeometry& g, const RowsOfCells& input)
      : g_(g), input_(input), words_(ceil_divide(g.taps(), 64)), at_once_(63 / g.dilation[2] + 1) {
    for (std::int64_t x = 0; x < 64; x += g.dilation[2]) spaced_ |= std::uint64_t{1} << x;
    for (std::int64_t kz = 0; kz < g.kernel[0]; ++kz)
      for (std::int64_t ky = 0; ky < g.kernel[1]; ++ky)
        for (std::int64_t kx = 0; kx < g.kernel[2]; ++kx)
          offset_.push_back(input.cells.index(0, {kz * g.dilation[0], ky * g.dilation[1], kx * g.dilation[2]}));
  }

  std::int64_t words() const { return words_; }

  // found[words()]: the taps of an output site that read an active cell.
  void find(const Site& site, std::uint64_t* found) const {
    std::fill_n(found, words_, 0);
    const Cell origin = origin_of(site), &shape = g_.input_shape;
    // The taps along x that stay inside the grid.
    const std::int64_t first = origin[2] >= 0 ? 0 : ceil_divide(-origin[2], g_.dilation[2]);
    const std::int64_t room = shape[2] - 1 - origin[2];
    const std::int64_t reach = (g_.kernel[2] - 1) * g_.dilation[2];
    const std::int64_t end = room >= reach ? g_.kernel[2] : room < 0 ? 0 : room / g_.dilation[2] + 1;
    for (std::int64_t kz = 0, z = origin[0]; kz < g_.kernel[0]; ++kz, z += g_.dilation[0]) {
      if (z < 0 || z >= shape[0]) continue;
      for (std::int64_t ky = 0, y = origin[1]; ky < g_.kernel[1]; ++ky, y += g_.dilation[1]) {
        if (y < 0 || y >= shape[1]) continue;
        const std::int64_t row = input_.cells.index(site.batch, {z, y, origin[2]});
        for (std::int64_t kx = first; kx < end; kx += at_once_)
          put((kz * g_.kernel[1] + ky) * g_.kernel[2] + kx, row + kx * g_.dilation[2], std::min(at_once_, end - kx),
              found);
      }
    }
  }

  // visit(tap, input row) of the taps found, by rising tap.
  template <class Visit>
  void for_found(const Site& site, const std::uint64_t* found, const Visit& visit) const {
    const std::int64_t origin = input_.cells.index(site.batch, origin_of(site));
    for_taps(found, [&](std::int64_t tap) {
      const std::int64_t index = origin + offset_[static_cast<std::size_t>(tap)];
      visit(tap, input_.row[static_cast<std::size_t>(input_.cells.number(index))]);
    });
  }
  template <class Visit>
  void for_taps(const std::uint64_t* found, const Visit& visit) const {
    for (std::int64_t word = 0; word < words_; ++word)
      for (std::uint64_t bits = found[word]; bits != 0; bits &= bits - 1) visit(64 * word + std::countr_zero(bits));
  }

 private:
  Cell origin_of(const Site& site) const {
    Cell origin;
    for (std::size_t d = 0; d < 3; ++d) origin[d] = site.at[d] * g_.stride[d] - g_.padding[d];
    return origin;
  }

  // Taps tap .. tap + count along x, from the cell `index` on.
  void put(std::int64_t tap, std::int64_t index, std::int64_t count, std::uint64_t* found) const {
    const std::uint64_t wanted = spaced_ & (~std::uint64_t{0} >> (63 - (count - 1) * g_.dilation[2]));
    std::uint64_t bits = input_.cells.window(index) & wanted;
    if (g_.dilation[2] != 1) bits = closed_up(bits);
    found[tap / 64] |= bits << (tap % 64);
    if (tap % 64 + count > 64) found[tap / 64 + 1] |= bits >> (64 - tap % 64);
  }
  // Bits at multiples of the dilation, next to each other.
  std::uint64_t closed_up(std::uint64_t bits) const {
    std::uint64_t closed = 0;
    for (; bits != 0; bits &= bits - 1) closed |= std::uint64_t{1} << (std::countr_zero(bits) / g_.dilation[2]);
    return closed;
  }

  const SparseGeometry& g_;
  const RowsOfCells& input_;
  std::int64_t words_, at_once_;
  std::uint64_t spaced_ = 0;            // bits at multiples of the dilation
  std::vector<std::int64_t> offset_{};  // from a site's origin to the cell of each tap
};

// --- From inputs to outputs: which sites have a tap on a row ---

class TapWriter {
 public:
  explicit TapWriter(const SparseGeometry& g) : g_(g) {
    for (std::size_t d = 0; d < 3; ++d)
      for (std::int64_t t = 0; t < g.kernel[d]; ++t)
        reach_[d].push_back({t * g.dilation[d] / g.stride[d], t * g.dilation[d] % g.stride[d]});
  }

  // visit(index of the output cell) of an input site inside the grid.
  template <class Visit>
  void write(const ActiveCells& outputs, const Site& site, const Visit& visit) const {
    std::array<Step, 3> at;
    for (std::size_t d = 0; d < 3; ++d) {
      const std::int64_t padded = site.at[d] + g_.padding[d];
      at[d] = {padded / g_.stride[d], padded % g_.stride[d]};
    }
    for_outputs(0, at[0], [&](std::int64_t z) {
      for_outputs(1, at[1], [&](std::int64_t y) {
        const std::int64_t row = outputs.index(site.batch, {z, y, 0});
        for_outputs(2, at[2], [&](std::int64_t x) { visit(row + x); });
      });
    });
  }

 private:
  // A length as strides and what is left.
  struct Step {
    std::int64_t strides, left;
  };

  // visit(output position) along one axis, for the taps from which the input lies a whole number of strides.
  template <class Visit>
  void for_outputs(std::size_t d, const Step& at, const Visit& visit) const {
    for (const Step& reach : reach_[d]) {
      const std::int64_t output = at.strides - reach.strides;
      if (at.left == reach.left && output >= 0 && output < g_.output_shape[d]) visit(output);
    }
  }

  const SparseGeometry& g_;
  std::array<std::vector<Step>, 3> reach_;  // how far each tap of an axis reaches
};

// --- The lists ---

// Makes positions of counts, each of which stands one behind its own, and takes memory for all pairs.
PairLists take_lists(PairMemory& memory, std::int32_t*& from, std::int32_t*& to) {
  std::int64_t next = 0;
  for (std::int64_t& offset : memory.offsets) offset = next += offset;
  from = memory.from(next);
  to = memory.to(next);
  return {.from = from, .to = to, .offsets = memory.offsets.data()};
}

// The pairs of every output row, by tap and output row.
PairLists list_forward(const TapReader& reader, std::int64_t taps, const std::int32_t* outputs, std::int64_t rows,
                       const ParallelFor& parallel, PairMemory& memory) {
  constexpr std::int64_t kBlocks = 16;  // of a task
  const std::int64_t blocks = ceil_divide(rows, kPairBlock), stride = blocks + 1, words = reader.words();
  memory.offsets.assign(static_cast<std::size_t>(taps * stride), 0);
  std::int64_t* offsets = memory.offsets.data();
  const auto found = std::make_unique_for_overwrite<std::uint64_t[]>(static_cast<std::size_t>(rows * words));
  // visit_block(block, first row, end row, a number for every tap)
  const auto for_blocks = [&](const auto& visit_block) {
    run_tasks(
        parallel, ceil_divide(blocks, kBlocks), static_cast<std::size_t>(taps) * sizeof(std::int64_t),
        [&](std::int64_t task, std::byte* scratch) {
          for (std::int64_t b = task * kBlocks; b < std::min(blocks, (task + 1) * kBlocks); ++b)
            visit_block(b, b * kPairBlock, std::min(rows, (b + 1) * kPairBlock),
                        reinterpret_cast<std::int64_t*>(scratch));
        });
  };
  for_blocks([&](std::int64_t block, std::int64_t first, std::int64_t end, std::int64_t* counts) {
    std::fill_n(counts, taps, 0);
    for (std::int64_t row = first; row < end; ++row) {
      reader.find(site_of(outputs, row), found.get() + row * words);
      reader.for_taps(found.get() + row * words, [&](std::int64_t tap) { ++counts[tap]; });
    }
    for (std::int64_t tap = 0; tap < taps; ++tap) offsets[tap * stride + block + 1] = counts[tap];
  });
  std::int32_t *from = nullptr, *to = nullptr;
  const PairLists lists = take_lists(memory, from, to);
  for_blocks([&](std::int64_t block, std::int64_t first, std::int64_t end, std::int64_t* position) {
    for (std::int64_t tap = 0; tap < taps; ++tap) position[tap] = offsets[tap * stride + block];
    for (std::int64_t row = first; row < end; ++row)
      reader.for_found(site_of(outputs, row), found.get() + row * words, [&](std::int64_t tap, std::int32_t input) {
        const std::int64_t pair = position[tap]++;
        from[pair] = input;
        to[pair] = static_cast<std::int32_t>(row);
      });
  });
  return lists;
}

// The same pairs, from output to input, by tap and input row; a tap has at most one for each input row.
void list_back(const PairLists& forward, std::int64_t taps, std::int64_t outputs, std::int64_t inputs,
               const ParallelFor& parallel, PairMemory& memory) {
  const std::int64_t forward_stride = ceil_divide(outputs, kPairBlock) + 1,
                     stride = ceil_divide(inputs, kPairBlock) + 1;
  memory.offsets.assign(static_cast<std::size_t>(taps * stride), 0);
  const auto first_of = [&](std::int64_t tap) { return forward.offsets[tap * forward_stride]; };
  const auto end_of = [&](std::int64_t tap) { return forward.offsets[(tap + 1) * forward_stride - 1]; };
  run_tasks(parallel, taps, 0, [&](std::int64_t tap, std::byte*) {
    std::int64_t* counts = memory.offsets.data() + tap * stride + 1;
    for (std::int64_t pair = first_of(tap); pair < end_of(tap); ++pair) ++counts[forward.from[pair] / kPairBlock];
  });
  std::int32_t *from = nullptr, *to = nullptr;
  take_lists(memory, from, to);
  run_tasks(parallel, taps, static_cast<std::size_t>(inputs) * sizeof(std::int32_t),
            [&](std::int64_t tap, std::byte* scratch) {
              const std::int64_t begin = first_of(tap), end = end_of(tap);
              std::int64_t next = memory.offsets[static_cast<std::size_t>(tap * stride)];
              // Sorted sites give sorted rows on both sides.
              if (std::is_sorted(forward.from + begin, forward.from + end)) {
                std::copy(forward.to + begin, forward.to + end, from + next);
                std::copy(forward.from + begin, forward.from + end, to + next);
                return;
              }
              auto* output_of = reinterpret_cast<std::int32_t*>(scratch);
              std::fill_n(output_of, inputs, -1);
              for (std::int64_t pair = begin; pair < end; ++pair) output_of[forward.from[pair]] = forward.to[pair];
              for (std::int64_t row = 0; row < inputs; ++row) {
                if (output_of[row] < 0) continue;
                from[next] = output_of[row];
                to[next++] = static_cast<std::int32_t>(row);
              }
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
const std::int32_t* find_outputs(const SparseGeometry& g, const Input& input, SparseSites& sites) {
  const TapWriter writer(g);
  ActiveCells outputs(g.batches, g.output_shape);
  for (const std::int32_t row : input.kept)
    writer.write(outputs, site_of(input.coordinates, row), [&](std::int64_t index) { outputs.insert(index); });
  sites.outputs = outputs.number_cells();
  std::int32_t* const coordinates = sites.coordinates(4 * sites.outputs);
  write_coordinates(outputs, coordinates);
  return coordinates;
}

}  // namespace

void find_sites(const SparseGeometry& geometry, bool submanifold, const std::int32_t* coordinates, std::int64_t rows,
                const ParallelFor& parallel, SparseSites& sites) {
  const Input input(geometry, coordinates, rows);
  const std::int32_t* outputs = submanifold ? keep_coordinates(input, sites) : find_outputs(geometry, input, sites);
  sites.dropped = rows - static_cast<std::int64_t>(input.kept.size());
  sites.mirrored = submanifold && sites.dropped == 0;
  const TapReader reader(geometry, input.found);
  const PairLists forward = list_forward(reader, geometry.taps(), outputs, sites.outputs, parallel, sites.forward);
  if (!sites.mirrored) list_back(forward, geometry.taps(), sites.outputs, rows, parallel, sites.back);
}

}  // namespace camber::kernels
