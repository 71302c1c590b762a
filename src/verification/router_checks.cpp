#include "camber/nn/attention_bias.h"
#include "camber/nn/decoder.h"
#include "camber/nn/query_router.h"
#include "verification/checklist.h"

namespace camber::verification {
namespace {

constexpr std::int64_t kRouterQueries = 10, kRouterWidth = 16;

struct Setting {
  nn::SensorScene scene{
      .grid = geometry::BevGrid(-4, 4, -4, 4, 1),
      .cameras = {{geometry::Camera{.name = "front",
                                    .width = 80,
                                    .height = 40,
                                    .columns = 8,
                                    .rows = 4,
                                    .lidar_to_image = {40, 40, 0, 0, 0, 20, -40, 0, 0, 1, 0, 0, 0, 0, 0, 1}}}}};
  nn::QueryProjection projection =
      nn::project_queries(torch::rand({1, kRouterQueries, 3}, torch::kDouble) * 6 - 3, scene);
  nn::TransformerDecoder decoder{
      nn::TransformerDecoderOptions{.num_layers = 2, .width = kRouterWidth, .num_heads = 4, .feedforward_width = 32}};
  nn::DecoderInputs inputs{};

  explicit Setting(std::int64_t keys) {
    inputs.target = torch::zeros({1, kRouterQueries, kRouterWidth});
    inputs.query_position = torch::randn({1, kRouterQueries, kRouterWidth});
    inputs.memory = torch::randn({1, keys, kRouterWidth});
    inputs.memory_position = torch::randn({1, keys, kRouterWidth});
    decoder->eval();
  }
};

// The memory has as many keys as there are queries: a rule that compares lengths would bias self-attention too.
Seen cross_attention_only() {
  Setting s(kRouterQueries);
  const auto plain = s.decoder->forward(s.inputs).states;
  const auto ones = torch::arange(kRouterQueries + 1, torch::kLong);
  ops::StructuredBias structured{.windows = ops::Windows{ones, torch::arange(kRouterQueries, torch::kInt),
                                                         torch::full({1, kRouterQueries}, 60.0F)}};
  s.inputs.bias = [&](std::int64_t, const torch::Tensor&) { return structured; };
  s.inputs.statistics_from = 0;
  const auto biased = s.decoder->forward(s.inputs);
  bool refused = false;
  try {
    nn::MultiheadAttention self(nn::MultiheadAttentionOptions{.width = kRouterWidth}, nn::AttentionKind::kSelf);
    self->forward({s.inputs.target, s.inputs.target, s.inputs.target}, {.bias = structured});
  } catch (const std::exception&) {
    refused = true;
  }
  const auto weight = biased.statistics[0].largest_weight.min().item<double>();
  return {"Q = K = 10: cross-attention follows the bias (weight " + number(weight) + "), self-attention " +
              (refused ? "refuses it" : "takes it"),
          refused && weight > 0.999 && difference(biased.states, plain) > 1e-3};
}

Seen untrained_router(bool want_gradient) {
  Setting s(64 + 32);
  const auto plain = s.decoder->forward(s.inputs).states;
  nn::QueryRouter router(nn::QueryRouterOptions{
      .width = kRouterWidth, .num_heads = 2, .feedforward_width = 32, .bev_window = 3, .camera_window = 3});
  router->eval();
  nn::AttentionBias bias(nn::AttentionBiasOptions{.segments = true, .bev_window = 3, .camera_window = 3});
  const auto trust = router->forward({.query_position = s.inputs.query_position,
                                      .memory = s.inputs.memory,
                                      .memory_position = s.inputs.memory_position,
                                      .projection = s.projection,
                                      .scene = &s.scene,
                                      .cues = {.age = torch::full({1, 2}, 0.9), .level = torch::ones({1, 2})}});
  const auto windows = bias->windows(s.projection, s.scene);
  s.inputs.bias = [&](std::int64_t layer, const torch::Tensor&) {
    return bias->forward(trust, windows, s.scene, layer);
  };
  const auto biased = s.decoder->forward(s.inputs).states;
  if (!want_gradient) return equal(difference(biased, plain), 0, "apart");
  // A norm ends each layer, so that the sum of squares would be constant: a random weighting is not.
  (biased * torch::randn_like(biased)).sum().backward();
  const auto cues = router->age_gain.grad().abs().max().item<double>();
  const auto content = router->content->weight.grad().abs().max().item<double>();
  return {"cue gains " + number(cues) + ", content " + number(content), cues > 0 && content > 0};
}

}  // namespace

void check_router(Checklist& list) {
  list.section("router");
  list.check("the bias acts in cross-attention only, also when Q equals K", cross_attention_only);
  list.check(
      "an untrained router leaves the decoder's output bit-identical", [] { return untrained_router(false); });
  list.check("an untrained router still receives gradient", [] { return untrained_router(true); });
}

}  // namespace camber::verification
