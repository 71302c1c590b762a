// What a scale keeps: parameter or buffer, bounds and their schedule, counters, warnings, saving and loading.
#include <sstream>
#include <stdexcept>

#include <camber/nn/bounded_scale.h>
#include <gtest/gtest.h>

#include <torch/serialize.h>

#include "support/warnings.h"

namespace camber::nn {
namespace {

void set_raw(BoundedScale& scale, const std::vector<float>& raw) {
  torch::NoGradGuard no_grad;
  scale->raw().detach().copy_(torch::tensor(raw).reshape(scale->raw().sizes()));
}

std::vector<float> values(const torch::Tensor& tensor) {
  const torch::Tensor flat = tensor.detach().to(torch::kFloat).reshape({-1}).contiguous();
  return {flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel()};
}

TEST(BoundedScaleState, LearnableIsAParameterAndFixedABuffer) {
  BoundedScale learnable;
  ASSERT_EQ(learnable->named_parameters().size(), 1U);
  EXPECT_TRUE(learnable->named_parameters().contains("raw"));
  EXPECT_TRUE(learnable->named_buffers().contains("bounds"));
  BoundedScale fixed(scale_preset("fixed"));
  EXPECT_EQ(fixed->parameters().size(), 0U);
  EXPECT_TRUE(fixed->named_buffers().contains("raw"));
  EXPECT_FALSE(fixed->value().requires_grad());
  EXPECT_EQ(fixed->value().item<float>(), 2.5F);
}

TEST(BoundedScaleState, ProjectMovesOnlyWhatIsOutsideAndSaysWhich) {
  BoundedScale scale(BoundedScaleOptions{.shape = {5}});
  set_raw(scale, {0.1F, 0.5F, 2.0F, 5.0F, 9.0F});
  const ScaleProjection moved = scale->project();
  EXPECT_EQ(values(scale->raw()), (std::vector<float>{0.5F, 0.5F, 2.0F, 5.0F, 5.0F}));
  EXPECT_EQ(values(moved.below), (std::vector<float>{1, 0, 0, 0, 0}));
  EXPECT_EQ(values(moved.above), (std::vector<float>{0, 0, 0, 0, 1}));
  scale->project();
  EXPECT_EQ(scale->num_steps(), 2);
  EXPECT_EQ(values(scale->share_at_bound()), (std::vector<float>{0.5F, 0, 0, 0, 0.5F}));
  scale->reset_counters();
  EXPECT_EQ(values(scale->share_at_bound()), (std::vector<float>{0, 0, 0, 0, 0}));
}

TEST(BoundedScaleState, OtherConstraintsAreCountedAndNotMoved) {
  for (const Constraint constraint : {Constraint::kClamp, Constraint::kStraightThrough}) {
    BoundedScale scale(BoundedScaleOptions{.constraint = constraint, .shape = {3}});
    set_raw(scale, {0.1F, 2.0F, 9.0F});
    const ScaleProjection moved = scale->project();
    EXPECT_FALSE(moved.above.any().item<bool>() || moved.below.any().item<bool>());
    EXPECT_EQ(values(scale->raw()), (std::vector<float>{0.1F, 2.0F, 9.0F}));
    EXPECT_EQ(values(scale->share_at_bound()), (std::vector<float>{1, 0, 1}));
  }
  BoundedScale capped(BoundedScaleOptions{.constraint = Constraint::kLogClamp, .shape = {2}});
  set_raw(capped, {-5.0F, 3.0F});
  capped->project();
  EXPECT_EQ(values(capped->share_at_bound()), (std::vector<float>{0, 1}));
  BoundedScale smooth(BoundedScaleOptions{.constraint = Constraint::kSigmoid, .shape = {2}});
  set_raw(smooth, {-50.0F, 50.0F});
  smooth->project();
  EXPECT_EQ(values(smooth->share_at_bound()), (std::vector<float>{0, 0}));
}

TEST(BoundedScaleState, ForgottenProjectorIsToldOnce) {
  const proof::CollectedWarnings collected;
  BoundedScale scale;
  scale->value();
  EXPECT_TRUE(collected.messages.empty());
  set_raw(scale, {7.0F});
  EXPECT_EQ(scale->value().item<float>(), 5.0F);
  scale->value();
  ASSERT_EQ(collected.messages.size(), 1U);
  EXPECT_EQ(collected.messages[0],
            "[bounded_scale] raw must lie inside [0.5, 5] in forward for projected, got 7 to 7: call "
            "ScaleProjector::step(optimizer) instead of optimizer.step()");
}

// The bound of raw is rounded like raw itself: what was just projected must not count as outside.
TEST(BoundedScaleState, ProjectedOntoTheBoundIsNotOutside) {
  const proof::CollectedWarnings collected;
  for (const double max : {3.0, 7.1, 30.0, 80.0, 100.0}) {
    BoundedScale scale(BoundedScaleOptions{.init = 1, .min = 0.1, .max = max, .space = Space::kLog});
    set_raw(scale, {30.0F});
    EXPECT_TRUE(scale->project().above.item<bool>());
    EXPECT_FALSE(scale->project().above.item<bool>()) << max;
    EXPECT_EQ(scale->value().item<float>(), static_cast<float>(max));
  }
  EXPECT_TRUE(collected.messages.empty());
}

TEST(BoundedScaleState, SigmoidKeepsItsValueWhenTheBoundsChange) {
  for (const Space space : {Space::kLinear, Space::kLog}) {
    BoundedScale scale(BoundedScaleOptions{.constraint = Constraint::kSigmoid, .space = space});
    scale->set_bounds(0.1, 20.0);
    EXPECT_NEAR(scale->value().item<double>(), 2.5, 1e-6);
    scale->set_bounds(2.0, 3.0);
    EXPECT_NEAR(scale->value().item<double>(), 2.5, 1e-6);
    scale->set_bounds(0.5, 2.0);
    const auto cut = scale->value().item<double>();
    EXPECT_LT(cut, 2.0);
    EXPECT_GT(cut, 2.0 - 4e-3);
    scale->value().backward();
    EXPECT_GT(scale->raw().grad().item<double>(), 1e-3);
    scale->set_bounds(4.0, 5.0);
    EXPECT_GT(scale->value().item<double>(), 4.0);
    EXPECT_LT(scale->value().item<double>(), 4.002);
  }
}

TEST(BoundedScaleState, ScheduleWidensAndTightens) {
  const proof::CollectedWarnings collected;
  BoundedScale scale(BoundedScaleOptions{.bounds_schedule = {{.from_epoch = 0, .min = 1.0, .max = 2.5},
                                                             {.from_epoch = 5, .min = 0.5, .max = 4.0},
                                                             {.from_epoch = 15, .min = 0.1, .max = 2.0}}});
  EXPECT_EQ(scale->min(), 1.0);
  EXPECT_EQ(scale->max(), 2.5);
  EXPECT_FALSE(scale->apply_schedule(0, 0));
  EXPECT_TRUE(scale->apply_schedule(5, 0));
  EXPECT_EQ(scale->max(), 4.0);
  EXPECT_FALSE(scale->apply_schedule(6, 0));
  set_raw(scale, {3.9F});
  scale->project();
  EXPECT_EQ(scale->value().item<float>(), 3.9F);
  EXPECT_TRUE(scale->apply_schedule(15, 0));
  EXPECT_EQ(scale->value().item<float>(), 2.0F);
  scale->value().backward();
  EXPECT_EQ(scale->raw().grad().item<float>(), 1.0F) << "a tightened bound is alive";
  EXPECT_TRUE(collected.messages.empty());
  EXPECT_FALSE(BoundedScale()->apply_schedule(9, 9));
}

TEST(BoundedScaleState, ScheduleByStepAndInHalfPrecisionChangesOnce) {
  BoundedScale scale(BoundedScaleOptions{.constraint = Constraint::kSigmoid,
                                         .bounds_schedule = {{.from_step = 100, .min = 0.1, .max = 3.3}}});
  scale->to(torch::kHalf);
  EXPECT_FALSE(scale->apply_schedule(50, 99));
  EXPECT_TRUE(scale->apply_schedule(0, 100));
  const auto raw = scale->raw().item<float>();
  for (int step = 101; step < 120; ++step) {
    EXPECT_FALSE(scale->apply_schedule(0, step));
  }
  EXPECT_EQ(scale->raw().item<float>(), raw);
}

TEST(BoundedScaleState, BadBoundsAreRefusedAndChangeNothing) {
  BoundedScale scale(scale_preset("logit"));
  const auto sentence = [&scale](double min, double max) -> std::string {
    try {
      scale->set_bounds(min, max);
      return "accepted";
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
  };
  EXPECT_EQ(sentence(0, 50), "[bounded_scale] min must be above 0 in log space, got 0");
  EXPECT_EQ(sentence(50, 2), "[bounded_scale] min must be below max, got 50 and 2");
  EXPECT_EQ(sentence(1, NAN), "[bounded_scale] max must be a finite number, got nan");
  EXPECT_EQ(scale->min(), 1);
  EXPECT_EQ(scale->max(), 100);
  EXPECT_EQ(sentence(2, 50), "accepted");
}

TEST(BoundedScaleState, ConstructorChecksItsOptions) {
  EXPECT_THROW(BoundedScale(BoundedScaleOptions{.init = 7}), std::invalid_argument);
}

TEST(BoundedScaleState, SavingAndLoadingKeepsValueAndBounds) {
  for (const bool learnable : {true, false}) {
    for (const Constraint constraint : {Constraint::kProjected, Constraint::kSigmoid}) {
      const BoundedScaleOptions options{.learnable = learnable, .constraint = constraint, .shape = {2}};
      BoundedScale saved(options);
      saved->set_bounds(0.1, 20.0);
      set_raw(saved, {0.3F, 1.7F});
      std::stringstream file;
      torch::save(saved, file);
      BoundedScale loaded(options);
      torch::load(loaded, file);
      EXPECT_EQ(values(loaded->raw()), values(saved->raw()));
      EXPECT_EQ(values(loaded->value()), values(saved->value()));
      EXPECT_EQ(loaded->min(), 0.1);
      EXPECT_EQ(loaded->max(), 20.0);
      EXPECT_EQ(loaded->raw().requires_grad(), learnable);
      EXPECT_EQ(loaded->parameters().size(), learnable ? 1U : 0U);
    }
  }
}

// Raw 2.5 is a scale of 2.5 where it is projected, of 4.66 in a sigmoid and of 12.2 in log space.
TEST(BoundedScaleState, ALoadedScaleIsReadAsItWasSaved) {
  BoundedScale saved;
  for (const BoundedScaleOptions& other :
       {BoundedScaleOptions{.constraint = Constraint::kSigmoid}, BoundedScaleOptions{.space = Space::kLog}}) {
    std::stringstream file;
    torch::save(saved, file);
    BoundedScale loaded(other);
    torch::load(loaded, file);
    EXPECT_EQ(loaded->value().item<float>(), 2.5F);
    EXPECT_EQ(loaded->constraint(), Constraint::kProjected);
    EXPECT_EQ(loaded->space(), Space::kLinear);
  }
}

TEST(BoundedScaleState, TakesAValueOntoItsOwnBounds) {
  BoundedScale from(BoundedScaleOptions{.constraint = Constraint::kSigmoid, .shape = {2}});
  set_raw(from, {-1.0F, 3.0F});
  const auto value = values(from->value());
  for (const Constraint constraint : {Constraint::kProjected, Constraint::kSigmoid, Constraint::kNone}) {
    for (const Space space : {Space::kLinear, Space::kLog}) {
      BoundedScale to(
          BoundedScaleOptions{.init = 2, .min = 0.1, .max = 8, .constraint = constraint, .space = space, .shape = {2}});
      to->take_value(*from);
      EXPECT_NEAR(values(to->value())[0], value[0], 1e-5);
      EXPECT_NEAR(values(to->value())[1], value[1], 1e-5);
      EXPECT_EQ(to->max(), 8);
      EXPECT_EQ(to->constraint(), constraint);
    }
  }
  BoundedScale tight(BoundedScaleOptions{.max = 3, .shape = {2}});
  tight->take_value(*from);
  EXPECT_EQ(values(tight->raw())[1], 3.0F);
}

TEST(BoundedScaleState, ACastLeavesTheBoundsAlone) {
  BoundedScale scale(BoundedScaleOptions{.min = 0.1, .max = 3.3});
  scale->to(torch::kHalf);
  EXPECT_EQ(scale->raw().scalar_type(), torch::kHalf);
  scale->to(torch::kFloat);
  EXPECT_EQ(scale->min(), 0.1);
  EXPECT_EQ(scale->max(), 3.3);
  EXPECT_EQ(scale->named_buffers()["mapping"].scalar_type(), torch::kLong);
}

TEST(BoundedScaleState, CloneIsDeep) {
  BoundedScale scale(BoundedScaleOptions{.shape = {2}});
  scale->set_bounds(1.0, 9.0);
  set_raw(scale, {2.0F, 8.0F});
  auto copy = std::dynamic_pointer_cast<BoundedScaleImpl>(scale->clone());
  set_raw(scale, {3.0F, 3.0F});
  scale->project();
  EXPECT_EQ(values(copy->value()), (std::vector<float>{2.0F, 8.0F}));
  EXPECT_EQ(copy->max(), 9.0);
  EXPECT_EQ(copy->num_steps(), 0);
}

TEST(BoundedScaleState, PrintsItself) {
  std::ostringstream text;
  text << *BoundedScale(scale_preset("logit"));
  EXPECT_EQ(text.str(), "camber::nn::BoundedScale(projected, log, init=25, bounds=[1, 100], shape=[])");
}

}  // namespace
}  // namespace camber::nn
