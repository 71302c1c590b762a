#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "camber/health/sample.h"

/// Runs that were never trained: samples as a model in a known state would give them.
namespace camber::health {

enum class Situation { kHealthy, kRunawayScale, kSaturatedSoftmax, kNoGradient, kPinnedAtCap, kRouterSaturated };

inline constexpr std::array<std::pair<Situation, std::string_view>, 6> kSituations = {{
    {Situation::kHealthy, "healthy"},
    {Situation::kRunawayScale, "runaway_scale"},
    {Situation::kSaturatedSoftmax, "saturated_softmax"},
    {Situation::kNoGradient, "no_gradient"},
    {Situation::kPinnedAtCap, "pinned_at_cap"},
    {Situation::kRouterSaturated, "router_saturated"},
}};

struct MadeRunOptions {
  Situation situation = Situation::kHealthy;
  std::int64_t onset = 200;  ///< healthy up to this step
  std::uint64_t seed = 1;
};

/// A sample with the numbers that it points to.
struct MadeSample {
  MadeSample(const MadeRunOptions& options, std::int64_t step);
  MadeSample(const MadeSample&) = delete;
  MadeSample& operator=(const MadeSample&) = delete;

  HealthSample sample{};

 private:
  struct Layer {
    std::vector<float> entropy, largest_weight, sum_of_squares, change, divergence, keys_left, segment_mass;
  };
  void make_scale(const MadeRunOptions& options);
  void make_attention(const MadeRunOptions& options);
  void make_trust(const MadeRunOptions& options);

  std::int64_t step_;
  double ill_;  // steps since the onset, 0 before
  std::vector<Layer> layers_;
  std::vector<std::vector<float>> weights_;
  std::vector<std::vector<float>> biases_;
};

}  // namespace camber::health
