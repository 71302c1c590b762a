// Compiled once for every instruction set, with its flags and with CAMBER_KERNEL_TABLE naming the table it fills.
#include "kernels/backward.h"
#include "kernels/sparse_rows.h"

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
  if (job.problem.type == ElementType::bfloat16)
    return forward_task_of<FloatNumbers, std::uint16_t>(job, task, scratch);
  forward_task_of<FloatNumbers, float>(job, task, scratch);
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

void backward_finish(const BackwardJob& job, std::int64_t head_of_wave) {
  finish_queries(job, head_of_wave);
  finish_segments(job, head_of_wave);
}

}  // namespace

const KernelTable& CAMBER_KERNEL_TABLE() {
  static constexpr KernelTable kTable{.tile_rows = kTileRows,
                                      .lanes = kLanes,
                                      .forward_scratch = forward_scratch,
                                      .forward_task = forward_task,
                                      .backward_scratch = backward_scratch,
                                      .backward_prepare = prepare_rows,
                                      .backward_task = run_backward,
                                      .backward_finish = backward_finish,
                                      .sparse = {.scratch = sparse_scratch,
                                                 .forward_rows = sparse_forward_rows,
                                                 .backward_rows = sparse_backward_rows,
                                                 .backward_keys = sparse_backward_keys}};
  return kTable;
}

}  // namespace camber::kernels
