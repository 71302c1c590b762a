#include "kernels/small_batches.h"

namespace camber::kernels {
namespace {

// A slot's share of the second-level cache, for the rows of one batch, and the fewest batches that are many.
constexpr std::int64_t kBatchBytes = 1 << 18, kFewestBatches = 16;
constexpr std::int64_t kPage = 4096, kLine = 64;

std::int64_t bytes_of(const AttentionProblem& p, const BatchRows& rows) {
  if (rows.data == nullptr) return 0;
  const Strides& strides = rows.strides;
  return ((rows.rows - 1) * strides.row + (p.heads - 1) * strides.head + rows.width) * rows.element_bytes;
}

bool small(const AttentionProblem& p, std::initializer_list<BatchRows> arrays) {
  std::int64_t bytes = 0;
  for (const BatchRows& rows : arrays) {
    const std::int64_t own = bytes_of(p, rows), step = rows.strides.batch * rows.element_bytes;
    if (step != 0 && step < own) return false;  // batches lie between each other's rows
    bytes += own;
  }
  return bytes > 0 && bytes <= kBatchBytes;
}

// One load a page brings its address, without which the requests for its lines would be dropped.
void ask_for(const AttentionProblem& p, const BatchRows& rows, std::int64_t batch) {
  if (rows.data == nullptr) return;
  const char* first = static_cast<const char*>(rows.data) + batch * rows.strides.batch * rows.element_bytes;
  const std::int64_t bytes = bytes_of(p, rows);
  for (std::int64_t at = 0; at < bytes; at += kPage) static_cast<void>(*static_cast<const volatile char*>(first + at));
  for (std::int64_t at = 0; at < bytes; at += kLine) __builtin_prefetch(first + at, 0, 2);
}

}  // namespace

void run_batches(const AttentionProblem& p, std::int64_t first, std::int64_t batches, std::int64_t tasks_of_batch,
                 std::size_t scratch_bytes, std::initializer_list<BatchRows> rows,
                 const std::function<void(std::int64_t, std::byte*)>& task) {
  if (batches < kFewestBatches || !small(p, rows))
    return run_tasks(p.parallel, batches * tasks_of_batch, scratch_bytes, task);
  run_tasks_ahead(p.parallel, batches, scratch_bytes, [&](std::int64_t batch, std::int64_t next, std::byte* scratch) {
    for (const BatchRows& of : rows)
      if (next < batches) ask_for(p, of, first + next);
    for (std::int64_t i = 0; i < tasks_of_batch; ++i) task(batch * tasks_of_batch + i, scratch);
  });
}

}  // namespace camber::kernels
