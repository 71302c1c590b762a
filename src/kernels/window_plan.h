#pragma once
#include <cstdlib>
#include <memory>
#include <vector>

#include "kernels/key_plan.h"

namespace camber::kernels {

/// Where the window entries of a box of rows fall in the tiles of rows and the key blocks. The heads share it, so that
/// keys are compared once in a call, and a tile of a head walks one flat list.
///
///   WindowPlans windows;
///   windows.build(problem, plans, {.batch = 0, .batches = 1, .query = 0, .queries = 900}, 6, 8, kForwardKeys);
///   job.windows = windows.plan();
class WindowPlans {
 public:
  /// Needs memory in proportion to the stretches, at most sizeof(WindowStretch) for every entry of the box. A box of
  /// several batches takes all of their queries.
  void build(const AttentionProblem& problem, const KeyPlans& plans, const RowBox& box, int tile_rows, int lanes,
             int block_keys);
  WindowPlan plan() const { return plan_; }

 private:
  struct Free {
    void operator()(WindowStretch* memory) const { std::free(memory); }
  };
  // Not cleared: a tile's list begins where its entries would, and the pages in between are never touched.
  std::unique_ptr<WindowStretch, Free> stretches_;
  std::vector<std::int64_t> begin_;
  std::vector<float> largest_;
  WindowPlan plan_{};
};

/// The most window entries that `rows` neighbouring rows of a batch have, counted from its row 0 on.
std::int64_t most_entries(const AttentionProblem& problem, std::int64_t rows);

}  // namespace camber::kernels
