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
  /// Needs memory in proportion to the stretches, at most twice sizeof(WindowStretch) for every entry of the box, and a
  /// copy of the entries' values. A box of several batches takes all of their queries.
  void build(const AttentionProblem& problem, const KeyPlans& plans, const RowBox& box, int tile_rows, int lanes,
             int block_keys);
  WindowPlan plan() const { return plan_; }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  template <class T>
  using Memory = std::unique_ptr<T, Free>;  // not cleared

  void walk_tiles(const AttentionProblem& problem, const KeyPlans& plans, const RowBox& box, int tile_rows, int lanes,
                  int block_keys);
  void place_in_order(const AttentionProblem& problem, const RowBox& box, int tile_rows);

  // By tile, as the walk finds them: a tile's list begins where its entries would, and the pages in between are never
  // touched.
  Memory<WindowStretch> by_tile_;
  Memory<WindowStretch> stretches_;
  Memory<float> values_;
  std::vector<WindowStart> begin_;
  std::vector<float> largest_;
  std::int64_t blocks_ = 0;
  WindowPlan plan_{};
};

/// The most window entries that `rows` neighbouring rows of a batch have, counted from its row 0 on.
std::int64_t most_entries(const AttentionProblem& problem, std::int64_t rows);

}  // namespace camber::kernels
