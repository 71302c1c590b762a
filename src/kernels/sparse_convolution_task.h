#pragma once
#include <cstddef>

#include "camber/kernels/sparse_convolution.h"

// What the driver of sparse convolution hands to the code of one instruction set. Plain data only, as in task.h.
namespace camber::kernels {

struct ConvolutionJob {
  ConvolutionProblem problem;
  void* output;
  std::byte* packed;         // the weight of every tap as panels
  std::size_t tap_bytes;     // of one tap
  std::int64_t tile_blocks;  // blocks of a task
};

struct WeightGradientJob {
  ConvolutionProblem problem;
  const float* grad;         // [to_rows, to_width]
  std::int64_t part_blocks;  // blocks of output rows whose pairs are a part
  float* partial;            // [parts][taps][padded to_width][padded from_width]
  std::int64_t tap_size;     // floats of one tap
};

struct ConvolutionKernels {
  std::size_t (*tap_bytes)(const ConvolutionJob& job);
  std::size_t (*pack_scratch)(const ConvolutionJob& job);
  void (*pack_tap)(const ConvolutionJob& job, std::int64_t tap, std::byte* scratch);
  std::size_t (*tile_scratch)(const ConvolutionJob& job);
  void (*convolve_tile)(const ConvolutionJob& job, std::int64_t tile, std::byte* scratch);
  // Floats of a tap's gradient, and from one of its output channels to the next: both widths are padded.
  std::int64_t (*gradient_tap)(const WeightGradientJob& job);
  std::int64_t (*gradient_row)(const WeightGradientJob& job);
  std::size_t (*gradient_scratch)(const WeightGradientJob& job);
  void (*gradient_part)(const WeightGradientJob& job, std::int64_t part, std::byte* scratch);
};

}  // namespace camber::kernels
