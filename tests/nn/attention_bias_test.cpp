#include "camber/nn/attention_bias.h"

#include <cmath>
#include <sstream>

#include <gtest/gtest.h>

#include <torch/serialize.h>

#include "camber/geometry/box.h"
#include "camber/random/stream.h"
#include "nn/small_scene.h"
#include "support/comparison.h"
#include "support/warnings.h"

namespace camber::nn {
namespace {

using camber::proof::close;
using camber::proof::error_of;
using camber::proof::gradients_match;

TEST(AttentionBias, EqualsTheObviousLoopForRandomQueriesAndNegativeWeights) {
  for (const auto form : {WindowForm::kBox, WindowForm::kGaussian}) {
    const AttentionBiasOptions options{
        .form = form, .bev_window = 5, .camera_window = 3, .clip = 2, .scale = {.init = 2.5}};
    AttentionBias bias(options);
    const auto scene = small_scene(2);
    const auto points = random_points(2, 25);
    const auto trust = torch::rand({2, 25, 2}, torch::kDouble) * 2 - 1;
    const auto windows = bias->windows(project_queries(points, scene), scene);
    const auto structured = bias->forward(trust, windows, scene, 0);
    const auto dense = structured.materialize(2, 25, scene.layout().keys(), trust);
    EXPECT_TRUE(close(dense, obvious_bias(points, trust, scene, options, 2.5), 1e-6));
  }
}

TEST(AttentionBias, WindowsAreCutAtBordersAndNeverReachAnotherCamera) {
  AttentionBias bias(AttentionBiasOptions{.bev_window = 5, .camera_window = 5});
  const auto scene = small_scene(1);
  // The grid's lower left corner; and a point that the front camera sees in its last column, row 3.
  const auto points = torch::tensor({-7.9, -7.9, 0.0, 1.9, 2.0, 0.0}, torch::kDouble).view({1, 2, 3});
  const auto projection = project_queries(points, scene);
  const auto trust = torch::ones({1, 2, 2});
  const auto dense = bias->forward(trust, bias->windows(projection, scene), scene, 0)
                         .materialize(1, 2, scene.layout().keys(), trust)
                         .squeeze(0)
                         .squeeze(0);
  EXPECT_EQ(dense[0].slice(0, 0, 256).ne(0).sum().item<std::int64_t>(), 9);  // 3 x 3 of 5 x 5 are left
  const auto front = dense[1].slice(0, 256, 316).view({6, 10}), back = dense[1].slice(0, 316);
  EXPECT_EQ(projection.cell[0][1][1][0].item<std::int64_t>(), 9);
  EXPECT_EQ(front.ne(0).sum().item<std::int64_t>(), 15);              // three columns of five rows
  EXPECT_EQ(front.select(1, 0).ne(0).sum().item<std::int64_t>(), 0);  // not wrapped to the next row
  EXPECT_EQ(back.ne(0).sum().item<std::int64_t>(), 0);                // nor to the next camera
}

TEST(AttentionBias, AnAbsentSensorHoldsNoWindow) {
  const auto scene = small_scene(1);
  const auto points = torch::tensor({0.5, 4.0, 0.0}, torch::kDouble).view({1, 1, 3});
  const auto available = torch::tensor({1, 0, 1}, torch::kLong).to(torch::kBool).view({1, 3});
  const auto projection = project_queries(points, scene, available);
  EXPECT_TRUE(projection.seen[0][0][0].item<bool>());
  EXPECT_FALSE(projection.seen[0][0][1].item<bool>());
}

TEST(AttentionBias, ScalesPerModalityLayerAndHeadShareTheirIndices) {
  const auto scene = small_scene(1);
  const auto points = random_points(1, 6);
  const auto trust = torch::ones({1, 6, 2});
  for (const auto sharing : {ScaleSharing::kPerModality, ScaleSharing::kPerLayer, ScaleSharing::kPerHead}) {
    AttentionBias bias(
        AttentionBiasOptions{.bev_window = 3, .camera_window = 3, .sharing = sharing, .num_layers = 3, .num_heads = 4});
    const auto windows = bias->windows(project_queries(points, scene), scene);
    {
      const torch::NoGradGuard guard;
      const auto raw = bias->scale->raw();
      raw.copy_(torch::linspace(1, 4, raw.numel()));
    }
    const auto first = bias->forward(trust, windows, scene, 0), last = bias->forward(trust, windows, scene, 2);
    EXPECT_TRUE(first.windows->key_index.is_same(last.windows->key_index));
    EXPECT_EQ(first.windows->value.size(0), sharing == ScaleSharing::kPerHead ? 4 : 1);
    if (sharing == ScaleSharing::kPerLayer) {
      EXPECT_EQ(first.windows->value.max().item<float>(), 1);
      EXPECT_EQ(last.windows->value.max().item<float>(), 4);
    }
    if (sharing == ScaleSharing::kPerModality) {
      const auto cameras = windows.index.map_index.gt(0);
      EXPECT_TRUE(first.windows->value[0].eq(torch::where(cameras, 4.0, 1.0)).all().item<bool>());
    }
  }
}

TEST(AttentionBias, GradientsReachTrustAndScaleAndPassAtTheClip) {
  const auto scene = small_scene(1);
  const auto points = random_points(1, 5);
  AttentionBias bias(AttentionBiasOptions{.segments = true, .bev_window = 3, .camera_window = 3});
  bias->to(torch::kDouble);
  const auto windows = bias->windows(project_queries(points, scene), scene);
  const auto trust = (torch::rand({1, 5, 2}, torch::kDouble) * 1.6 - 0.8).requires_grad_(true);
  const auto loss = [&] {
    const auto structured = bias->forward(trust, windows, scene, 0);
    return structured.windows->value.square().sum() + structured.segments->value->pow(3).sum();
  };
  EXPECT_TRUE(gradients_match(
      loss, {{"trust", trust}, {"scale", bias->scale->raw()}, {"segment_scale", bias->segment_scale->raw()}}));
  // w * scale = 5 = c exactly: the gradient passes at the bound.
  AttentionBias at_bound(AttentionBiasOptions{.clip = 5, .scale = {.init = 5}});
  const auto one = torch::ones({1, 5, 2}).requires_grad_(true);
  at_bound->strength(one, 3, 0).sum().backward();
  EXPECT_EQ(one.grad().min().item<float>(), 5);
}

TEST(AttentionBias, ClipScheduleTakesOver) {
  AttentionBias bias(
      AttentionBiasOptions{.clip_schedule = {{.from_epoch = 0, .clip = 1}, {.from_epoch = 3, .clip = 4}}});
  EXPECT_EQ(bias->clip(), 5);  // the scale's max until a schedule speaks
  bias->apply_schedule(0, 0);
  EXPECT_EQ(bias->clip(), 1);
  bias->apply_schedule(3, 0);
  EXPECT_EQ(bias->clip(), 4);
}

// Saved in the middle of its schedule and loaded into a bias that was just made, it must give the same values.
TEST(AttentionBias, TheClipInForceIsSavedWithTheWeights) {
  const AttentionBiasOptions options{.clip_schedule = {{.from_epoch = 0, .clip = 1}, {.from_epoch = 3, .clip = 4}}};
  AttentionBias saved(options), loaded(options);
  saved->apply_schedule(0, 0);
  std::stringstream file;
  torch::save(saved, file);
  torch::load(loaded, file);
  EXPECT_EQ(loaded->clip(), 1);
  const auto trust = torch::ones({1, 1, 2});
  EXPECT_TRUE(torch::equal(loaded->strength(trust, 3, 0), saved->strength(trust, 3, 0)));
  auto copy = std::dynamic_pointer_cast<AttentionBiasImpl>(saved->clone());
  EXPECT_EQ(copy->clip(), 1);
}

TEST(AttentionBias, ACastLeavesTheClipAlone) {
  AttentionBias bias(AttentionBiasOptions{.clip = 3.3});
  bias->to(torch::kHalf);
  bias->to(torch::kFloat);
  EXPECT_EQ(bias->clip(), 3.3);
}

// Trust 3 and a scale of 2.5 would lie beyond the clip at 5, and neither would have a gradient.
TEST(AttentionBias, TrustBeyondOneIsRefused) {
  AttentionBias bias(AttentionBiasOptions{.segments = true});
  EXPECT_EQ(error_of([&] {
              bias->strength(torch::tensor({0.5F, -3.0F}).view({1, 1, 2}), 3, 0);
            }),
            "[AttentionBias] trust must lie in [-1, 1], got -3");
  const auto unknown = torch::full({1, 1, 2}, NAN);
  EXPECT_TRUE(bias->strength(unknown, 3, 0).isnan().all().item<bool>());
  for (const float size : {-1.0F, 1.0F}) {
    auto trust = torch::full({1, 1, 2}, size).requires_grad_(true);
    AttentionBias strong(AttentionBiasOptions{.scale = {.init = 5}});
    strong->strength(trust, 3, 0).sum().backward();
    EXPECT_GT(trust.grad().min().item<float>(), 0);
    EXPECT_NE(strong->scale->raw().grad().item<float>(), 0);
  }
}

TEST(AttentionBias, HalfPrecisionIsComputedInFloatAndBounded) {
  const auto scene = small_scene(1);
  const auto points = random_points(1, 5);
  const auto trust = torch::full({1, 5, 2}, 0.3);
  for (const auto& [precision, type] :
       {std::pair{BiasPrecision::kHalf, torch::kHalf}, std::pair{BiasPrecision::kBfloat16, torch::kBFloat16}}) {
    AttentionBias bias(AttentionBiasOptions{.precision = precision});
    const auto structured = bias->forward(trust, bias->windows(project_queries(points, scene), scene), scene, 0);
    EXPECT_EQ(structured.windows->value.scalar_type(), type);
    EXPECT_NEAR(structured.windows->value.to(torch::kFloat).max().item<float>(), 0.75, 3e-3);
  }
  const std::string sentence =
      "[AttentionBias] clip must be at most 10 in half precision, where exp overflows beyond 11.09, got 12.000000";
  EXPECT_EQ(error_of([] { AttentionBias(AttentionBiasOptions{.clip = 12, .precision = BiasPrecision::kHalf}); }),
            sentence);
  EXPECT_EQ(error_of([] {
              AttentionBias(AttentionBiasOptions{.clip_schedule = {{.from_epoch = 3, .clip = 12}},
                                                 .precision = BiasPrecision::kHalf});
            }),
            sentence);
}

TEST(AttentionBias, TrustInHalfPrecisionIsComputedInFloat) {
  const auto scene = small_scene(1);
  const auto projection = project_queries(random_points(1, 9), scene);
  AttentionBias bias(AttentionBiasOptions{.segments = true, .camera_window = 3, .scale = {.init = 2.4}});
  const auto windows = bias->windows(projection, scene);
  for (const auto type : {torch::kHalf, torch::kBFloat16}) {
    const auto trust = torch::rand({1, 9, 2}).to(type).requires_grad_(true);
    const auto structured = bias->forward(trust, windows, scene, 0),
               exact = bias->forward(trust.detach().to(torch::kFloat), windows, scene, 0);
    EXPECT_TRUE(proof::same_bits(structured.windows->value, exact.windows->value));
    EXPECT_TRUE(proof::same_bits(*structured.segments->value, *exact.segments->value));
    structured.windows->value.sum().backward();
    EXPECT_EQ(trust.grad().scalar_type(), type);
  }
}

TEST(AttentionBias, ObjectWindowsCoverTheProjectedBox) {
  const auto scene = small_scene(1);
  // 4 x 3 m on cells of 1 m: diagonal 5, so 5 cells. Tiny: 3. Huge: 31.
  const auto boxes = torch::tensor({0.0, 5.0, 0.0, 4.0, 3.0, 1.5, 0.3,  0.0,  5.0, 0.0, 0.1,
                                    0.1, 0.1, 0.0, 0.0, 5.0, 0.0, 60.0, 60.0, 1.0, 0.0},
                                   torch::kDouble)
                         .view({1, 3, 7});
  const auto sizes = object_window_sizes(boxes, scene);
  EXPECT_EQ(sizes[0][0][0].item<int>(), 5);
  EXPECT_EQ(sizes[0][1][0].item<int>(), 3);
  EXPECT_EQ(sizes[0][2][0].item<int>(), 31);
  const geometry::Box box{.center = {0, 5, 0}, .length = 4, .width = 3, .height = 1.5, .yaw = 0.3};
  double low = 1e9, high = -1e9;
  for (const auto& corner : box.corners()) {
    const auto p = scene.cameras[0][0].project(corner);
    low = std::min(low, p.u / 10);
    high = std::max(high, p.u / 10);
  }
  EXPECT_GE(sizes[0][0][1].item<int>(), high - low);
}

// Cameras alone hold the keys, as in PETR: what a scene with a grid gives its cameras, with the grid's keys left out.
TEST(AttentionBias, ASceneWithoutAGridIsThatOfItsCameras) {
  const auto whole = small_scene(2);
  auto cameras = whole;
  cameras.has_grid = false;
  const auto points = random_points(2, 12);
  const auto trust = torch::rand({2, 12, 2}, torch::kDouble) * 2 - 1;
  EXPECT_EQ(cameras.layout().segment_offsets(), (std::vector<std::int64_t>{0, 60, 120}));
  for (const ScaleSharing sharing : {ScaleSharing::kShared, ScaleSharing::kPerModality, ScaleSharing::kPerHead}) {
    AttentionBiasOptions options{
        .segments = true, .form = WindowForm::kGaussian, .camera_window = 3, .sharing = sharing};
    AttentionBias both(options);
    if (sharing == ScaleSharing::kPerModality) options.scale.shape = options.segment_scale.shape = {1};
    AttentionBias alone(options);
    const auto grid_keys = whole.grid.keys(), keys = whole.layout().keys();
    const auto expected = both->forward(trust, both->windows(project_queries(points, whole), whole), whole, 0)
                              .materialize(2, 12, keys, trust)
                              .slice(3, grid_keys);
    const auto bias =
        alone->forward(trust.slice(2, 1), alone->windows(project_queries(points, cameras), cameras), cameras, 0);
    EXPECT_TRUE(proof::same_bits(bias.materialize(2, 12, keys - grid_keys, trust), expected));
  }
  const auto boxes =
      torch::tensor({0.0, 5.0, 0.0, 4.0, 3.0, 1.5, 0.3}, torch::kDouble).view({1, 1, 7}).repeat({2, 1, 1});
  EXPECT_TRUE(object_window_sizes(boxes, cameras).equal(object_window_sizes(boxes, whole).slice(2, 1)));
}

TEST(AttentionBias, ScenesAndScalesMustFitEachOther) {
  auto scene = small_scene(1);
  scene.has_grid = false;
  AttentionBias bias(AttentionBiasOptions{.sharing = ScaleSharing::kPerModality});
  EXPECT_EQ(error_of([&] {
              bias->strength(torch::zeros({1, 2, 1}), 2, 0, 0);
            }),
            "[AttentionBias] scale.shape must be [1], one a modality of the scene, got [2]");
  EXPECT_EQ(error_of([&] {
              AttentionBias()->strength(torch::zeros({1, 2, 2}), 2, 0, 0);
            }),
            "[AttentionBias] trust must be [B, Q, 1], got [1, 2, 2]");
  EXPECT_EQ(error_of([] { AttentionBias(AttentionBiasOptions{.scale = {.shape = {3}}}); }),
            "[AttentionBias] scale.shape must be [] or [1] for its sharing, got [3]");
  scene.cameras.clear();
  EXPECT_EQ(error_of([&] {
              project_queries(torch::zeros({1, 2, 3}), scene);
            }),
            "[SensorScene] a scene must have a grid or cameras, got neither");
}

TEST(AttentionBias, WindowOverAQuarterOfItsMapIsWarnedOf) {
  const auto scene = small_scene(1);
  const auto projection = project_queries(random_points(1, 4), scene);
  const proof::CollectedWarnings warnings;
  AttentionBias(AttentionBiasOptions{.bev_window = 5, .camera_window = 3})->windows(projection, scene);
  // A router may see as wide as it likes.
  windows_at(projection, fixed_window_sizes(projection, 5, 5), scene);
  EXPECT_TRUE(warnings.messages.empty());
  AttentionBias(AttentionBiasOptions{.bev_window = 5, .camera_window = 5})->windows(projection, scene);
  ASSERT_EQ(warnings.messages.size(), 2U);  // one a camera
  EXPECT_EQ(warnings.messages[0],
            "[AttentionBias] a window of 5 x 5 cells covers more than a quarter of map 1 (10 x 6): it hardly tells one "
            "position from another");
}

TEST(AttentionBias, BadOptionsGetOneSentence) {
  EXPECT_EQ(error_of([] { AttentionBias(AttentionBiasOptions{.windows = false, .locality = true}); }),
            "[AttentionBias] locality must be false without windows, which hold it, got true");
  EXPECT_EQ(error_of([] { AttentionBias(AttentionBiasOptions{.window_trust = false}); }),
            "[AttentionBias] window_trust must be true without locality (windows = false leaves the windows out), got "
            "false");
  EXPECT_EQ(error_of([] { AttentionBias(AttentionBiasOptions{.bev_window = 8}); }),
            "[AttentionBias] bev_window must be odd, so that the window has a centre cell, got 8");
  EXPECT_EQ(error_of([] { AttentionBias(AttentionBiasOptions{.sizing = WindowSizing::kObject}); }),
            "[AttentionBias] sizing = object needs centre = refined: a window can follow an object only once it is "
            "predicted");
  EXPECT_EQ(error_of([] {
              AttentionBias bias(AttentionBiasOptions{.per_camera = true});
              bias->strength(torch::zeros({1, 2, 2}), 3, 0);
            }),
            "[AttentionBias] trust must be [B, Q, 3], got [1, 2, 2]");
  EXPECT_EQ(error_of([] { AttentionBias(AttentionBiasOptions{.clip = -1}); }),
            "[AttentionBias] clip must be at least 0, got -1.000000");
  const auto scene = small_scene(2);
  EXPECT_EQ(error_of([&] {
              project_queries(torch::zeros({1, 4, 3}), scene);
            }),
            "[SensorScene] cameras must be given for every batch element (1), got 2");
}

}  // namespace
}  // namespace camber::nn
