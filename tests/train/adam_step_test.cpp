#include <cmath>
#include <memory>
#include <vector>

#include <camber/train/scale_projector.h>
#include <gtest/gtest.h>

#include <ATen/Parallel.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>

// ScaleProjector::step takes the steps of torch's Adam and AdamW in one pass over all parameters: beside torch's own.
namespace camber::train {
namespace {

using torch::optim::Adam;
using torch::optim::AdamOptions;
using torch::optim::AdamW;
using torch::optim::AdamWOptions;

struct AdamPair : torch::nn::Module {
  AdamPair() {
    register_module("linear", torch::nn::Linear(67, 301));  // more than a task, and no multiple of a vector
    auto conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(5, 7, 3)));
    conv->weight.set_data(conv->weight.data().to(torch::MemoryFormat::ChannelsLast));
    unused = register_parameter("unused", torch::ones({3}));
  }
  torch::Tensor unused;
};

// Parameters after some steps with gradients that are the same whenever this is called.
template <class Optimizer, class Options>
std::vector<torch::Tensor> after_steps(const Options& options, bool by_torch, torch::ScalarType type = torch::kFloat) {
  torch::manual_seed(3);
  AdamPair model;
  model.to(type);
  Optimizer optimizer(model.parameters(), options);
  ScaleProjector projector(model);
  for (int step = 0; step < 5; ++step) {
    for (torch::Tensor& parameter : model.parameters())  // as they come, contiguous also where the parameter is not
      if (!parameter.is_same(model.unused)) parameter.mutable_grad() = torch::randn(parameter.sizes()).to(type);
    if (by_torch)
      optimizer.step();
    else
      projector.step(optimizer);
  }
  EXPECT_EQ(optimizer.state().count(model.unused.unsafeGetTensorImpl()), 0U);
  auto result = model.parameters();
  for (const torch::Tensor& parameter : model.parameters()) {
    if (parameter.is_same(model.unused)) continue;
    using State = std::conditional_t<std::is_same_v<Optimizer, Adam>, torch::optim::AdamParamState,
                                     torch::optim::AdamWParamState>;
    const auto& state = static_cast<const State&>(*optimizer.state().at(parameter.unsafeGetTensorImpl()));
    EXPECT_EQ(state.step(), 5);
    result.push_back(state.exp_avg());
    result.push_back(state.exp_avg_sq());
  }
  return result;
}

template <class Optimizer, class Options>
void expect_torchs_step(const Options& options, double allowed, torch::ScalarType type = torch::kFloat) {
  const auto ours = after_steps<Optimizer>(options, false, type), torchs = after_steps<Optimizer>(options, true, type);
  ASSERT_EQ(ours.size(), torchs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_EQ(ours[i].strides(), torchs[i].strides()) << i;
    EXPECT_LE((ours[i] - torchs[i]).abs().max().template item<double>(), allowed) << i;
  }
}

TEST(AdamStep, IsTorchsStep) {
  expect_torchs_step<AdamW>(AdamWOptions(0.01).weight_decay(0.1), 1e-7);
  expect_torchs_step<AdamW>(AdamWOptions(0.01).weight_decay(0).betas({0.5, 0.9}).eps(1e-3), 1e-7);
  expect_torchs_step<Adam>(AdamOptions(0.01).weight_decay(0.1), 1e-7);
  expect_torchs_step<Adam>(AdamOptions(0.01), 1e-7);
}

TEST(AdamStep, CountsAsAWriteToEveryParameterItMoved) {
  AdamPair model;
  AdamW optimizer(model.parameters(), AdamWOptions(0.01));
  ScaleProjector projector(model);
  const torch::Tensor moved = model.parameters().back();
  moved.mutable_grad() = torch::ones_like(moved);
  const auto version = moved._version(), untouched = model.unused._version();
  projector.step(optimizer);
  EXPECT_GT(moved._version(), version);
  EXPECT_EQ(model.unused._version(), untouched);
}

TEST(AdamStep, WhatItDoesNotTakeIsLeftToTorch) {
  expect_torchs_step<AdamW>(AdamWOptions(0.01).amsgrad(true), 0);
  expect_torchs_step<AdamW>(AdamWOptions(0.01), 0, torch::kDouble);
}

TEST(AdamStep, GivesTheSameBitsForAnyNumberOfThreads) {
  const int before = at::get_num_threads();
  const auto options = AdamWOptions(0.01).weight_decay(0.1);
  at::set_num_threads(1);
  const auto one = after_steps<AdamW>(options, false);
  at::set_num_threads(3);
  const auto three = after_steps<AdamW>(options, false);
  at::set_num_threads(before);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(torch::equal(one[i], three[i])) << i;
}

}  // namespace
}  // namespace camber::train
