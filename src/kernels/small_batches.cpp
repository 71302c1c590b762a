#include "kernels/small_batches.h"

#include <algorithm>

#include "kernels/dispatch.h"

namespace camber::kernels {
namespace {

// A slot's share of the second-level cache, for the rows of one batch, and the fewest batches that are many.
constexpr std::int64_t kBatchBytes = 1 << 18, kFewestBatches = 16;
constexpr std::int64_t kPage = 4096, kLine = 64;

std::int64_t element_bytes(const BatchRows& rows) {
  return rows.type == ElementType::float32 ? 4 : 2;
}

std::int64_t bytes_of(const AttentionProblem& p, const BatchRows& rows) {
  if (rows.at.data == nullptr) return 0;
  const Strides& strides = rows.at.strides;
  return ((rows.rows - 1) * strides.row + (p.heads - 1) * strides.head + rows.width) * element_bytes(rows);
}

bool small(const AttentionProblem& p, std::initializer_list<BatchRows> arrays) {
  std::int64_t bytes = 0;
  for (const BatchRows& rows : arrays) {
    const std::int64_t own = bytes_of(p, rows), step = rows.at.strides.batch * element_bytes(rows);
    if (step != 0 && step < own) return false;  // batches lie between each other's rows
    bytes += own;
  }
  return bytes > 0 && bytes <= kBatchBytes;
}

// One load a page brings its address, without which the requests for its lines would be dropped.
void ask_for(const AttentionProblem& p, const BatchRows& rows, std::int64_t batch) {
  if (rows.at.data == nullptr) return;
  const char* first = static_cast<const char*>(rows.at.data) + batch * rows.at.strides.batch * element_bytes(rows);
  const std::int64_t bytes = bytes_of(p, rows);
  for (std::int64_t at = 0; at < bytes; at += kPage) static_cast<void>(*static_cast<const volatile char*>(first + at));
  for (std::int64_t at = 0; at < bytes; at += kLine) __builtin_prefetch(first + at, 0, 2);
}

}  // namespace

void run_batches(const AttentionProblem& p, const SmallBatches& b, std::size_t scratch_bytes,
                 std::initializer_list<BatchRows> rows,
                 const std::function<void(std::int64_t, std::int64_t, std::byte*)>& task) {
  const std::int64_t units = ceil_divide(b.batches, b.together);
  const auto end_of = [&](std::int64_t unit) { return std::min(b.batches, (unit + 1) * b.together); };
  if (b.batches < kFewestBatches || !small(p, rows))
    return run_tasks(
        p.parallel, units * b.tasks, scratch_bytes,
        [&](std::int64_t index, std::byte* scratch) {
          const std::int64_t unit = index / b.tasks;
          for (std::int64_t batch = unit * b.together; batch < end_of(unit); ++batch)
            task(batch, index % b.tasks, scratch);
        });
  run_tasks_ahead(p.parallel, units, scratch_bytes, [&](std::int64_t unit, std::int64_t next, std::byte* scratch) {
    for (std::int64_t batch = unit * b.together; batch < end_of(unit); ++batch) {
      const std::int64_t follows = batch + 1 < end_of(unit) ? batch + 1 : next * b.together;
      for (const BatchRows& of : rows)
        if (follows < b.batches) ask_for(p, of, b.first + follows);
      for (std::int64_t i = 0; i < b.tasks; ++i) task(batch, i, scratch);
    }
  });
}

}  // namespace camber::kernels
