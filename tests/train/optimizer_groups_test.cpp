// Groups by name, no decay on scales, clipping over all groups.
#include <cmath>
#include <stdexcept>

#include <camber/config/options.h>
#include <camber/nn/bounded_scale.h>
#include <camber/train/optimizer_groups.h>
#include <camber/train/scale_projector.h>
#include <gtest/gtest.h>

#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

namespace camber::train {
namespace {

struct ModelImpl : torch::nn::Module {
  ModelImpl() {
    backbone = register_module("backbone", torch::nn::Linear(3, 4));
    router = register_module("router", std::make_shared<torch::nn::Module>("router"));
    router->register_module("content", torch::nn::Linear(4, 2));
    router->register_module("cues", torch::nn::Linear(2, 2));
    scale = nn::BoundedScale(nn::scale_preset("logit"));
    router->register_module("scale", scale);
    plain = register_module("plain", nn::BoundedScale());
  }
  torch::nn::Linear backbone{nullptr};
  std::shared_ptr<torch::nn::Module> router;
  nn::BoundedScale scale{nullptr};
  nn::BoundedScale plain{nullptr};
};
TORCH_MODULE(Model);

double decay_of(const torch::optim::OptimizerParamGroup& group) {
  if (const auto* sgd = dynamic_cast<const torch::optim::SGDOptions*>(&group.options())) {
    return sgd->weight_decay();
  }
  if (const auto* adam = dynamic_cast<const torch::optim::AdamOptions*>(&group.options())) {
    return adam->weight_decay();
  }
  return dynamic_cast<const torch::optim::AdamWOptions&>(group.options()).weight_decay();
}

TEST(OptimizerGroups, LongestMatchingPatternWins) {
  Model model;
  const OptimizerGroups groups(*model, {.rules = {{.pattern = "router", .lr_mult = 2, .decay_mult = 0.5},
                                                  {.pattern = "router.content", .lr_mult = 0.1}},
                                        .scale_lr_mult = 3});
  ASSERT_EQ(groups.groups().size(), 4U);
  using Names = std::vector<std::string>;
  EXPECT_EQ(groups.groups()[0].parameter_names, (Names{"backbone.weight", "backbone.bias"}));
  EXPECT_EQ(groups.groups()[1].parameter_names, (Names{"router.cues.weight", "router.cues.bias"}));
  EXPECT_EQ(groups.groups()[2].parameter_names, (Names{"router.content.weight", "router.content.bias"}));
  EXPECT_EQ(groups.groups()[3].parameter_names, (Names{"router.scale.raw", "plain.raw"}));
  EXPECT_EQ(groups.groups()[3].name, "scales");
  EXPECT_EQ(groups.groups()[3].lr_mult, 3);
  EXPECT_EQ(groups.groups()[3].decay_mult, 0);
  EXPECT_EQ(groups.table(),
            "group                   lr x   decay x   tensors       numbers\n"
            "everything else            1         1         2            16\n"
            "router                     2       0.5         2             6\n"
            "router.content           0.1         1         2            10\n"
            "scales                     3         0         2             2\n");
}

TEST(OptimizerGroups, EveryKindGetsItsMultipliersAndScalesNeverDecay) {
  for (const OptimizerKind kind : {OptimizerKind::kSgd, OptimizerKind::kAdam, OptimizerKind::kAdamW}) {
    Model model;
    const OptimizerGroups groups(*model, {.rules = {{.pattern = "content", .lr_mult = 0.1, .decay_mult = 2}}});
    const auto optimizer =
        groups.make_optimizer({.kind = kind, .learning_rate = 0.02, .weight_decay = 0.05, .beta1 = 0.8, .eps = 1e-6});
    ASSERT_EQ(optimizer->param_groups().size(), 3U);
    const auto& made = optimizer->param_groups();
    EXPECT_DOUBLE_EQ(made[0].options().get_lr(), 0.02);
    EXPECT_DOUBLE_EQ(made[1].options().get_lr(), 0.002);
    EXPECT_DOUBLE_EQ(made[2].options().get_lr(), 0.02);
    EXPECT_DOUBLE_EQ(decay_of(made[0]), 0.05);
    EXPECT_DOUBLE_EQ(decay_of(made[1]), 0.1);
    EXPECT_EQ(decay_of(made[2]), 0);
    if (kind == OptimizerKind::kAdamW) {
      const auto& typed = dynamic_cast<const torch::optim::AdamWOptions&>(made[2].options());
      EXPECT_EQ(std::get<0>(typed.betas()), 0.8);
      EXPECT_EQ(typed.eps(), 1e-6);
    }
  }
}

// Zero gradients for a hundred steps: whatever moves then was moved by decay.
TEST(OptimizerGroups, DecayNeverTouchesAScale) {
  for (const OptimizerKind kind : {OptimizerKind::kSgd, OptimizerKind::kAdam, OptimizerKind::kAdamW}) {
    Model model;
    const OptimizerGroups groups(*model);
    const auto optimizer = groups.make_optimizer({.kind = kind, .learning_rate = 0.1, .weight_decay = 0.5});
    ScaleProjector projector(*model);
    const torch::Tensor scale = model->scale->raw().detach().clone();
    const torch::Tensor plain = model->plain->raw().detach().clone();
    const auto backbone = model->backbone->weight.norm().item<double>();
    for (int step = 0; step < 100; ++step) {
      for (torch::Tensor& parameter : model->parameters()) {
        parameter.mutable_grad() = torch::zeros_like(parameter);
      }
      projector.step(*optimizer);
    }
    EXPECT_TRUE(torch::equal(model->scale->raw(), scale)) << static_cast<int>(kind);
    EXPECT_TRUE(torch::equal(model->plain->raw(), plain)) << static_cast<int>(kind);
    EXPECT_LT(model->backbone->weight.norm().item<double>(), backbone) << static_cast<int>(kind);
  }
}

TEST(OptimizerGroups, OptionsReadAndWriteToml) {
  const OptimizerGroupsOptions groups{.rules = {{.pattern = "router.content", .lr_mult = 0.1},
                                                {.pattern = "cues", .decay_mult = 0, .must_match = false}},
                                      .scale_lr_mult = 3};
  EXPECT_EQ(config::parse<OptimizerGroupsOptions>(config::to_toml(groups), "groups.toml"), groups);
  const OptimizerOptions optimizer{.kind = OptimizerKind::kSgd, .nesterov = true, .clip_norm = 35};
  EXPECT_EQ(config::parse<OptimizerOptions>(config::to_toml(optimizer), "optimizer.toml"), optimizer);
}

TEST(OptimizerGroups, FrozenAndSharedParametersAreSortedOnce) {
  Model model;
  model->backbone->weight.requires_grad_(false);
  model->register_module("shared", model->backbone);
  const OptimizerGroups groups(*model);
  EXPECT_EQ(groups.frozen(), (std::vector<std::string>{"backbone.weight"}));
  std::size_t count = 0;
  for (const ParameterGroup& group : groups.groups()) {
    count += group.parameters.size();
  }
  EXPECT_EQ(count, 7U);
  EXPECT_NE(groups.table().find("frozen"), std::string::npos);
}

TEST(OptimizerGroups, BadRulesAreExactSentences) {
  Model model;
  const auto sentence = [&model](const OptimizerGroupsOptions& options) -> std::string {
    try {
      OptimizerGroups groups(*model, options);
      return "accepted";
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
  };
  EXPECT_EQ(
      sentence({.rules = {{.pattern = "rooter"}}}),
      "[optimizer_groups] pattern must match a parameter, got 'rooter', which matches none (bounded scales follow "
      "scale_lr_mult)");
  EXPECT_EQ(sentence({.rules = {{.pattern = "rooter", .must_match = false}}}), "accepted");
  EXPECT_EQ(sentence({.rules = {{.pattern = "scale"}}}),
            "[optimizer_groups] pattern must match a parameter, got 'scale', which matches none (bounded scales follow "
            "scale_lr_mult)");
  EXPECT_EQ(sentence({.rules = {{.pattern = "cues"}, {.pattern = "cues", .lr_mult = 3}}}),
            "[optimizer_groups] pattern must be given once, got 'cues' twice");
  EXPECT_EQ(sentence({.rules = {{.pattern = ""}}}),
            "[optimizer_groups] pattern must be part of a parameter's name, got an empty one");
  EXPECT_EQ(sentence({.rules = {{.pattern = "backbone"}, {.pattern = "e.weight"}}}),
            "[optimizer_groups] patterns that match a parameter must differ in length, got 'backbone' and 'e.weight' "
            "for 'backbone.weight'");
  EXPECT_EQ(sentence({.rules = {{.pattern = "cues", .lr_mult = -1}}}),
            "[optimizer_groups] lr_mult of 'cues' must be a finite number of at least 0, got -1");
  EXPECT_EQ(sentence({.scale_lr_mult = NAN}),
            "[optimizer_groups] scale_lr_mult must be a finite number of at least 0, got nan");
}

TEST(OptimizerGroups, BadOptimizerOptionsAreExactSentences) {
  Model model;
  const OptimizerGroups groups(*model);
  const auto sentence = [&groups](const OptimizerOptions& options) -> std::string {
    try {
      groups.make_optimizer(options);
      return "accepted";
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
  };
  EXPECT_EQ(sentence({.learning_rate = -1}), "[optimizer] learning_rate must be a finite number of at least 0, got -1");
  EXPECT_EQ(sentence({.kind = OptimizerKind::kSgd, .momentum = 0, .nesterov = true}),
            "[optimizer] momentum must be above 0 with nesterov, got 0");
  EXPECT_EQ(sentence({.momentum = 1}), "[optimizer] momentum must be at least 0 and below 1, got 1");
  EXPECT_EQ(sentence({.beta2 = 0}), "[optimizer] beta2 must be above 0 and below 1, got 0");
  EXPECT_EQ(sentence({.weight_decay = NAN}), "[optimizer] weight_decay must be a finite number of at least 0, got nan");
}

TEST(ClipGradNorm, CountsTheParametersOfAllGroups) {
  Model model;
  const OptimizerGroups groups(*model, {.rules = {{.pattern = "content"}}});
  const auto optimizer = groups.make_optimizer({});
  ASSERT_GT(optimizer->param_groups().size(), 1U);
  EXPECT_EQ(clip_grad_norm(*optimizer, 1), 0) << "no gradient yet";
  double squares = 0;
  for (torch::Tensor& parameter : model->parameters()) {
    parameter.mutable_grad() = torch::randn_like(parameter);
    squares += parameter.grad().square().sum().item<double>();
  }
  const double norm = std::sqrt(squares);
  const torch::Tensor raw_gradient = model->scale->raw().grad().clone();
  EXPECT_NEAR(clip_grad_norm(*optimizer, 2 * norm), norm, 1e-5);
  EXPECT_TRUE(torch::equal(model->scale->raw().grad(), raw_gradient));
  EXPECT_NEAR(clip_grad_norm(*optimizer, 0.5), norm, 1e-5);
  EXPECT_NEAR(clip_grad_norm(*optimizer, 1e6), 0.5, 1e-6);
  EXPECT_NEAR(model->scale->raw().grad().item<double>(), raw_gradient.item<double>() * 0.5 / norm, 1e-6);
}

TEST(ClipGradNorm, ANormThatIsNotFiniteIsReportedAndScalesNothing) {
  Model model;
  const OptimizerGroups groups(*model);
  const auto optimizer = groups.make_optimizer({});
  model->scale->raw().mutable_grad() = torch::full_like(model->scale->raw(), NAN);
  model->plain->raw().mutable_grad() = torch::full_like(model->plain->raw(), 8);
  EXPECT_TRUE(std::isnan(clip_grad_norm(*optimizer, 1)));
  EXPECT_EQ(model->plain->raw().grad().item<float>(), 8.0F);
  EXPECT_THROW(clip_grad_norm(*optimizer, 0), std::invalid_argument);
}

}  // namespace
}  // namespace camber::train
