// Compiled once for every instruction set, with its flags and with CAMBER_KERNEL_TABLE naming the table it fills.
#include "kernels/forward.h"

namespace camber::kernels {
namespace {

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
  if (job.problem.type == ElementType::bfloat16) return forward_task_of<BfloatNumbers, std::uint16_t>(job, task, scratch);
#endif
  if (job.problem.type == ElementType::bfloat16) return forward_task_of<FloatNumbers, std::uint16_t>(job, task, scratch);
  forward_task_of<FloatNumbers, float>(job, task, scratch);
}

}  // namespace

const KernelTable& CAMBER_KERNEL_TABLE() {
  static constexpr KernelTable kTable{
      .forward_scratch = forward_scratch, .forward_task = forward_task, .tile_rows = kTileRows, .lanes = kLanes};
  return kTable;
}

}  // namespace camber::kernels
