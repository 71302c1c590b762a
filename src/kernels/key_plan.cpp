#include "kernels/key_plan.h"

#include <algorithm>

namespace camber::kernels {

KeyPlans::KeyPlans(const AttentionProblem& problem, int block_keys, bool with_segments)
    : block_keys_(block_keys), key_code_(problem.table.value == nullptr ? nullptr : problem.table.key_code) {
  const bool each_batch = problem.key_lengths != nullptr || problem.key_padding != nullptr ||
                          (problem.segments.offsets != nullptr && problem.segments.available != nullptr);
  const std::int64_t count = each_batch ? problem.batches : std::min<std::int64_t>(problem.batches, 1);
  for (std::int64_t batch = 0; batch < count; ++batch) {
    batch_begin_.push_back(blocks_.size());
    add_batch(problem, batch, with_segments);
  }
  batch_begin_.push_back(blocks_.size());
  for (std::size_t b = 0; b + 1 < batch_begin_.size(); ++b)
    plans_.push_back({blocks_.data() + batch_begin_[b], runs_.data(), spans_.data(), codes_.data(),
                      static_cast<std::int64_t>(batch_begin_[b + 1] - batch_begin_[b])});
}

void KeyPlans::add_batch(const AttentionProblem& problem, std::int64_t batch, bool with_segments) {
  const SegmentBias& segments = problem.segments;
  const bool segmented = segments.offsets != nullptr;
  const std::int64_t existing = problem.key_lengths == nullptr
                                    ? problem.keys
                                    : std::clamp<std::int64_t>(problem.key_lengths[batch], 0, problem.keys);
  const bool* padded = problem.key_padding == nullptr ? nullptr : problem.key_padding + batch * problem.keys;
  for (std::int64_t s = 0; s < (segmented ? segments.count : 1); ++s) {
    if (segmented && segments.available != nullptr && !segments.available[batch * segments.count + s]) continue;
    const std::int64_t end = std::min(existing, segmented ? segments.offsets[s + 1] : problem.keys);
    const auto segment = static_cast<std::int32_t>(segmented && with_segments ? s : -1);
    std::int64_t key = segmented ? segments.offsets[s] : 0;
    while (key < end) {
      if (padded != nullptr && padded[key]) {
        ++key;
        continue;
      }
      std::int64_t stop = padded == nullptr ? end : key + 1;
      while (stop < end && !padded[stop]) ++stop;
      add_keys(key, stop - key, segment);
      key = stop;
    }
  }
}

void KeyPlans::add_keys(std::int64_t key, std::int64_t count, std::int32_t segment) {
  while (count > 0) {
    if (blocks_.size() == batch_begin_.back() || blocks_.back().length == block_keys_)
      blocks_.push_back({key, key, static_cast<std::int32_t>(runs_.size()), 0, static_cast<std::int32_t>(spans_.size()),
                         0, static_cast<std::int32_t>(codes_.size()), 0, 0});
    KeyBlock& block = blocks_.back();
    const auto taken = static_cast<std::int32_t>(std::min<std::int64_t>(count, block_keys_ - block.length));
    if (block.run_count > 0 && runs_.back().key + runs_.back().count == key) {
      runs_.back().count += taken;
    } else {
      runs_.push_back({key, block.length, taken});
      ++block.run_count;
    }
    if (segment >= 0) {
      if (block.span_count > 0 && spans_.back().segment == segment) {
        spans_.back().count += taken;
      } else {
        spans_.push_back({segment, block.length, taken});
        ++block.span_count;
      }
    }
    if (key_code_ != nullptr) add_codes(key, block.length, taken);
    block.length += taken;
    block.end_key = key + taken;
    key += taken;
    count -= taken;
  }
}

void KeyPlans::add_codes(std::int64_t key, std::int32_t position, std::int32_t count) {
  KeyBlock& block = blocks_.back();
  for (std::int32_t i = 0; i < count; ++i) {
    const std::int32_t code = key_code_[key + i];
    if (block.code_count > 0 && codes_.back().code + codes_.back().count == code &&
        codes_.back().position + codes_.back().count == position + i) {
      ++codes_.back().count;
    } else {
      codes_.push_back({code, position + i, 1});
      ++block.code_count;
    }
  }
}

}  // namespace camber::kernels
