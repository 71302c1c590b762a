#pragma once
#include <vector>

#include "kernels/task.h"

namespace camber::kernels {

/// The keys that at least one row may see, cut into blocks, for every batch: keys beyond key_lengths, padded keys and
/// keys of absent segments are left out and cost nothing. One plan serves all batches where none of these is given.
class KeyPlans {
 public:
  /// `with_segments`: blocks list which segment each position belongs to.
  KeyPlans(const AttentionProblem& problem, int block_keys, bool with_segments);

  const KeyPlan* data() const { return plans_.data(); }
  /// Plan of batch b: data()[b * step()].
  std::int64_t step() const { return plans_.size() > 1 ? 1 : 0; }
  const KeyPlan& of(std::int64_t batch) const { return plans_[static_cast<std::size_t>(batch * step())]; }

 private:
  void add_batch(const AttentionProblem& problem, std::int64_t batch, bool with_segments);
  void add_keys(std::int64_t key, std::int64_t count, std::int32_t segment);
  void add_codes(std::int64_t key, std::int32_t position, std::int32_t count);

  int block_keys_;
  std::vector<KeyBlock> blocks_;
  std::vector<KeyRun> runs_;
  std::vector<SegmentSpan> spans_;
  std::vector<CodeSpan> codes_;
  const std::int32_t* key_code_;
  std::vector<std::size_t> batch_begin_;
  std::vector<KeyPlan> plans_;
};

}  // namespace camber::kernels
