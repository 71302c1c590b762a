// CMT's modules against plain definitions in double, without any stored value.
#include <torch/nn/functional/batchnorm.h>
#include <torch/nn/functional/conv.h>
#include <torch/nn/functional/pooling.h>

#include "camber/detection/cmt_head.h"
#include "cmt/recipe.h"
#include "detection/cmt/bev_backbone.h"
#include "detection/cmt/sparse_encoder.h"
#include "detection/cmt/vovnet.h"
#include "detection/cmt/voxels.h"
#include "detection/resnet.h"
#include "detection/task_heads.h"
#include "support/comparison.h"

namespace camber::cmt_tests {
namespace {

std::string joined(std::initializer_list<std::string> parts) {
  std::string name;
  for (const std::string& part : parts) name += part;
  return name;
}

using camber::proof::close;
using camber::proof::gradients_match;
using camber::proof::same_bits;
using namespace detection;

using State = std::map<std::string, torch::Tensor>;

// Fills a module with numbers that no two layers share, in double, and returns them by name.
State filled(torch::nn::Module& module) {
  const torch::NoGradGuard guard;
  module.to(torch::kDouble);
  State state;
  const auto fill = [&](const std::string& name, const torch::Tensor& value) {
    if (value.dim() == 0) return;  // counters
    const auto noise = probe(name, value.sizes());
    const double reach = 1.5 / std::sqrt(static_cast<double>(value.numel()) / static_cast<double>(value.size(0)));
    if (name.ends_with("running_var"))
      value.copy_(1 + 0.5 * noise);
    else if (value.dim() == 1 && name.ends_with("weight"))
      value.copy_(1 + 0.3 * noise);
    else
      value.copy_(value.dim() == 1 ? 0.2 * noise : reach * noise);
    state[name] = value;
  };
  for (auto& entry : module.named_parameters()) fill(entry.key(), entry.value());
  for (auto& entry : module.named_buffers()) fill(entry.key(), entry.value());
  module.eval();
  return state;
}

torch::Tensor normed(const State& state, const std::string& name, const torch::Tensor& input, double eps) {
  const auto shape = [&](const torch::Tensor& t) { return t.view({1, -1, 1, 1}); };
  const auto scale = state.at(name + ".weight") / torch::sqrt(state.at(name + ".running_var") + eps);
  return (input - shape(state.at(name + ".running_mean"))) * shape(scale) + shape(state.at(name + ".bias"));
}

torch::Tensor convolved(const State& state, const std::string& name, const torch::Tensor& input, std::int64_t stride) {
  const auto& weight = state.at(name + ".weight");
  return torch::conv2d(input, weight, {}, stride, weight.size(2) / 2);
}

torch::Tensor layer(const State& state, const std::string& conv, const std::string& norm, const torch::Tensor& input,
                    std::int64_t stride, double eps) {
  return normed(state, norm, convolved(state, conv, input, stride), eps).clamp_min(0);
}

TEST(CmtVovNet, EqualsItsDefinition) {
  const cmt::VovNetShape shape{
      .stem = {4, 6, 8}, .inner = {5, 6, 7, 8}, .outputs = {10, 12, 14, 16}, .blocks = {1, 2, 3, 2}, .convolutions = 3};
  cmt::VovNet net(shape);
  const auto state = filled(*net);
  const auto images = probe("images", {2, 3, 48, 80});
  auto x = images;
  for (const auto& [name, stride] : {std::pair("stem_1", 2), {"stem_2", 1}, {"stem_3", 2}})
    x = layer(state, std::string("stem.") + name + "/conv", std::string("stem.") + name + "/norm", x, stride, 1e-5);
  std::vector<torch::Tensor> stages;
  for (std::size_t s = 0; s < 4; ++s) {
    const std::string number = std::to_string(s + 2);
    if (s > 0) x = torch::max_pool2d(x, 3, 2, 0, 1, /*ceil_mode=*/true);
    for (std::int64_t b = 1; b <= shape.blocks[s]; ++b) {
      const std::string block = joined({"OSA", number, "_", std::to_string(b)}),
                        name = joined({"stage", number, ".", block});
      std::vector<torch::Tensor> all{x};
      for (std::int64_t i = 0; i < 3; ++i) {
        const std::string inner = joined({name, ".layers.", std::to_string(i), ".", block, "_", std::to_string(i)});
        all.push_back(layer(state, inner + "/conv", inner + "/norm", all.back(), 1, 1e-5));
      }
      const std::string concat = joined({name, ".concat.", block, "_concat"});
      auto y = layer(state, concat + "/conv", concat + "/norm", torch::cat(all, 1), 1, 1e-5);
      const auto excited =
          torch::conv2d(y.mean({2, 3}, true), state.at(name + ".ese.fc.weight"), state.at(name + ".ese.fc.bias"));
      y = y * (torch::clamp(excited + 3, 0, 6) / 6);
      x = b > 1 ? y + x : y;
    }
    stages.push_back(x);
  }
  const auto out = net->forward(images);
  EXPECT_EQ(out[0].sizes(), (torch::IntArrayRef{2, 14, 3, 5}));
  EXPECT_TRUE(close(out[0], stages[2], 1e-12));
  EXPECT_TRUE(close(out[1], stages[3], 1e-12));
}

TEST(CmtVovNet, KeepsItsStatisticsInTraining) {
  const cmt::VovNetShape shape{
      .stem = {4, 4, 4}, .inner = {4, 4, 4, 4}, .outputs = {4, 4, 4, 4}, .blocks = {1, 1, 1, 1}, .convolutions = 1};
  cmt::VovNet net(shape);
  filled(*net);
  const auto images = probe("images", {1, 3, 64, 64});
  const auto before = net->forward(images)[1];
  net->train(true);
  EXPECT_TRUE(same_bits(net->forward(images)[1], before));
}

TEST(CmtResNet, EqualsItsDefinition) {
  ResNet50 net(6, 4);
  const auto state = filled(*net);
  const auto images = probe("images", {1, 3, 64, 96});
  auto x = torch::conv2d(images, state.at("conv1.weight"), {}, 2, 3);
  x = torch::max_pool2d(normed(state, "bn1", x, 1e-5).clamp_min(0), 3, 2, 1);
  std::vector<torch::Tensor> stages;
  constexpr std::array<int, 4> blocks = {3, 4, 6, 3};
  for (int s = 0; s < 4; ++s) {
    for (int b = 0; b < blocks[static_cast<std::size_t>(s)]; ++b) {
      const std::string name = "layer" + std::to_string(s + 1) + "." + std::to_string(b) + ".";
      const int stride = b == 0 && s > 0 ? 2 : 1;
      auto y = layer(state, name + "conv1", name + "bn1", x, 1, 1e-5);
      y = layer(state, name + "conv2", name + "bn2", y, stride, 1e-5);
      y = normed(state, name + "bn3", convolved(state, name + "conv3", y, 1), 1e-5);
      if (b == 0)
        x = normed(state, name + "downsample.1", torch::conv2d(x, state.at(name + "downsample.0.weight"), {}, stride),
                   1e-5);
      x = (y + x).clamp_min(0);
    }
    stages.push_back(x);
  }
  const auto out = net->forward(images);
  EXPECT_TRUE(close(out[0], stages[2], 1e-12));
  EXPECT_TRUE(close(out[1], stages[3], 1e-12));
}

TEST(CmtBevBackbone, EqualsItsDefinition) {
  cmt::Second second(6, std::array<std::int64_t, 2>{5, 7}, 2);
  cmt::SecondFpn pyramid(std::array<std::int64_t, 2>{5, 7}, 4);
  const auto state = filled(*second), up = filled(*pyramid);
  const auto map = probe("map", {2, 6, 8, 12});
  std::vector<torch::Tensor> levels;
  auto x = map;
  for (int s = 0; s < 2; ++s) {
    for (int i = 0; i < 3; ++i) {
      const std::string name = "blocks." + std::to_string(s) + ".";
      x = layer(state, name + std::to_string(3 * i), name + std::to_string(3 * i + 1), x, s == 1 && i == 0 ? 2 : 1,
                1e-3);
    }
    levels.push_back(x);
  }
  const auto near = layer(up, "deblocks.0.0", "deblocks.0.1", levels[0], 1, 1e-3);
  const auto far =
      normed(up, "deblocks.1.1", torch::conv_transpose2d(levels[1], up.at("deblocks.1.0.weight"), {}, 2), 1e-3)
          .clamp_min(0);
  const auto out = second->forward(map);
  EXPECT_TRUE(close(out[1], levels[1], 1e-12));
  EXPECT_TRUE(close(pyramid->forward(out), torch::cat({near, far}, 1), 1e-12));
}

// The sparse encoder on dense maps: convolutions by torch, and after each layer zeros wherever no site is active.
class DenseEncoder {
 public:
  DenseEncoder(const State& state, torch::Tensor map) : state_(state), map_(std::move(map)) {
    active_ = map_.abs().sum(1, true).ne(0).to(torch::kDouble);
  }
  void submanifold(const std::string& name, const std::string& norm, const torch::Tensor& residual = {}) {
    step(torch::conv3d(map_, weight(name), {}, 1, 1), norm, residual);
  }
  void strided(const std::string& name, const std::vector<std::int64_t>& stride,
               const std::vector<std::int64_t>& padding) {
    const auto kernel = weight(name + ".0");
    auto reach = torch::ones({1, 1, kernel.size(2), kernel.size(3), kernel.size(4)}, torch::kDouble);
    active_ = torch::conv3d(active_, reach, {}, stride, padding).gt(0).to(torch::kDouble);
    step(torch::conv3d(map_, kernel, {}, stride, padding), name + ".1", {});
  }
  void block(const std::string& name) {
    const auto input = map_;
    submanifold(name + ".conv1", name + ".bn1");
    submanifold(name + ".conv2", name + ".bn2", input);
  }
  torch::Tensor result() const { return map_.flatten(1, 2); }

 private:
  torch::Tensor weight(const std::string& name) const { return state_.at(name + ".weight").permute({0, 4, 1, 2, 3}); }
  void step(const torch::Tensor& convolved, const std::string& norm, const torch::Tensor& residual) {
    const auto shape = [](const torch::Tensor& t) { return t.view({1, -1, 1, 1, 1}); };
    const auto scale = state_.at(norm + ".weight") / torch::sqrt(state_.at(norm + ".running_var") + 1e-3);
    map_ = (convolved - shape(state_.at(norm + ".running_mean"))) * shape(scale) + shape(state_.at(norm + ".bias"));
    if (residual.defined()) map_ = map_ + residual;
    map_ = map_.clamp_min(0) * active_;
  }
  const State& state_;
  torch::Tensor map_, active_;
};

// Sites of two clouds, spread over the grid, each once.
torch::Tensor scattered_sites(const ops::GridShape& shape, std::int64_t count) {
  std::set<std::array<std::int64_t, 4>> chosen;
  for (std::int64_t i = 0; std::ssize(chosen) < count; ++i) {
    const auto draw = [&](std::uint64_t axis, std::int64_t size) {
      return static_cast<std::int64_t>(uniform_of("sites", axis, static_cast<std::uint64_t>(i)) *
                                       static_cast<double>(size));
    };
    chosen.insert({i % 2, draw(0, shape[0]), draw(1, shape[1]), draw(2, shape[2])});
  }
  auto sites = torch::empty({count, 4}, torch::kInt);
  std::int64_t row = 0;
  for (const auto& site : chosen) {
    for (std::size_t axis = 0; axis < 4; ++axis) sites[row][static_cast<std::int64_t>(axis)] = site[axis];
    ++row;
  }
  return sites;
}

TEST(CmtSparseEncoder, EqualsDenseConvolutionsWithAMask) {
  const ops::GridShape shape{41, 24, 16};
  cmt::SparseEncoder encoder(
      cmt::SparseEncoderOptions{.inputs = 3, .channels = {4, 5, 6, 6}, .outputs = 7, .shape = shape});
  const auto state = filled(*encoder);
  const auto sites = scattered_sites(shape, 60);
  const auto features = 1.5 + probe("features", {60, 3});
  DenseEncoder dense(state, cmt::to_dense({features, sites, shape}, 2).unflatten(1, {3, 41}));
  dense.submanifold("conv_input.0", "conv_input.1");
  for (int stage = 1; stage <= 4; ++stage) {
    const std::string name = "encoder_layers.encoder_layer" + std::to_string(stage);
    dense.block(name + ".0");
    dense.block(name + ".1");
    if (stage < 4) dense.strided(name + ".2", {2, 2, 2}, {stage == 3 ? 0 : 1, 1, 1});
  }
  dense.strided("conv_out", {2, 1, 1}, {0, 0, 0});
  const auto map = encoder->forward(features, sites, 2);
  EXPECT_EQ(map.sizes(), (torch::IntArrayRef{2, 7 * cmt::SparseEncoderImpl::output_shape(shape)[0], 3, 2}));
  EXPECT_TRUE(close(map, dense.result(), 1e-12));
}

TEST(CmtSparseEncoder, TakesEmptyCloudsAndOneVoxel) {
  const ops::GridShape shape{41, 16, 16};
  cmt::SparseEncoder encoder(
      cmt::SparseEncoderOptions{.inputs = 3, .channels = {4, 4, 4, 4}, .outputs = 4, .shape = shape});
  filled(*encoder);
  for (const bool training : {false, true}) {
    encoder->train(training);
    const auto nothing = encoder->forward(torch::zeros({0, 3}, torch::kDouble), torch::zeros({0, 4}, torch::kInt), 2);
    EXPECT_EQ(nothing.abs().sum().item<double>(), 0);
    EXPECT_EQ(nothing.size(0), 2);
    const auto one =
        encoder->forward(torch::ones({1, 3}, torch::kDouble), torch::tensor({{1, 4, 5, 6}}, torch::kInt), 2);
    EXPECT_EQ(one[0].abs().sum().item<double>(), 0);
    EXPECT_TRUE(one.isfinite().all().item<bool>());
  }
}

TEST(CmtVoxels, CountPointsByTheirFloatIndex) {
  DetectorOptions options = small_options();
  const auto limits = cmt::VoxelOptions::of(options, true);
  EXPECT_EQ(limits.cells, (std::array<std::int64_t, 3>{256, 256, 40}));
  EXPECT_EQ(limits.max_voxels, 120000);
  const float nan = std::numeric_limits<float>::quiet_NaN(), far = std::numeric_limits<float>::infinity();
  // In two clouds: a voxel twice, points outside on every side, one that is no number, and the same voxel again.
  const auto points =
      torch::tensor({0.05F,  0.05F, 0.1F, 10.0F,  0.0F,  0.06F, 0.01F, 0.05F, 20.0F, 0.1F, 12.8F, 0.0F,
                     0.0F,   1.0F,  0.0F, -12.9F, 0.0F,  0.0F,  1.0F,  0.0F,  0.0F,  0.0F, 3.0F,  1.0F,
                     0.0F,   nan,   0.0F, 0.0F,   1.0F,  0.0F,  0.0F,  far,   0.0F,  1.0F, 0.0F,  -12.8F,
                     12.75F, -5.0F, 7.0F, 0.0F,   0.05F, 0.05F, 0.1F,  30.0F, 0.0F})
          .view({9, 5});
  const auto voxels =
      cmt::voxelise(points, torch::tensor({0, 8, 9}, torch::kLong), torch::tensor({0, 1}, torch::kLong), limits);
  EXPECT_TRUE(
      voxels.coordinates.equal(torch::tensor({{0, 25, 128, 128}, {0, 0, 255, 0}, {1, 25, 128, 128}}, torch::kInt)));
  EXPECT_TRUE(voxels.counts.equal(torch::tensor({2, 1, 1}, torch::kLong)));
  EXPECT_TRUE(voxels.rows.equal(torch::tensor({0, 1, 7, 8}, torch::kLong)));
  const auto means = cmt::mean_of_voxels(points, voxels, torch::kDouble);
  EXPECT_NEAR(means[0][3].item<double>(), 15, 1e-12);
  const auto second =
      cmt::voxelise(points, torch::tensor({0, 8, 9}, torch::kLong), torch::tensor({1}, torch::kLong), limits);
  EXPECT_TRUE(second.coordinates.equal(torch::tensor({{0, 25, 128, 128}}, torch::kInt)));
  const auto none = cmt::voxelise(torch::zeros({0, 5}), torch::tensor({0, 0}, torch::kLong),
                                  torch::tensor({0}, torch::kLong), limits);
  EXPECT_EQ(cmt::mean_of_voxels(torch::zeros({0, 5}), none, torch::kFloat).sizes(), (torch::IntArrayRef{0, 5}));
}

TEST(CmtTaskHeads, JoinNeighbouringQueriesAsGroupedConvolutionsDo) {
  const std::int64_t layers = 2, width = 6, inner = 4, classes = 3;
  const auto heads = std::make_shared<TaskHeadsImpl>(layers, width, inner, classes, 3);
  const torch::NoGradGuard guard;
  heads->to(torch::kDouble);
  for (auto& entry : heads->named_parameters()) entry.value().copy_(probe(entry.key(), entry.value().sizes()));
  const auto p = heads->named_parameters();
  const auto state = probe("state", {2, 5, width});
  for (std::int64_t l = 0; l < layers; ++l) {
    const auto out = heads->forward(state, l);
    const auto taps = [&](const torch::Tensor& weight, std::int64_t channels) {  // [out, 3 * in] -> [out, in, 3]
      return weight.view({-1, 3, channels}).transpose(1, 2);
    };
    const auto hidden = taps(p["hidden"][l].narrow(0, 5 * inner, inner), width);
    const auto first = torch::conv1d(state.transpose(1, 2), hidden, {}, 1, 1).transpose(1, 2);
    const auto spread = torch::sqrt(first.var(-1, false, true) + 1e-6);
    const auto active =
        ((first - first.mean(-1, true)) / spread * p["norm_weight"][l][5] + p["norm_bias"][l][5]).clamp_min(0);
    const auto expected =
        torch::conv1d(active.transpose(1, 2), taps(p["classes_weight"][l], inner), p["classes_bias"][l], 1, 1)
            .transpose(1, 2);
    EXPECT_TRUE(close(out.logits, expected, 1e-12)) << l;
  }
}

}  // namespace
}  // namespace camber::cmt_tests
