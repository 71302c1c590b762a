#include "camber/nn/decoder.h"

#include <gtest/gtest.h>

#include <torch/nn/init.h>

#include "camber/nn/attention_bias.h"
#include "camber/nn/query_router.h"
#include "support/comparison.h"

namespace camber::nn {
namespace {

using camber::proof::close;
using camber::proof::error_of;
using camber::proof::same_bits;

std::int64_t parameters_of(const torch::nn::Module& module) {
  std::int64_t count = 0;
  for (const auto& parameter : module.parameters()) count += parameter.numel();
  return count;
}

constexpr std::int64_t kQueries = 12, kWidth = 16;

SensorScene one_camera_scene() {
  const geometry::Camera camera{.name = "front",
                                .width = 80,
                                .height = 40,
                                .columns = 8,
                                .rows = 4,
                                .lidar_to_image = {40, 40, 0, 0, 0, 20, -40, 0, 0, 1, 0, 0, 0, 0, 0, 1}};
  return {.grid = geometry::BevGrid(-4, 4, -4, 4, 1), .cameras = {{camera}}};
}

// Points anywhere on the grid, half of them before the camera.
torch::Tensor some_points() {
  torch::manual_seed(5);
  auto points = torch::rand({1, kQueries, 3}, torch::kDouble) * 6 - 3;
  const auto before_camera = points.slice(1, 0, kQueries / 2);
  before_camera.select(2, 1).abs_().add_(0.9);
  before_camera.select(2, 0).mul_(0.2);
  before_camera.select(2, 2).zero_();
  return points;
}

struct Setting {
  SensorScene scene = one_camera_scene();
  torch::Tensor points = some_points();
  QueryProjection projection = project_queries(points, scene);
  DecoderInputs inputs{};
  TransformerDecoder decoder{
      TransformerDecoderOptions{.num_layers = 2, .width = kWidth, .num_heads = 4, .feedforward_width = 32}};

  Setting() {
    const std::int64_t keys = scene.layout().keys();
    inputs.target = torch::zeros({1, kQueries, kWidth});
    inputs.query_position = torch::randn({1, kQueries, kWidth});
    inputs.memory = torch::randn({1, keys, kWidth});
    inputs.memory_position = torch::randn({1, keys, kWidth});
    inputs.implementation = ops::Implementation::kStreamed;
    decoder->eval();
  }

  RouterInputs router_inputs() const {
    return {.query_position = inputs.query_position,
            .memory = inputs.memory,
            .memory_position = inputs.memory_position,
            .projection = projection,
            .scene = &scene,
            .cues = {.age = torch::tensor({{0.1F, 0.9F}}), .level = torch::tensor({{0.2F, -0.4F}})}};
  }
};

TEST(Decoder, HasTheParametersOfTheReferenceSize) {
  EXPECT_EQ(parameters_of(*DecoderLayer(TransformerDecoderOptions{})), 1053440);
  EXPECT_EQ(parameters_of(*TransformerDecoder(TransformerDecoderOptions{})), 6 * 1053440 + 512);
}

TEST(MultiheadAttention, EqualsTheFormulaWithPositionsOnQueryAndKeyOnly) {
  MultiheadAttention attention(MultiheadAttentionOptions{.width = 8, .num_heads = 2}, AttentionKind::kCross);
  attention->eval();
  const auto query = torch::randn({2, 3, 8}), key = torch::randn({2, 5, 8});
  const auto qp = torch::randn({2, 3, 8}), kp = torch::randn({2, 5, 8});
  const auto w = attention->in_proj_weight.chunk(3);
  const auto split = [](const torch::Tensor& t) { return t.view({2, -1, 2, 4}).transpose(1, 2); };
  const auto q = split(torch::matmul(query + qp, w[0].t())), k = split(torch::matmul(key + kp, w[1].t())),
             v = split(torch::matmul(key, w[2].t()));
  const auto heads = torch::matmul(torch::softmax(torch::matmul(q, k.transpose(-1, -2)) / 2.0, -1), v);
  const auto expected =
      query + torch::matmul(heads.transpose(1, 2).reshape({2, 3, 8}), attention->out_proj->weight.t());
  EXPECT_TRUE(close(attention->forward({query, key, key, qp, kp}).output, expected, 1e-5));
}

TEST(MultiheadAttention, SelfAttentionRefusesABias) {
  MultiheadAttention attention(MultiheadAttentionOptions{.width = 8, .num_heads = 2}, AttentionKind::kSelf);
  const auto x = torch::randn({1, 3, 8});
  const ops::StructuredBias bias{.segments = ops::Segments{.offsets = torch::tensor({0, 3}, torch::kLong)}};
  EXPECT_EQ(error_of([&] {
              attention->forward({x, x, x}, {.bias = bias});
            }),
            "[MultiheadAttention] bias must be absent in self-attention: it biases queries toward sensors' keys");
  EXPECT_EQ(error_of([] {
              MultiheadAttention(MultiheadAttentionOptions{.width = 10, .num_heads = 4}, AttentionKind::kSelf);
            }),
            "[MultiheadAttention] num_heads must divide width 10, got 4");
}

TEST(MultiheadAttention, DropoutIsAFunctionOfItsSeed) {
  MultiheadAttention attention(
      MultiheadAttentionOptions{.width = 8, .num_heads = 2, .attention_dropout = 0.5, .residual_dropout = 0.5},
      AttentionKind::kCross);
  attention->train();
  const auto x = torch::randn({1, 6, 8});
  const auto run = [&](std::uint64_t seed) { return attention->forward({x, x, x}, {.dropout_seed = seed}).output; };
  EXPECT_TRUE(same_bits(run(1), run(1)));
  EXPECT_FALSE(same_bits(run(1), run(2)));
}

TEST(Decoder, BiasActsInCrossAttentionAlsoWhenQueriesEqualKeys) {
  Setting s;
  // As many keys as queries: a rule that compares lengths would mistake one attention for the other.
  s.inputs.memory = torch::randn({1, kQueries, kWidth});
  s.inputs.memory_position = torch::randn({1, kQueries, kWidth});
  const auto plain = s.decoder->forward(s.inputs).states;
  std::vector<std::int64_t> offsets;
  for (std::int64_t i = 0; i <= kQueries; ++i) offsets.push_back(i);
  ops::StructuredBias structured{.windows = ops::Windows{torch::tensor(offsets, torch::kLong),
                                                         torch::arange(kQueries, torch::kInt),
                                                         torch::full({1, kQueries}, 50.0F)}};
  s.inputs.bias = [&](std::int64_t, const torch::Tensor&) { return structured; };
  s.inputs.statistics_from = 0;
  const auto biased = s.decoder->forward(s.inputs);
  EXPECT_GT((biased.states - plain).abs().max().item<float>(), 1e-3);
  for (const auto& layer : biased.statistics) EXPECT_GT(layer.largest_weight.min().item<float>(), 0.999);
}

TEST(Decoder, EachLayerMayHaveItsOwnBiasAndSeesTheLayerBefore) {
  Setting s;
  std::vector<std::int64_t> seen;
  s.inputs.bias = [&](std::int64_t layer, const torch::Tensor& previous) {
    seen.push_back(layer);
    EXPECT_EQ(previous.defined(), layer > 0);
    return ops::StructuredBias{};
  };
  s.decoder->forward(s.inputs);
  EXPECT_EQ(seen, (std::vector<std::int64_t>{0, 1}));
}

TEST(Decoder, SelfMaskKeepsQueriesApart) {
  Setting s;
  auto blocked = torch::zeros({1, 1, kQueries, kQueries}, torch::kBool);
  blocked.slice(2, 0, 6).slice(3, 6).fill_(true);  // the first half cannot see the second
  s.inputs.self_blocked = blocked;
  const auto before = s.decoder->forward(s.inputs).states;
  s.inputs.query_position.slice(1, 6).add_(1);
  const auto after = s.decoder->forward(s.inputs).states;
  EXPECT_TRUE(same_bits(after.slice(2, 0, 6), before.slice(2, 0, 6)));
  EXPECT_FALSE(same_bits(after.slice(2, 6), before.slice(2, 6)));
}

TEST(QueryRouter, UntrainedLeavesTheDecoderBitIdenticalAndStillGetsGradient) {
  for (const auto mode : {RouterMode::kContent, RouterMode::kCues, RouterMode::kLearned, RouterMode::kZeroSum}) {
    Setting s;
    const auto plain = s.decoder->forward(s.inputs).states;
    QueryRouter router(QueryRouterOptions{
        .mode = mode, .width = kWidth, .num_heads = 2, .feedforward_width = 32, .bev_window = 3, .camera_window = 3});
    router->eval();
    AttentionBias bias(AttentionBiasOptions{.segments = true, .bev_window = 3, .camera_window = 3});
    const auto trust = router->forward(s.router_inputs());
    EXPECT_EQ(trust.abs().max().item<float>(), 0);
    const auto windows = bias->windows(s.projection, s.scene);
    s.inputs.bias = [&](std::int64_t layer, const torch::Tensor&) {
      return bias->forward(trust, windows, s.scene, layer);
    };
    const auto biased = s.decoder->forward(s.inputs).states;
    EXPECT_TRUE(same_bits(biased, plain));
    // A norm ends each layer, so that the sum of squares would be constant: a random weighting is not.
    (biased * torch::randn_like(biased)).sum().backward();
    EXPECT_EQ(bias->scale->raw().grad().abs().item<float>(), 0);  // w = 0: no illness
    if (router->age_gain.defined()) {
      EXPECT_GT(router->age_gain.grad().abs().max().item<float>(), 0);
    }
    if (router->content) {
      EXPECT_GT(router->content->bias.grad().abs().max().item<float>(), 0);
    }
  }
}

TEST(QueryRouter, ModesGiveTheTrustTheyName) {
  Setting s;
  const auto router_of = [](RouterMode mode) {
    QueryRouter router(QueryRouterOptions{
        .mode = mode, .width = kWidth, .num_heads = 2, .feedforward_width = 32, .bev_window = 3, .camera_window = 3});
    router->eval();
    const torch::NoGradGuard guard;
    if (router->age_gain.defined()) {
      router->age_gain.copy_(torch::tensor({1.0F, 2.0F}));
      router->level_gain.copy_(torch::tensor({0.5F, 0.25F}));
      router->offset.copy_(torch::tensor({0.1F, -0.1F}));
    }
    if (router->content) router->content->bias.copy_(torch::tensor({0.3F, 0.6F}));
    return router;
  };
  const auto at = [&](RouterMode mode, int sensor) {
    return router_of(mode)->forward(s.router_inputs())[0][0][sensor].item<double>();
  };
  EXPECT_FALSE(router_of(RouterMode::kOff)->forward(s.router_inputs()).defined());
  EXPECT_EQ(at(RouterMode::kConstant, 0), 1);
  EXPECT_NEAR(at(RouterMode::kContent, 0), std::tanh(0.3), 1e-6);
  // g (0.5 - age) + k level + c with age (0.1, 0.9) and level (0.2, -0.4)
  EXPECT_NEAR(at(RouterMode::kCues, 0), std::tanh(0.4 + 0.1 + 0.1), 1e-6);
  EXPECT_NEAR(at(RouterMode::kCues, 1), std::tanh(-0.8 - 0.1 - 0.1), 1e-6);
  EXPECT_NEAR(at(RouterMode::kLearned, 1), std::tanh(-1.0 + 0.6), 1e-6);
  const auto zero_sum = router_of(RouterMode::kZeroSum)->forward(s.router_inputs());
  EXPECT_LT(zero_sum.sum(2).abs().max().item<float>(), 1e-6);
  auto inputs = s.router_inputs();
  inputs.labels = torch::rand({1, kQueries, 2});
  EXPECT_TRUE(same_bits(router_of(RouterMode::kOracle)->forward(inputs), *inputs.labels));
  inputs.labels.reset();
  EXPECT_EQ(error_of([&] { router_of(RouterMode::kOracle)->forward(inputs); }),
            "[QueryRouter] labels must be [B, Q, X] in mode oracle");
  const auto sorted = [](const torch::Tensor& t) { return std::get<0>(t.select(2, 0).sort(1)); };
  EXPECT_TRUE(same_bits(sorted(router_of(RouterMode::kShuffled)->forward(s.router_inputs())),
                        sorted(router_of(RouterMode::kLearned)->forward(s.router_inputs()))));
}

TEST(QueryRouter, SeesOnlyTheKeysRoundItsQuery) {
  Setting s;
  QueryRouter router(QueryRouterOptions{.mode = RouterMode::kContent,
                                        .width = kWidth,
                                        .num_heads = 2,
                                        .feedforward_width = 32,
                                        .bev_window = 3,
                                        .camera_window = 3});
  router->eval();
  torch::nn::init::normal_(router->content->weight);
  const auto before = router->forward(s.router_inputs());
  const auto cell = s.projection.cell[0][0][0];
  const std::int64_t own_key = cell[1].item<std::int64_t>() * 8 + cell[0].item<std::int64_t>();
  s.inputs.memory[0][own_key].add_(5);
  const auto changed = (router->forward(s.router_inputs()) - before).abs().sum(2)[0];
  EXPECT_GT(changed[0].item<float>(), 0);
  for (std::int64_t q = 1; q < kQueries; ++q) {
    const auto other = s.projection.cell[0][q][0];
    const bool near = (other - cell).abs().max().item<std::int64_t>() <= 1;
    EXPECT_EQ(changed[q].item<float>() > 0, near) << q;
  }
}

TEST(QueryRouter, SupervisionCountsForegroundOnly) {
  const auto trust = torch::tensor({0.5F, -0.5F, 1.0F, 1.0F}).view({1, 2, 2});
  const auto labels = torch::tensor({1.0F, -1.0F, 0.0F, 0.0F}).view({1, 2, 2});
  const auto first = torch::tensor({1, 0}).to(torch::kBool).view({1, 2});
  EXPECT_NEAR(QueryRouterImpl::supervision_loss(trust, labels, first).item<double>(), 0.5 * 0.5, 1e-7);
  EXPECT_EQ(QueryRouterImpl::supervision_loss(trust, labels, torch::zeros({1, 2}, torch::kBool)).item<double>(), 0);
}

}  // namespace
}  // namespace camber::nn
