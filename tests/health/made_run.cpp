#include "health/made_run.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "camber/random/stream.h"

namespace camber::health {
namespace {

constexpr std::int64_t kBatch = 2, kHeads = 4, kQueries = 40, kLayers = 3, kKeys = 22384;
const std::vector<std::string> kSegments = {"lidar", "camera", "camera"};

random::Stream stream(const MadeRunOptions& options, std::int64_t step, std::string_view name) {
  return random::Stream(options.seed, name).at(static_cast<std::uint64_t>(step));
}

}  // namespace

MadeSample::MadeSample(const MadeRunOptions& options, std::int64_t step)
    : step_(step), ill_(static_cast<double>(std::max<std::int64_t>(0, step - options.onset))) {
  sample.step = step;
  make_scale(options);
  make_attention(options);
  make_trust(options);
}

void MadeSample::make_scale(const MadeRunOptions& options) {
  random::Stream noise = stream(options, step_, "scale");
  const double growth = 1 - std::exp(-static_cast<double>(step_) / 400);
  ScaleSample scale{.name = "bias",
                    .value = 2.5 + 0.5 * growth + 0.01 * noise.normal(),
                    .gradient = 0.01 * noise.normal(),
                    .init = 2.5,
                    .min = 0.5,
                    .max = 5,
                    .warn_threshold = 4,
                    .num_steps = static_cast<double>(step_)};
  if (options.situation == Situation::kRunawayScale) scale.value = std::min(5., scale.value + 0.05 * ill_);
  if (options.situation == Situation::kNoGradient && ill_ > 0) scale.gradient = 0;
  if (options.situation == Situation::kPinnedAtCap) {
    scale = {.name = "logit",
             .value = std::min(100., 25 + ill_ * 10),
             .gradient = -0.02,
             .init = 25,
             .min = 1,
             .max = 100,
             .warn_threshold = 80,
             .log_space = true,
             .num_steps = static_cast<double>(step_)};
    sample.prototypes = {.mean_cosine = 0.93, .gate = 0.5, .purification_ratio = 0.2};
  }
  if (scale.value >= scale.max) scale.steps_at_bound = std::max(0., ill_ - 10);
  scale.raw = scale.log_space ? std::log(scale.value) : scale.value;
  sample.scales.push_back(scale);
}

void MadeSample::make_attention(const MadeRunOptions& options) {
  constexpr std::size_t kRows = kBatch * kHeads * kQueries;
  layers_.resize(kLayers);
  for (std::int64_t index = 0; index < kLayers; ++index) {
    random::Stream noise = stream(options, step_, "attention").at(static_cast<std::uint64_t>(index));
    Layer& layer = layers_[static_cast<std::size_t>(index)];
    const bool sharp = options.situation == Situation::kSaturatedSoftmax && ill_ > 0 && index == kLayers - 1;
    for (std::size_t row = 0; row < kRows; ++row) {
      const bool saturated = noise.chance(sharp ? 0.8 : 0.02);
      const double top = saturated ? noise.uniform(0.95, 0.9999) : noise.uniform(0.02, 0.4);
      const double camera = noise.uniform(0.1, 0.3);
      layer.largest_weight.push_back(static_cast<float>(top));
      layer.sum_of_squares.push_back(static_cast<float>(top * top));
      layer.entropy.push_back(static_cast<float>((1 - top) * std::log(kKeys) + 0.2));
      layer.change.push_back(static_cast<float>(saturated ? 0.6 : noise.uniform(0.05, 0.2)));
      layer.divergence.push_back(static_cast<float>(saturated ? 0.9 : noise.uniform(0.01, 0.1)));
      layer.keys_left.push_back(kKeys);
      for (const double mass : {1 - 2 * camera, camera, camera}) layer.segment_mass.push_back(static_cast<float>(mass));
    }
    sample.attention.push_back({.name = fmt::format("layer{}", index),
                                .batch = kBatch,
                                .heads = kHeads,
                                .queries = kQueries,
                                .entropy = layer.entropy,
                                .largest_weight = layer.largest_weight,
                                .sum_of_squares = layer.sum_of_squares,
                                .change = layer.change,
                                .divergence = layer.divergence,
                                .keys_left = layer.keys_left,
                                .segment_mass = layer.segment_mass,
                                .segments = kSegments});
  }
}

void MadeSample::make_trust(const MadeRunOptions& options) {
  if (options.situation == Situation::kPinnedAtCap) return;  // a few-shot model has no router
  const double learned = std::min(1., static_cast<double>(step_) / 300);
  for (const std::string name : {"lidar", "camera"}) {
    random::Stream noise = stream(options, step_, "trust").at(name);
    std::vector<float>& weight = weights_.emplace_back();
    std::vector<float>& bias = biases_.emplace_back();
    const double push = options.situation == Situation::kRouterSaturated && ill_ > 0 ? 4 : 0;
    for (std::int64_t query = 0; query < kBatch * kQueries; ++query) {
      weight.push_back(
          static_cast<float>(std::tanh(push + (name == "lidar" ? 0.6 : 0.2) * learned + 0.3 * noise.normal())));
      bias.push_back(weight.back() * static_cast<float>(sample.scales[0].value));
    }
  }
  for (std::size_t sensor = 0; sensor < weights_.size(); ++sensor) {
    const std::string name = sensor == 0 ? "lidar" : "camera";
    sample.trust.push_back({.name = name, .weight = weights_[sensor]});
    sample.bias.push_back({.name = name, .value = biases_[sensor]});
  }
}

}  // namespace camber::health
