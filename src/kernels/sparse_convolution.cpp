#include "camber/kernels/sparse_convolution.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

#include "kernels/dispatch.h"
#include "kernels/slots.h"

namespace camber::kernels {
namespace {

// Floats of sums that a tile keeps: they stay in the second cache beside the panels of a tap.
constexpr std::int64_t kTileFloats = 32768, kMostTileBlocks = 8;
// Blocks of a part of the weight's gradient at least, and floats of all parts together about at most.
constexpr std::int64_t kPartBlocks = 32, kPartFloats = std::int64_t{1} << 24;

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

// gradient[o, tap, :] for all o: the parts, in their order.
void add_parts(const WeightGradientJob& job, std::int64_t parts, std::int64_t row, std::int64_t tap, float* gradient) {
  const ConvolutionProblem& p = job.problem;
  for (std::int64_t o = 0; o < p.to_width; ++o) {
    float* to = gradient + (o * p.taps + tap) * p.from_width;
    std::fill_n(to, p.from_width, 0.0f);
    for (std::int64_t part = 0; part < parts; ++part) {
      const float* from = job.partial + (part * p.taps + tap) * job.tap_size + o * row;
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
  run_tasks(
      problem.parallel, problem.taps, kernels.pack_scratch(job),
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
  job.tap_size = kernels.gradient_tap(job);
  const std::int64_t part_size = std::max<std::int64_t>(1, problem.taps * job.tap_size), blocks = blocks_of(problem);
  const std::int64_t most = std::max<std::int64_t>(1, kPartFloats / part_size);
  job.part_blocks = std::max(kPartBlocks, ceil_divide(blocks, most));
  const std::int64_t parts = ceil_divide(blocks, job.part_blocks);
  const AlignedBytes partial = aligned_bytes(static_cast<std::size_t>(parts * part_size) * sizeof(float));
  job.partial = reinterpret_cast<float*>(partial.get());
  run_tasks(
      problem.parallel, parts, kernels.gradient_scratch(job),
      [&](std::int64_t part, std::byte* scratch) { kernels.gradient_part(job, part, scratch); });
  run_tasks(problem.parallel, problem.taps, 0,
            [&](std::int64_t tap, std::byte*) { add_parts(job, parts, kernels.gradient_row(job), tap, gradient); });
}

}  // namespace camber::kernels
