#include "camber/kernels/sparse_convolution.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "kernels/dispatch.h"
#include "kernels/slots.h"

namespace camber::kernels {
namespace {

// Floats of sums that a tile keeps: they stay in the second cache beside the panels of a tap.
constexpr std::int64_t kTileFloats = 32768, kMostTileBlocks = 8;
// Pairs of a part of the weight's gradient at least, and floats of all parts together about at most.
constexpr std::int64_t kPartPairs = 4096, kPartFloats = std::int64_t{1} << 24;

struct FreeBytes {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using AlignedBytes = std::unique_ptr<std::byte, FreeBytes>;

// Not cleared; a multiple of the alignment.
AlignedBytes aligned_bytes(std::size_t bytes) {
  AlignedBytes memory(
      static_cast<std::byte*>(std::aligned_alloc(64, (std::max<std::size_t>(bytes, 1) + 63) / 64 * 64)));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

std::int64_t blocks_of(const ConvolutionProblem& p) {
  return ceil_divide(p.to_rows, kPairBlock);
}

// The pairs of every tap cut into parts of the same size at most, and the first part of every tap.
struct GradientParts {
  std::vector<PairPart> parts;
  std::vector<std::int64_t> first_of_tap{0};

  GradientParts(const ConvolutionProblem& p, std::int64_t part_size) {
    const std::int64_t blocks = blocks_of(p), pairs = p.taps == 0 ? 0 : largest(p);
    const std::int64_t size =
        std::max(kPartPairs, ceil_divide(pairs, std::max<std::int64_t>(1, kPartFloats / part_size)));
    for (std::int64_t tap = 0; tap < p.taps; ++tap) {
      const std::int64_t begin = p.pairs.offsets[tap * (blocks + 1)],
                         end = p.pairs.offsets[tap * (blocks + 1) + blocks];
      for (std::int64_t first = begin; first < end; first += size)
        parts.push_back({first, std::min(end, first + size)});
      first_of_tap.push_back(static_cast<std::int64_t>(parts.size()));
    }
  }

 private:
  static std::int64_t largest(const ConvolutionProblem& p) {
    const std::int64_t blocks = blocks_of(p);
    std::int64_t pairs = 0;
    for (std::int64_t tap = 0; tap < p.taps; ++tap)
      pairs += p.pairs.offsets[tap * (blocks + 1) + blocks] - p.pairs.offsets[tap * (blocks + 1)];
    return pairs;
  }
};

// gradient[o, tap, :] for all o: the parts of the tap, in their order.
void add_parts(const WeightGradientJob& job, std::int64_t row, std::int64_t tap, const GradientParts& cut,
               float* gradient) {
  const ConvolutionProblem& p = job.problem;
  const std::int64_t first = cut.first_of_tap[static_cast<std::size_t>(tap)],
                     end = cut.first_of_tap[static_cast<std::size_t>(tap) + 1];
  for (std::int64_t o = 0; o < p.to_width; ++o) {
    float* to = gradient + (o * p.taps + tap) * p.from_width;
    std::fill_n(to, p.from_width, 0.0f);
    for (std::int64_t part = first; part < end; ++part) {
      const float* from = job.partial + part * job.part_size + o * row;
      for (std::int64_t i = 0; i < p.from_width; ++i) to[i] += from[i];
    }
  }
}

}  // namespace

void convolve(const ConvolutionProblem& problem, void* output, Isa isa) {
  const ConvolutionKernels& kernels = kernels_of(isa).convolution;
  if (problem.to_rows == 0 || problem.to_width == 0) return;
  ConvolutionJob job{};
  job.problem = problem;
  job.output = output;
  job.tap_bytes = kernels.tap_bytes(job);
  const AlignedBytes packed = aligned_bytes(job.tap_bytes * static_cast<std::size_t>(problem.taps));
  job.packed = packed.get();
  job.tile_blocks = std::clamp<std::int64_t>(kTileFloats / kPairBlock / problem.to_width, 1, kMostTileBlocks);
  run_tasks(problem.parallel, problem.taps, kernels.pack_scratch(job),
            [&](std::int64_t tap, std::byte* scratch) { kernels.pack_tap(job, tap, scratch); });
  run_tasks(problem.parallel, ceil_divide(blocks_of(problem), job.tile_blocks), kernels.tile_scratch(job),
            [&](std::int64_t tile, std::byte* scratch) { kernels.convolve_tile(job, tile, scratch); });
}

void convolution_weight_gradient(const ConvolutionProblem& problem, const float* grad, float* gradient, Isa isa) {
  const ConvolutionKernels& kernels = kernels_of(isa).convolution;
  if (problem.to_width == 0 || problem.from_width == 0) return;
  WeightGradientJob job{};
  job.problem = problem;
  job.grad = grad;
  job.part_size = kernels.gradient_size(job);
  const GradientParts cut(problem, job.part_size);
  const AlignedBytes partial =
      aligned_bytes(cut.parts.size() * static_cast<std::size_t>(job.part_size) * sizeof(float));
  job.parts = cut.parts.data();
  job.partial = reinterpret_cast<float*>(partial.get());
  run_tasks(problem.parallel, static_cast<std::int64_t>(cut.parts.size()), kernels.gradient_scratch(job),
            [&](std::int64_t part, std::byte* scratch) { kernels.gradient_part(job, part, scratch); });
  run_tasks(problem.parallel, problem.taps, 0,
            [&](std::int64_t tap, std::byte*) { add_parts(job, kernels.gradient_row(job), tap, cut, gradient); });
}

}  // namespace camber::kernels
