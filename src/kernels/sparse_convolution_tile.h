#pragma once
#include "kernels/arena.h"
#include "kernels/numbers.h"
#include "kernels/sparse_convolution_task.h"

// The loops of sparse convolution for one instruction set. A task owns a tile of output rows and goes tap by tap: the
// rows that a tap reads are gathered a few at a time, multiplied with its weight in registers and added to the tile.
namespace camber::kernels {
namespace {

// Words of a gathered row: channels beyond them wait for the next round.
inline constexpr int kGatherWords = 128;
// Pairs gathered at a time, a multiple of every tile's rows: with a panel of the weight they fit the first cache.
inline constexpr int kGatherPairs = 48;
static_assert(kGatherPairs % kTileRows == 0);

inline std::int64_t padded_width(std::int64_t width) {
  return (width + kLanes - 1) / kLanes * kLanes;
}

template <class Numbers>
inline std::int64_t words_of(std::int64_t channels) {
  return (channels + Numbers::kPerWord - 1) / Numbers::kPerWord;
}

// --- The weight of a tap as panels [columns / kPanel][words][kPanel], the last maybe of kLanes columns ---

struct PackScratch {
  const void** rows;  // [output channels, padded to panels]
  float* staged;      // the rows as floats, where they are not
  float* zeros;       // a row of channels that do not exist
  float* panel;       // the last panel at its full width
};

template <class Numbers>
inline PackScratch lay_out_pack(Arena& arena, const ConvolutionJob& job) {
  const ConvolutionProblem& p = job.problem;
  const std::int64_t rows = p.transposed ? p.from_width : p.to_width, width = p.transposed ? p.to_width : p.from_width;
  PackScratch s{};
  s.rows = arena.take<const void*>(rows + kPanel);
  s.staged = arena.take<float>((rows + kPanel) * (width + 1));
  s.zeros = arena.take<float>(width);
  s.panel = arena.take<float>(words_of<Numbers>(width) * kPanel);
  return s;
}

template <class Numbers>
inline std::int64_t packed_words(const ConvolutionProblem& p) {
  return words_of<Numbers>(p.from_width) * padded_width(p.to_width);
}

template <class Numbers, class T>
void pack_tap_of(const ConvolutionJob& job, std::int64_t tap, std::byte* memory) {
  using Word = typename Numbers::Word;
  const ConvolutionProblem& p = job.problem;
  Arena arena{memory};
  const PackScratch s = lay_out_pack<Numbers>(arena, job);
  auto* packed = reinterpret_cast<Word*>(job.packed + static_cast<std::size_t>(tap) * job.tap_bytes);
  const std::int64_t rows = p.transposed ? p.from_width : p.to_width, width = p.transposed ? p.to_width : p.from_width;
  const T* weight = static_cast<const T*>(p.weight) + tap * width;
  for (std::int64_t d = 0; d < width; ++d) s.zeros[d] = 0;
  for (std::int64_t row = 0; row < rows + kPanel; ++row)
    s.rows[row] = row < rows ? static_cast<const void*>(weight + row * p.taps * width) : s.zeros;
  const int steps = static_cast<int>(rows), columns = static_cast<int>(width);
  if (p.transposed) return Numbers::template pack_values<T>(s.rows, steps, columns, s.staged, packed);
  // Panels of a full width, but where half of the last one would be empty.
  const int whole = padded_width(rows) % kPanel == 0 ? round_up(steps, kPanel) : steps / kPanel * kPanel;
  const std::int64_t words = words_of<Numbers>(width);
  if (whole > 0) Numbers::template pack_keys<T>(s.rows, whole, columns, s.staged, packed);
  if (whole >= rows) return;
  auto* panel = reinterpret_cast<Word*>(s.panel);
  Numbers::template pack_keys<T>(s.rows + whole, kPanel, columns, s.staged, panel);
  packed += words * whole;
  for (std::int64_t k = 0; k < words; ++k)
    for (int lane = 0; lane < kLanes; ++lane) packed[k * kLanes + lane] = panel[k * kPanel + lane];
}

// --- Rows gathered ---

inline void gather_row(const float* row, int channels, float* to) {
  int d = 0;
  for (; d + kLanes <= channels; d += kLanes) store(to + d, load(row + d));
  if (d < channels) store(to + d, load_first(row + d, channels - d));
}
inline void gather_row(const std::uint16_t* row, int channels, float* to) {
  for (int d = 0; d < channels; ++d) to[d] = to_float(row[d]);
}
// Pairs of bfloat16, the last one filled up with 0.
inline void gather_row(const std::uint16_t* row, int channels, std::uint32_t* to) {
  const int words = channels / 2;
  gather_row(reinterpret_cast<const float*>(row), words, reinterpret_cast<float*>(to));
  if (channels % 2 != 0) to[words] = row[channels - 1];
}

// --- A tile of output rows ---

struct TileScratch {
  float* sums;      // [rows + 1][padded width]: the last row takes what belongs to none
  float* gathered;  // [kGatherPairs][kGatherWords] words
  float** to;       // [kGatherPairs]: the row of sums of each pair
};

inline std::int64_t rows_of_tile(const ConvolutionJob& job) {
  return job.tile_blocks * kPairBlock;
}

inline TileScratch lay_out_tile(Arena& arena, const ConvolutionJob& job) {
  TileScratch s{};
  s.sums = arena.take<float>((rows_of_tile(job) + 1) * padded_width(job.problem.to_width));
  s.gathered = arena.take<float>(kGatherPairs * kGatherWords);
  s.to = arena.take<float*>(kGatherPairs);
  return s;
}

// to[i][0 .. N * kLanes) += a's row i times a panel. Not inlined: see add_product.
template <class Numbers, int M, int N>
__attribute__((noinline)) void add_gathered(const typename Numbers::Word* a, const typename Numbers::Word* panel,
                                            int steps, float* const* to, std::int64_t column) {
  Sums<M, N> sums;
  clear(sums);
  multiply<Numbers, kGatherWords, 1>(sums, a, panel, steps);
#pragma GCC unroll 16
  for (int i = 0; i < M; ++i) {
    float* row = to[i] + column;
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n) store(row + n * kLanes, add(load(row + n * kLanes), sums.at[i][n]));
  }
}

// All groups of gathered rows times one panel of N vectors.
template <class Numbers, int N>
inline void add_panel(const TileScratch& s, int count, const typename Numbers::Word* panel, int steps,
                      std::int64_t column) {
  const auto* gathered = reinterpret_cast<const typename Numbers::Word*>(s.gathered);
  for (int first = 0; first < count; first += kTileRows)
    with_tile_rows(count - first, [&]<int M>() {
      add_gathered<Numbers, M, N>(gathered + first * kGatherWords, panel, steps, s.to + first, column);
    });
}

// Gathers pairs first .. first + count of a tap, channels `channel` .. of them, and adds their products.
template <class Numbers, class T>
inline void add_pairs(const ConvolutionJob& job, const TileScratch& s, std::int64_t tap, std::int64_t first, int count,
                      std::int64_t channel) {
  using Word = typename Numbers::Word;
  const ConvolutionProblem& p = job.problem;
  const std::int64_t left = p.from_width - channel, most = kGatherWords * Numbers::kPerWord;
  const int channels = static_cast<int>(left < most ? left : most);
  const int steps = static_cast<int>(words_of<Numbers>(channels));
  auto* gathered = reinterpret_cast<Word*>(s.gathered);
  for (int i = 0; i < count; ++i)
    gather_row(static_cast<const T*>(p.x) + p.pairs.from[first + i] * p.from_width + channel, channels,
               gathered + i * kGatherWords);
  const std::int64_t words = words_of<Numbers>(p.from_width), width = padded_width(p.to_width);
  const auto* panel = reinterpret_cast<const Word*>(job.packed + static_cast<std::size_t>(tap) * job.tap_bytes);
  std::int64_t column = 0;
  for (; column + kPanel <= width; column += kPanel, panel += words * kPanel)
    add_panel<Numbers, 2>(s, count, panel + channel / Numbers::kPerWord * kPanel, steps, column);
  if (column < width) add_panel<Numbers, 1>(s, count, panel + channel / Numbers::kPerWord * kLanes, steps, column);
}

inline void write_row(const float* sums, std::int64_t width, float* to) {
  std::int64_t d = 0;
  for (; d + kLanes <= width; d += kLanes) store(to + d, load(sums + d));
  if (d < width) store_first(to + d, load(sums + d), static_cast<int>(width - d));
}
inline void write_row(const float* sums, std::int64_t width, std::uint16_t* to) {
  for (std::int64_t d = 0; d < width; ++d) to[d] = to_bfloat(sums[d]);
}

template <class Numbers, class T>
void convolve_tile_of(const ConvolutionJob& job, std::int64_t tile, std::byte* memory) {
  const ConvolutionProblem& p = job.problem;
  Arena arena{memory};
  const TileScratch s = lay_out_tile(arena, job);
  const std::int64_t blocks = (p.to_rows + kPairBlock - 1) / kPairBlock, width = padded_width(p.to_width);
  const std::int64_t first_block = tile * job.tile_blocks, first_row = first_block * kPairBlock;
  const std::int64_t end_block = first_block + job.tile_blocks < blocks ? first_block + job.tile_blocks : blocks;
  const std::int64_t rows = (end_block * kPairBlock < p.to_rows ? end_block * kPairBlock : p.to_rows) - first_row;
  for (std::int64_t d = 0; d < rows * width; d += kLanes) store(s.sums + d, zero());
  float* nowhere = s.sums + rows_of_tile(job) * width;
  for (std::int64_t tap = 0; tap < p.taps; ++tap) {
    const std::int64_t* offsets = p.pairs.offsets + tap * (blocks + 1);
    for (std::int64_t first = offsets[first_block], end = offsets[end_block]; first < end; first += kGatherPairs) {
      const int count = static_cast<int>(end - first < kGatherPairs ? end - first : kGatherPairs);
      for (int i = 0; i < kGatherPairs; ++i)
        s.to[i] = i < count ? s.sums + (p.pairs.to[first + i] - first_row) * width : nowhere;
      for (std::int64_t channel = 0; channel < p.from_width; channel += kGatherWords * Numbers::kPerWord)
        add_pairs<Numbers, T>(job, s, tap, first, count, channel);
    }
  }
  for (std::int64_t row = 0; row < rows; ++row)
    write_row(s.sums + row * width, p.to_width, static_cast<T*>(job.output) + (first_row + row) * p.to_width);
}

}  // namespace
}  // namespace camber::kernels
