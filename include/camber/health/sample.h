#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

/// What the monitor is given at a sampled step: plain numbers that belong to someone else and are read during the call.
/// camber/train/health_adapter.h makes them from tensors.
namespace camber::health {

inline constexpr double kNotGiven = std::numeric_limits<double>::quiet_NaN();

/// One bounded scale, or one element of it.
struct ScaleSample {
  std::string name{};  ///< "bias", "bias/head3", "segments"
  double value = 0;
  double raw = 0;
  std::optional<double> gradient{};  ///< of raw; nothing: none was computed
  double init = kNotGiven;
  double min = 0;
  double max = 0;
  double warn_threshold = 0;
  bool learnable = true;
  bool log_space = false;
  /// Counted from the start of the run: optimiser steps, and those after which this element was projected or clamped.
  double num_steps = 0;
  double steps_at_bound = 0;
  /// How far the optimiser can move it until the end of the run; NaN: not known (camber/train/reachable_range.h).
  double reach_low = kNotGiven;
  double reach_high = kNotGiven;
};

/// The row statistics of one attention, [B, H, Q] row by row, as ops::AttentionStatistics has them.
struct AttentionSample {
  std::string name{};  ///< "layer0"
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t queries = 0;
  std::span<const float> entropy{};         ///< logsumexp(z) - sum p z
  std::span<const float> largest_weight{};  ///< max p
  std::span<const float> sum_of_squares{};  ///< sum p^2
  std::span<const float> change{};          ///< half of sum |p - p0|; empty: without a bias
  std::span<const float> divergence{};      ///< KL(p || p0); empty: without a bias
  std::span<const float> keys_left{};       ///< keys with a finite z; a row with none counts in no metric
  std::span<const float> segment_mass{};    ///< [B, H, Q, S]; empty: no segments
  std::vector<std::string> segments{};      ///< S names; segments of one name (six cameras) are added up
};

/// The values of a bias that were really added, of one sensor: g(d) * clip(w * scale) in windows, clip(w * segment
/// scale) on the whole of it.
struct BiasSample {
  std::string name{};  ///< "lidar", "segments/lidar" over all layers; "layer0/lidar", "layer0/segments/lidar"
  std::span<const float> value{};
};

/// The trust that the router gave one sensor, over all queries of the batch.
struct TrustSample {
  std::string name{};  ///< "lidar", "camera"
  std::span<const float> weight{};
  bool learned = true;  ///< false: constant, oracle; no rule checks those
};

/// A few-shot episode.
struct PrototypeSample {
  std::optional<double> mean_cosine{};         ///< between the class prototypes, mean over pairs
  std::optional<double> gate{};                ///< sigmoid(alpha)
  std::optional<double> purification_ratio{};  ///< mean of g |C| / |f|
};

struct HealthSample {
  std::int64_t step = 0;
  std::vector<ScaleSample> scales{};
  std::vector<AttentionSample> attention{};
  std::vector<BiasSample> bias{};
  std::vector<TrustSample> trust{};
  std::optional<double> agreement{};  ///< of the sensors, mean over the frames where it is known
  PrototypeSample prototypes{};
};

}  // namespace camber::health
