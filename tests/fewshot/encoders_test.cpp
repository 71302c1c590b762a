#include "camber/fewshot/encoders.h"

#include <gtest/gtest.h>

#include <torch/nn/functional/conv.h>

#include "camber/fewshot/norm_pool_relu.h"
#include "camber/fewshot/style_domain_encoder.h"

namespace camber::fewshot {
namespace {

TEST(Conv4, EqualsTheBlockAsItIsUsuallyWritten) {
  torch::manual_seed(1);
  Conv4 net(1, 8);
  const auto images = torch::rand({6, 1, 28, 28});
  const auto seen = net(images);
  ASSERT_EQ(seen.sizes(), (std::vector<std::int64_t>{6, 8}));
  // Convolution, batch normalisation with the batch's own statistics, ReLU, maximum; channels first.
  auto maps = images;
  const auto parameters = net->named_parameters();
  for (int i = 0; i < 4; ++i) {
    const std::string n = std::to_string(i);
    maps = torch::conv2d(maps, parameters["convolution" + n + ".weight"].contiguous(),
                         parameters["convolution" + n + ".bias"], 1, 1);
    const auto mean = maps.mean({0, 2, 3}, true), variance = maps.var({0, 2, 3}, false, true);
    maps = (maps - mean) / (variance + 1e-5).sqrt() * parameters["norm" + n + ".weight"].view({1, -1, 1, 1}) +
           parameters["norm" + n + ".bias"].view({1, -1, 1, 1});
    maps = torch::max_pool2d(torch::relu(maps), 2);
  }
  EXPECT_LT((seen - maps.flatten(1)).abs().max().item<double>(), 2e-5);
}

struct Block {
  torch::Tensor output, maps_gradient, weight_gradient, bias_gradient, running_mean, running_var;
};

// One pass of the three operations, fused or one after the other.
Block run_block(const torch::Tensor& values, bool fused, torch::Dtype type = torch::kFloat) {
  torch::manual_seed(6);
  torch::nn::BatchNorm2d norm(values.size(1));
  {
    const torch::NoGradGuard no_grad;
    norm->weight.copy_(torch::randn({values.size(1)}));  // slopes of both signs
    norm->bias.copy_(torch::randn({values.size(1)}));
  }
  norm->to(type);
  auto maps = values.to(type).detach().clone().requires_grad_(true);
  const auto output = fused ? norm_pool_relu(maps, norm) : torch::max_pool2d(torch::relu(norm(maps)), 2);
  torch::manual_seed(7);
  (output * torch::randn(output.sizes()).to(type)).sum().backward();
  return {output.detach(), maps.grad(), norm->weight.grad(), norm->bias.grad(), norm->running_mean, norm->running_var};
}

TEST(NormPoolRelu, EqualsTheThreeOperationsInDouble) {
  torch::manual_seed(5);
  for (const auto& [height, width] : {std::pair{28, 28}, std::pair{7, 7}, std::pair{3, 5}, std::pair{2, 2}}) {
    const auto values = 3 * torch::randn({9, 5, height, width}) + 2;
    const Block seen = run_block(values, true), expected = run_block(values, false, torch::kDouble);
    const auto close = [](const torch::Tensor& a, const torch::Tensor& b) {
      return (a.to(torch::kDouble) - b).abs().max().item<double>() / std::max(1.0, b.abs().max().item<double>());
    };
    EXPECT_LT(close(seen.output, expected.output), 2e-6);
    EXPECT_LT(close(seen.maps_gradient, expected.maps_gradient), 2e-6);
    EXPECT_LT(close(seen.weight_gradient, expected.weight_gradient), 2e-6);
    EXPECT_LT(close(seen.bias_gradient, expected.bias_gradient), 2e-6);
    EXPECT_LT(close(seen.running_mean, expected.running_mean), 1e-6);
    EXPECT_LT(close(seen.running_var, expected.running_var), 1e-6);
  }
}

TEST(NormPoolRelu, GivesTheSameBitsForAnyNumberOfThreads) {
  torch::manual_seed(5);
  const auto values = torch::randn({17, 8, 14, 14});
  const int threads = torch::get_num_threads();
  torch::set_num_threads(1);
  const Block one = run_block(values, true);
  torch::set_num_threads(3);
  const Block three = run_block(values, true);
  torch::set_num_threads(threads);
  EXPECT_TRUE(torch::equal(one.output, three.output));
  EXPECT_TRUE(torch::equal(one.maps_gradient, three.maps_gradient));
  EXPECT_TRUE(torch::equal(one.weight_gradient, three.weight_gradient));
}

TEST(SaResNet12, HasTheStagesOfTheHostModelAtFullSize) {
  SaResNet12 net(3, EncoderOptions{.kind = EncoderKind::kSaResNet12, .channels = 64});
  const auto parameters = net->named_parameters();
  for (const auto& [stage, channels] : {std::pair{0, 64}, std::pair{1, 160}, std::pair{2, 320}, std::pair{3, 640}})
    EXPECT_EQ(parameters["stages." + std::to_string(stage) + ".convolution2.weight"].size(0), channels);
  EXPECT_EQ(parameters["stages.0.convolution0.weight"].size(1), 4) << "three colours and the Sobel magnitude";
  const torch::NoGradGuard no_grad;
  net->eval();
  const auto feature = net(torch::rand({1, 3, 84, 84}));
  EXPECT_EQ(feature.sizes(), (std::vector<std::int64_t>{1, 640}));
  EXPECT_TRUE(feature.isfinite().all().item<bool>());
}

TEST(SaResNet12, TrainsEveryParameterAndIsDeterministicInEvaluation) {
  torch::manual_seed(2);
  SaResNet12 net(3, EncoderOptions{.kind = EncoderKind::kSaResNet12, .channels = 8, .mix_style = 1});
  const auto images = torch::rand({4, 3, 32, 32});
  net(images).square().sum().backward();
  for (const auto& entry : net->named_parameters()) {
    ASSERT_TRUE(entry.value().grad().defined()) << entry.key();
    EXPECT_TRUE(entry.value().grad().isfinite().all().item<bool>()) << entry.key();
  }
  EXPECT_FALSE(torch::equal(net(images), net(images))) << "MixStyle and DropBlock draw in training";
  net->eval();
  EXPECT_TRUE(torch::equal(net(images), net(images)));
}

TEST(MixStyles, KeepsTheContentAndMixesTheStatistics) {
  torch::manual_seed(3);
  const auto maps = torch::randn({8, 3, 6, 6}) * torch::rand({8, 3, 1, 1}) + torch::randn({8, 3, 1, 1});
  const auto mixed = mix_styles(maps);
  const auto standard = [](const torch::Tensor& x) { return (x - x.mean({2, 3}, true)) / x.std({2, 3}, false, true); };
  EXPECT_LT((standard(maps) - standard(mixed)).abs().max().item<double>(), 1e-3);
  EXPECT_GT((maps - mixed).abs().max().item<double>(), 0.05);
}

TEST(DropBlocks, DropsSquaresOfAboutTheShareAndKeepsTheMean) {
  torch::manual_seed(4);
  const auto maps = torch::ones({200, 2, 10, 10});
  const auto dropped = drop_blocks(maps, 0.1, 3);
  const auto zeros = dropped.eq(0).to(torch::kDouble).mean().item<double>();
  EXPECT_NEAR(zeros, 0.1, 0.03);
  EXPECT_NEAR(dropped.mean().item<double>(), 1, 1e-4);
  EXPECT_TRUE(torch::equal(drop_blocks(maps, 0, 3), maps));
}

TEST(StyleDomainEncoder, HasFixedFiltersOfWhichOnlyTheGainsLearn) {
  const auto bank = style_filter_bank();
  ASSERT_EQ(bank.sizes(), (std::vector<std::int64_t>{14, 1, 7, 7}));
  EXPECT_LT(bank.sum({1, 2, 3}).abs().max().item<double>(), 1e-5);
  EXPECT_LT((bank.norm(2, {1, 2, 3}) - 1).abs().max().item<double>(), 1e-5);
  StyleDomainEncoder encoder(16);
  for (const auto& entry : encoder->named_parameters()) EXPECT_EQ(entry.key().find("bank"), std::string::npos);
  EXPECT_EQ(encoder->named_parameters()["gain"].numel(), 14);
}

TEST(StyleDomainEncoder, TellsTextureFromContentAndKnowsNoBatch) {
  torch::manual_seed(5);
  StyleDomainEncoder encoder(16);
  const auto images = torch::rand({5, 1, 28, 28});
  const auto all = encoder(images), one = encoder(images.narrow(0, 2, 1));
  ASSERT_EQ(all.sizes(), (std::vector<std::int64_t>{5, 16}));
  EXPECT_LT((all[2] - one[0]).abs().max().item<double>(), 1e-5) << "no statistics of the batch";
  EXPECT_LE(all.abs().max().item<double>(), 1);
  // A shifted image of the same texture is nearer than a smooth one.
  const auto noise = torch::rand({1, 1, 28, 28});
  const auto shifted = noise.roll({5, 3}, {2, 3}), smooth = torch::avg_pool2d(noise, 5, 1, 2);
  const auto distance = [&](const torch::Tensor& other) {
    return (encoder(noise) - encoder(other)).norm().item<double>();
  };
  EXPECT_LT(distance(shifted), 0.5 * distance(smooth));
}

TEST(Encoder, SaysWhatItTakes) {
  EXPECT_THROW(Encoder(std::vector<std::int64_t>{16}, EncoderOptions{}), std::exception);
  EXPECT_THROW(Encoder(std::vector<std::int64_t>{1, 8, 8}, EncoderOptions{}), std::exception);
  Encoder table(std::vector<std::int64_t>{16}, EncoderOptions{.kind = EncoderKind::kMlp, .width = 24});
  EXPECT_EQ(table->width(), 24);
  EXPECT_EQ(table(torch::randn({3, 16})).size(1), 24);
}

}  // namespace
}  // namespace camber::fewshot
