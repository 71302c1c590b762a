#pragma once
#include <cstdint>
#include <vector>

#include "camber/eval/ground_truth.h"
#include "camber/random/stream.h"

namespace camber::eval {

/// Draws of scenes with replacement, for the bootstrap. Draw i is a function of (seed, number of scenes, i): two
/// evaluations of the same samples meet the same draws.
class SceneDraws {
 public:
  /// Refuses boxes of fewer than two scenes.
  SceneDraws(const EvaluationBoxes& boxes, std::uint64_t seed);

  std::int64_t scenes() const { return scenes_; }
  /// How often each sample was drawn, [samples of truth].
  std::vector<std::int32_t> weights(std::size_t draw) const;

 private:
  std::vector<std::int32_t> scene_of_sample_;  // numbered 0, 1, ... in ascending order
  std::int64_t scenes_ = 0;
  random::Stream stream_;
};

}  // namespace camber::eval
