// The projector: which scales it finds, what it does to their momentum, and that decay and schedules are safe with it.
#include <stdexcept>

#include <camber/train/scale_projector.h>
#include <gtest/gtest.h>

#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

namespace camber::train {
namespace {

using nn::BoundedScale;
using nn::BoundedScaleOptions;

struct ScaledModelImpl : torch::nn::Module {
  ScaledModelImpl() {
    linear = register_module("linear", torch::nn::Linear(2, 2));
    first = register_module("first", BoundedScale());
    inner = register_module("inner", std::make_shared<torch::nn::Module>("inner"));
    second = BoundedScale(nn::scale_preset("logit"));
    inner->register_module("second", second);
    inner->register_module("again", second);
    register_module("fixed", BoundedScale(nn::scale_preset("fixed")));
  }
  torch::nn::Linear linear{nullptr};
  BoundedScale first{nullptr};
  BoundedScale second{nullptr};
  std::shared_ptr<torch::nn::Module> inner;
};
TORCH_MODULE(ScaledModel);

std::vector<double> values(const torch::Tensor& tensor) {
  const torch::Tensor flat = tensor.detach().to(torch::kDouble).reshape({-1}).contiguous();
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

void set_gradient(BoundedScale& scale, const std::vector<float>& gradient) {
  scale->raw().mutable_grad() = torch::tensor(gradient).reshape(scale->raw().sizes());
}

class CollectWarnings : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override { messages.push_back(warning.msg()); }
  std::vector<std::string> messages;
};

TEST(ScaleProjector, FindsEveryScaleOnce) {
  ScaledModel model;
  const ScaleProjector projector(*model);
  std::vector<std::string> names;
  for (const NamedScale& entry : projector.scales()) {
    names.push_back(entry.name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"first", "inner.second", "fixed"}));
  BoundedScale alone;
  EXPECT_EQ(ScaleProjector(*alone).scales().size(), 1U);
  torch::nn::Linear none(2, 2);
  EXPECT_TRUE(ScaleProjector(*none).scales().empty());
}

// Element 0 is driven out above, 1 out below, 2 moves inside, 3 sits at the top and is driven down.
struct Start {
  BoundedScale scale{BoundedScaleOptions{.shape = {4}}};
  Start() {
    torch::NoGradGuard no_grad;
    scale->raw().copy_(torch::tensor({4.99F, 0.51F, 2.5F, 5.0F}));
    set_gradient(scale, {-1, 1, -1, 1});
  }
};

TEST(ScaleProjector, SgdMomentumThatPointsOutwardIsZeroed) {
  for (const bool nesterov : {false, true}) {
    Start start;
    torch::optim::SGD optimizer(start.scale->parameters(),
                                torch::optim::SGDOptions(0.1).momentum(0.9).nesterov(nesterov));
    ScaleProjector projector(*start.scale);
    projector.step(optimizer);
    const auto raw = values(start.scale->raw());
    EXPECT_EQ(raw[0], 5.0);
    EXPECT_EQ(raw[1], 0.5);
    EXPECT_NEAR(raw[2], nesterov ? 2.69 : 2.6, 1e-6);
    EXPECT_NEAR(raw[3], nesterov ? 4.81 : 4.9, 1e-6);
    const auto& state =
        static_cast<torch::optim::SGDParamState&>(*optimizer.state().at(start.scale->raw().unsafeGetTensorImpl()));
    EXPECT_EQ(values(state.momentum_buffer()), (std::vector<double>{0, 0, -1, 1}));
  }
}

template <class Optimizer, class State, class Options>
void expect_adam_reset(Options options) {
  Start start;
  Optimizer optimizer(start.scale->parameters(), options.weight_decay(0));
  ScaleProjector projector(*start.scale);
  projector.step(optimizer);
  const auto raw = values(start.scale->raw());
  EXPECT_EQ(raw[0], 5.0);
  EXPECT_EQ(raw[1], 0.5);
  EXPECT_NEAR(raw[2], 2.6, 1e-5);
  EXPECT_NEAR(raw[3], 4.9, 1e-5);
  const auto& state = static_cast<State&>(*optimizer.state().at(start.scale->raw().unsafeGetTensorImpl()));
  const auto mean = values(state.exp_avg());
  EXPECT_EQ(mean[0], 0);
  EXPECT_EQ(mean[1], 0);
  EXPECT_NEAR(mean[2], -0.1, 1e-7);
  EXPECT_NEAR(mean[3], 0.1, 1e-7);
  for (const double square : values(state.exp_avg_sq())) {
    EXPECT_NEAR(square, 0.001, 1e-9);
  }
  EXPECT_EQ(state.step(), 1);
}

TEST(ScaleProjector, AdamsMeanThatPointsOutwardIsZeroedAndTheRestStays) {
  expect_adam_reset<torch::optim::Adam, torch::optim::AdamParamState>(torch::optim::AdamOptions(0.1));
  expect_adam_reset<torch::optim::AdamW, torch::optim::AdamWParamState>(torch::optim::AdamWOptions(0.1));
}

// Projected by a changed gradient while the mean already points back inside: that momentum is kept.
TEST(ScaleProjector, MomentumThatPointsInwardIsKept) {
  BoundedScale scale;
  torch::optim::SGD optimizer(scale->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  ScaleProjector projector(*scale);
  set_gradient(scale, {1});
  projector.step(optimizer);
  {
    torch::NoGradGuard no_grad;
    scale->raw().fill_(9);
  }
  set_gradient(scale, {1});
  projector.step(optimizer);
  EXPECT_EQ(scale->raw().item<float>(), 5.0F);
  const auto& state =
      static_cast<torch::optim::SGDParamState&>(*optimizer.state().at(scale->raw().unsafeGetTensorImpl()));
  EXPECT_NEAR(state.momentum_buffer().item<double>(), 1.9, 1e-6);
}

TEST(ScaleProjector, StateThatDoesNotExistYetIsNormal) {
  ScaledModel model;
  ScaleProjector projector(*model);
  torch::optim::SGD without_momentum(model->parameters(), torch::optim::SGDOptions(0.1));
  set_gradient(model->first, {-100});
  projector.step(without_momentum);
  EXPECT_EQ(model->first->raw().item<float>(), 5.0F);
  torch::optim::AdamW fresh(model->parameters(), torch::optim::AdamWOptions(0.1).weight_decay(0));
  projector.project(fresh);
  EXPECT_EQ(model->first->num_steps(), 2);
}

TEST(ScaleProjector, UnknownOptimiserIsAnErrorBeforeItMovesAnything) {
  ScaledModel model;
  ScaleProjector projector(*model);
  torch::optim::RMSprop optimizer(model->parameters(), torch::optim::RMSpropOptions(0.1));
  set_gradient(model->first, {-1});
  try {
    projector.step(optimizer);
    FAIL() << "was accepted";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(),
                 "[scale_projector] optimizer must be torch::optim::SGD, Adam or AdamW, got torch::optim::RMSprop");
  }
  EXPECT_EQ(model->first->raw().item<float>(), 2.5F);
}

TEST(ScaleProjector, TouchesOnlyTheScalesOfItsOptimiser) {
  ScaledModel model;
  ScaleProjector projector(*model);
  torch::optim::SGD optimizer(model->first->parameters(), torch::optim::SGDOptions(0.1));
  set_gradient(model->first, {-100});
  projector.step(optimizer);
  EXPECT_EQ(model->first->num_steps(), 1);
  EXPECT_EQ(model->second->num_steps(), 0);
}

TEST(ScaleProjector, DecayOnAScaleIsToldOnce) {
  CollectWarnings collected;
  const c10::WarningUtils::WarningHandlerGuard guard(&collected);
  ScaledModel model;
  ScaleProjector projector(*model);
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-3));
  set_gradient(model->first, {0});
  projector.step(optimizer);
  projector.step(optimizer);
  ASSERT_EQ(collected.messages.size(), 1U);
  EXPECT_EQ(collected.messages[0],
            "[scale_projector] weight decay of scale 'first' must be 0, got 0.01: build the optimiser with "
            "OptimizerGroups, or give its scales a group without decay");
}

TEST(ScaleProjector, RunsClosuresSchedulesAndPenalties) {
  BoundedScale scale(BoundedScaleOptions{
      .l2_weight = 0.5, .l2_center = {1.5}, .bounds_schedule = {{.from_step = 10, .min = 1, .max = 2}}});
  ScaleProjector projector(*scale);
  EXPECT_NEAR(projector.penalty().item<double>(), 0.5, 1e-6);
  torch::optim::SGD optimizer(scale->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  const torch::Tensor loss = projector.step(optimizer, [&] {
    optimizer.zero_grad();
    torch::Tensor penalty = projector.penalty();
    penalty.backward();
    return penalty;
  });
  EXPECT_NEAR(loss.item<double>(), 0.5, 1e-6);
  EXPECT_NEAR(scale->raw().item<double>(), 2.4, 1e-6);
  EXPECT_FALSE(projector.apply_schedule(0, 9));
  EXPECT_TRUE(projector.apply_schedule(0, 10));
  EXPECT_EQ(scale->value().item<float>(), 2.0F);
  ScaledModel without_pull;
  EXPECT_FALSE(ScaleProjector(*without_pull).penalty().defined());
}

// The clip of a bias is scheduled with the bounds of its scales, at the top of a model or below it.
TEST(ScaleProjector, AppliesTheClipSchedule) {
  struct Holder : torch::nn::Module {
    nn::AttentionBias bias{nullptr};
    Holder() {
      bias =
          register_module("bias", nn::AttentionBias(nn::AttentionBiasOptions{
                                      .clip_schedule = {{.from_epoch = 1, .clip = 3}, {.from_epoch = 4, .clip = 2}}}));
    }
  } model;
  ScaleProjector below(model), itself(*model.bias);
  EXPECT_FALSE(below.apply_schedule(0, 0));
  EXPECT_EQ(model.bias->clip(), 5);
  EXPECT_TRUE(below.apply_schedule(1, 0));
  EXPECT_FALSE(below.apply_schedule(3, 0));
  EXPECT_EQ(model.bias->clip(), 3);
  EXPECT_TRUE(itself.apply_schedule(4, 0));
  EXPECT_EQ(model.bias->clip(), 2);
}

// A tightening schedule in the middle of a run: the scale is on its new bound at once and still learns.
TEST(ScaleProjector, LearnsOnAfterTightening) {
  BoundedScale scale(BoundedScaleOptions{.bounds_schedule = {{.from_step = 50, .min = 0.5, .max = 3}}});
  ScaleProjector projector(*scale);
  torch::optim::Adam optimizer(scale->parameters(), torch::optim::AdamOptions(0.1));
  for (int step = 0; step < 600; ++step) {
    projector.apply_schedule(0, step);
    optimizer.zero_grad();
    torch::square(scale->value() - (step < 100 ? 15.0 : 1.0)).backward();
    EXPECT_NE(scale->raw().grad().item<float>(), 0) << step;
    projector.step(optimizer);
    EXPECT_LE(scale->value().item<float>(), step < 50 ? 5.0F : 3.0F) << step;
  }
  EXPECT_NEAR(scale->value().item<double>(), 1.0, 0.1);
  EXPECT_GT(scale->share_at_bound().item<double>(), 0.1);
}

}  // namespace
}  // namespace camber::train
