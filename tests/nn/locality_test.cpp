// Windows with a bias of their own beside trust.
#include <gtest/gtest.h>

#include "camber/nn/attention_bias.h"
#include "nn/small_scene.h"
#include "support/comparison.h"

namespace camber::nn {
namespace {

using camber::proof::close;
using camber::proof::gradients_match;

// locality + w * scale, held at the clip, key by key; and what is left of it without trust on the windows.
TEST(AttentionBias, LocalityIsAddedToTheWindowsBelowTheClip) {
  const auto scene = small_scene(2);
  const auto points = random_points(2, 25);
  const auto trust = torch::rand({2, 25, 2}, torch::kDouble) * 2 - 1;
  const auto dense = [&](const AttentionBiasOptions& options, const torch::Tensor& weights) {
    AttentionBias bias(options);
    bias->to(torch::kDouble);
    return bias->forward(weights, bias->windows(project_queries(points, scene), scene), scene, 0)
        .materialize(2, 25, scene.layout().keys(), weights);
  };
  for (const auto form : {WindowForm::kBox, WindowForm::kGaussian}) {
    const AttentionBiasOptions plain{.form = form, .camera_window = 3, .clip = 3, .scale = {.init = 2}};
    auto local = plain;
    local.locality = true;
    local.locality_scale.init = 1.5;
    // With a scale of 2, trust (1.5 + 2 w) / 2 alone gives the sum; the clip of 3 holds both.
    const auto sum = obvious_bias(points, (1.5 + 2 * trust) / 2, scene, plain, 2);
    EXPECT_TRUE(close(dense(local, trust), sum, 1e-6));
    EXPECT_EQ(sum.max().item<double>(), 3);  // the clip was reached, or this would show nothing of it
    local.window_trust = false;
    local.segments = true;
    const auto segments = [&] {
      auto options = local;
      options.locality = options.windows = false;
      options.window_trust = true;
      return dense(options, trust);
    }();
    EXPECT_TRUE(close(dense(local, trust) - segments,
                      obvious_bias(points, torch::full_like(trust, 0.75), scene, plain, 2), 1e-6));
  }
}

TEST(AttentionBias, GradientsReachTheLocalityScaleApartFromTrust) {
  const auto scene = small_scene(1);
  for (const auto sharing : {ScaleSharing::kShared, ScaleSharing::kPerModality, ScaleSharing::kPerHead}) {
    AttentionBias bias(AttentionBiasOptions{
        .locality = true, .bev_window = 3, .camera_window = 3, .clip = 10, .sharing = sharing, .num_heads = 2});
    bias->to(torch::kDouble);
    const auto windows = bias->windows(project_queries(random_points(1, 5), scene), scene);
    const auto trust = (torch::rand({1, 5, 2}, torch::kDouble) * 1.6 - 0.8).requires_grad_(true);
    EXPECT_TRUE(gradients_match(
        [&] { return bias->forward(trust, windows, scene, 0).windows->value.pow(3).sum(); },
        {{"trust", trust}, {"scale", bias->scale->raw()}, {"locality_scale", bias->locality_scale->raw()}}));
  }
  // At trust 0 the windows hold the locality alone, and its gradient is there from the first step.
  AttentionBias bias(AttentionBiasOptions{.locality = true});
  bias->strength(torch::zeros({1, 4, 2}), 3, 0).sum().backward();
  EXPECT_EQ(bias->locality_scale->raw().grad().item<float>(), 12);
  EXPECT_EQ(bias->scale->raw().grad().item<float>(), 0);
}

TEST(AttentionBias, TheLocalityScaleHasScheduleAndPenaltyOfItsOwn) {
  AttentionBias bias(
      AttentionBiasOptions{.locality = true,
                           .locality_scale = {.init = 2,
                                              .min = 0,
                                              .l2_weight = 0.5,
                                              .l2_center = {1},
                                              .bounds_schedule = {{.from_epoch = 2, .min = 0, .max = 1.5}}}});
  EXPECT_EQ(bias->penalty().item<float>(), 0.5F);
  bias->apply_schedule(2, 0);
  EXPECT_EQ(bias->locality_scale->value().item<float>(), 1.5F);
}

}  // namespace
}  // namespace camber::nn
