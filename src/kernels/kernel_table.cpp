// Compiled once for every instruction set, with its flags and with CAMBER_KERNEL_TABLE naming the table it fills.
#include "kernels/adam_rows.h"
#include "kernels/backward.h"
#include "kernels/forward_few.h"
#include "kernels/sparse_convolution_gradient.h"
#include "kernels/sparse_correction.h"

namespace camber::kernels {
namespace {

static_assert(kTileRows <= kMostTileRows && kBackwardRows % kTileRows == 0);

std::size_t forward_scratch(const ForwardJob& job) {
  Arena arena;
  lay_out<FloatNumbers>(arena, job);
#ifdef CAMBER_BF16_PRODUCTS
  Arena pairs;
  lay_out<BfloatNumbers>(pairs, job);
  if (pairs.used > arena.used) arena.used = pairs.used;
#endif
  return arena.used;
}

void forward_task(const ForwardJob& job, std::int64_t task, std::byte* scratch) {
#ifdef CAMBER_BF16_PRODUCTS
  if (job.problem.type == ElementType::bfloat16)
    return forward_task_of<BfloatNumbers, std::uint16_t>(job, task, scratch);
#endif
  with_elements(job.problem.type, [&]<class T>() { forward_task_of<FloatNumbers, T>(job, task, scratch); });
}

std::int64_t few_part_floats(const ForwardJob& job) {
  return few_part_size(few_sizes(job.problem));
}

std::size_t few_scratch(const ForwardJob& job) {
  Arena arena;
  lay_out_few(arena, job);
  return arena.used;
}

void few_task(const ForwardJob& job, std::int64_t task, std::byte* scratch) {
  with_elements(
      job.problem.type, [&]<class T>() { few_task_of<T>(job, task, scratch); });
}

void few_merge(const ForwardJob& job, std::int64_t batch) {
  with_elements(
      job.problem.type, [&]<class T>() { merge_few<T>(job, batch); });
}

std::size_t backward_scratch(const BackwardJob& job) {
  Arena arena;
  lay_out_backward(arena, job);
  return arena.used;
}

std::size_t sparse_scratch(const SparseJob& job) {
  Arena arena;
  lay_out_sparse(arena, job);
  return arena.used;
}

// Calls with_numbers.template operator()<Numbers, T>() for the numbers that a problem is multiplied in.
template <class WithNumbers>
auto with_numbers_of(const ConvolutionJob& job, const WithNumbers& with_numbers) {
  if (job.problem.type == ElementType::float32) return with_numbers.template operator()<FloatNumbers, float>();
#ifdef CAMBER_BF16_PRODUCTS
  return with_numbers.template operator()<BfloatNumbers, std::uint16_t>();
#else
  return with_numbers.template operator()<FloatNumbers, std::uint16_t>();
#endif
}

std::size_t convolution_tap_bytes(const ConvolutionJob& job) {
  return with_numbers_of(
      job,
      [&]<class Numbers, class T>() {
        return static_cast<std::size_t>(packed_words<Numbers>(job.problem)) * sizeof(typename Numbers::Word);
      });
}

std::size_t convolution_pack_scratch(const ConvolutionJob& job) {
  Arena arena;
  lay_out_pack<FloatNumbers>(arena, job);
  return arena.used;
}

void convolution_pack_tap(const ConvolutionJob& job, std::int64_t tap, std::byte* scratch) {
  with_numbers_of(
      job, [&]<class Numbers, class T>() { pack_tap_of<Numbers, T>(job, tap, scratch); });
}

std::size_t convolution_tile_scratch(const ConvolutionJob& job) {
  Arena arena;
  lay_out_tile(arena, job);
  return arena.used;
}

void convolve_tile(const ConvolutionJob& job, std::int64_t tile, std::byte* scratch) {
  with_numbers_of(
      job, [&]<class Numbers, class T>() { convolve_tile_of<Numbers, T>(job, tile, scratch); });
}

std::int64_t convolution_gradient_row(const WeightGradientJob& job) {
  return padded_width(job.problem.from_width);
}

std::int64_t convolution_gradient_tap(const WeightGradientJob& job) {
  return gradient_rows_padded(job.problem) * padded_width(job.problem.from_width);
}

std::size_t convolution_gradient_scratch(const WeightGradientJob& job) {
  Arena arena;
  lay_out_gradient(arena, job);
  return arena.used;
}

void backward_finish(const BackwardJob& job, std::int64_t head_of_wave) {
  finish_queries(job, head_of_wave);
  finish_segments(job, head_of_wave);
}

}  // namespace

const KernelTable& CAMBER_KERNEL_TABLE() {
  static constexpr KernelTable kTable{.tile_rows = kTileRows,
                                      .lanes = kLanes,
                                      .few_queries = kFewQueries,
                                      .forward_scratch = forward_scratch,
                                      .forward_task = forward_task,
                                      .few_part = few_part_floats,
                                      .few_scratch = few_scratch,
                                      .few_task = few_task,
                                      .few_merge = few_merge,
                                      .backward_scratch = backward_scratch,
                                      .backward_prepare = prepare_rows,
                                      .backward_task = run_backward,
                                      .backward_finish = backward_finish,
                                      .backward_finish_table = finish_table,
                                      .sparse = {.scratch = sparse_scratch,
                                                 .forward_rows = for_sparse_rows<forward_listed>,
                                                 .backward_rows = for_sparse_rows<backward_listed>,
                                                 .backward_keys = sparse_backward_keys,
                                                 .correct_rows = for_sparse_rows<correct_listed>,
                                                 .correct_gradient_rows = for_sparse_rows<correct_listed_gradient>,
                                                 .correct_gradient_keys = sparse_correct_gradient_keys},
                                      .convolution = {.tap_bytes = convolution_tap_bytes,
                                                      .pack_scratch = convolution_pack_scratch,
                                                      .pack_tap = convolution_pack_tap,
                                                      .tile_scratch = convolution_tile_scratch,
                                                      .convolve_tile = convolve_tile,
                                                      .gradient_tap = convolution_gradient_tap,
                                                      .gradient_row = convolution_gradient_row,
                                                      .gradient_scratch = convolution_gradient_scratch,
                                                      .gradient_part = weight_gradient_part},
                                      .adam_step = adam_step_of};
  return kTable;
}

}  // namespace camber::kernels
