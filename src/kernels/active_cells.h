#pragma once
#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

namespace camber::kernels {

/// Sizes or positions along (z, y, x).
using Cell = std::array<std::int64_t, 3>;

/// Which cells of a few equal grids are active, a bit each, and how many active ones come before: the number of a cell
/// in sorted order without sorting or hashing. Cost follows the active cells, but for clearing the bits.
class ActiveCells {
 public:
  ActiveCells(std::int64_t grids, const Cell& shape) : shape_(shape) {
    const auto words = static_cast<std::size_t>(grids * shape[0] * shape[1] * shape[2]) / 64 + 2;
    words_.reset(static_cast<std::uint64_t*>(std::calloc(words, sizeof(std::uint64_t))));
    before_.reset(static_cast<std::int32_t*>(std::malloc(words * sizeof(std::int32_t))));
    if (words_ == nullptr || before_ == nullptr) throw std::bad_alloc();
    held_.resize(words / 64 + 1);
  }

  std::int64_t index(std::int64_t grid, const Cell& at) const {
    return ((grid * shape_[0] + at[0]) * shape_[1] + at[1]) * shape_[2] + at[2];
  }
  const Cell& shape() const { return shape_; }

  bool contains(std::int64_t index) const { return ((words_[index / 64] >> (index % 64)) & 1) != 0; }
  void insert(std::int64_t index) {
    words_[index / 64] |= std::uint64_t{1} << (index % 64);
    held_[static_cast<std::size_t>(index / 4096)] |= std::uint64_t{1} << (index / 64 % 64);
  }

  /// Numbers the active cells; returns how many there are. Called once, after the last insertion.
  std::int64_t number_cells() {
    std::int32_t count = 0;
    for_each_word([&](std::int64_t word, std::uint64_t bits) {
      before_[word] = count;
      count += count_bits(bits);
    });
    return count;
  }
  /// The number of an active cell.
  std::int32_t number(std::int64_t index) const {
    const std::uint64_t below = words_[index / 64] & ((std::uint64_t{1} << (index % 64)) - 1);
    return before_[index / 64] + count_bits(below);
  }
  /// The bits of the 64 cells from this index on.
  std::uint64_t window(std::int64_t index) const {
    const std::int64_t word = index / 64, shift = index % 64;
    return (words_[word] >> shift) | ((words_[word + 1] << 1) << (63 - shift));
  }
  /// visit(index) of every active cell, in order.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for_each_word([&](std::int64_t word, std::uint64_t bits) {
      for (; bits != 0; bits &= bits - 1) visit(word * 64 + std::countr_zero(bits));
    });
  }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };

  // Without the instruction, which not every CPU has, and without the table of the compiler's own replacement.
  static std::int32_t count_bits(std::uint64_t x) {
    x -= (x >> 1) & 0x5555555555555555;
    x = (x & 0x3333333333333333) + ((x >> 2) & 0x3333333333333333);
    x = (x + (x >> 4)) & 0x0F0F0F0F0F0F0F0F;
    return static_cast<std::int32_t>((x * 0x0101010101010101) >> 56);
  }
  template <class Visit>
  void for_each_word(const Visit& visit) const {
    for (std::size_t group = 0; group < held_.size(); ++group)
      for (std::uint64_t left = held_[group]; left != 0; left &= left - 1) {
        const std::int64_t word = static_cast<std::int64_t>(group) * 64 + std::countr_zero(left);
        visit(word, words_[word]);
      }
  }

  Cell shape_;
  std::unique_ptr<std::uint64_t[], Free> words_;  // and one beyond the last, for windows
  std::unique_ptr<std::int32_t[], Free> before_;  // of words that hold a cell
  std::vector<std::uint64_t> held_;               // which words do
};

}  // namespace camber::kernels
