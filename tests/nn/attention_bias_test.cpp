#include "camber/nn/attention_bias.h"

#include <cmath>
#include <sstream>

#include <gtest/gtest.h>

#include <torch/serialize.h>

#include "camber/geometry/box.h"
#include "camber/random/stream.h"
#include "support/comparison.h"
#include "support/warnings.h"

namespace camber::nn {
namespace {

using camber::proof::close;
using camber::proof::error_of;
using camber::proof::gradients_match;

// A pinhole that looks along +y (or, turned, along -y): every point before it projects.
geometry::Camera camera(bool behind, std::int64_t columns = 10, std::int64_t rows = 6) {
  const double sign = behind ? -1 : 1;
  return {.name = behind ? "back" : "front",
          .width = 100,
          .height = 60,
          .columns = columns,
          .rows = rows,
          .lidar_to_image = {sign * 50, sign * 50, 0, 0, 0, sign * 30, -50, 0, 0, sign, 0, 0, 0, 0, 0, 1}};
}

SensorScene small_scene(std::int64_t batch) {
  SensorScene scene{.grid = geometry::BevGrid(-8, 8, -8, 8, 1.0), .cameras = {}};
  for (std::int64_t b = 0; b < batch; ++b) scene.cameras.push_back({camera(false), camera(true)});
  return scene;
}

torch::Tensor random_points(std::int64_t batch, std::int64_t queries) {
  random::Stream stream(3, "points");
  auto points = torch::empty({batch, queries, 3}, torch::kDouble);
  for (std::int64_t i = 0; i < points.numel(); ++i) points.data_ptr<double>()[i] = stream.uniform(-10, 10);
  points.select(2, 2).mul_(0.2);
  return points;
}

// Every key asked, one after the other, what its bias is: the definition, slow and obvious.
torch::Tensor obvious_bias(const torch::Tensor& points, const torch::Tensor& trust, const SensorScene& scene,
                           const AttentionBiasOptions& options, double scale) {
  const auto layout = scene.layout();
  const std::int64_t batch = points.size(0), queries = points.size(1);
  auto dense = torch::zeros({batch, 1, queries, layout.keys()}, torch::kDouble);
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t q = 0; q < queries; ++q)
      for (std::size_t m = 0; m < layout.maps.size(); ++m) {
        const auto at = [&](std::int64_t i) { return points[b][q][i].item<double>(); };
        const auto cell = m == 0 ? scene.grid.cell_at(at(0), at(1))
                                 : scene.cameras[static_cast<std::size_t>(b)][m - 1].cell_at({at(0), at(1), at(2)});
        if (!cell) continue;
        const auto size = static_cast<double>(m == 0 ? options.bev_window : options.camera_window);
        const auto weight = trust[b][q][m == 0 ? 0 : 1].item<double>();
        for (std::int64_t key = 0; key < layout.maps[m].keys(); ++key) {
          const std::int64_t row = key / layout.maps[m].columns, column = key % layout.maps[m].columns;
          const auto dx = static_cast<double>(column - cell->column), dy = static_cast<double>(row - cell->row);
          if (std::max(std::abs(dx), std::abs(dy)) > size / 2) continue;
          const double sigma = size / 6;
          const double g = options.form == WindowForm::kBox ? 1 : std::exp(-(dx * dx + dy * dy) / (2 * sigma * sigma));
          const double bias = std::clamp(weight * scale, -options.clip, options.clip);
          dense[b][0][q][layout.maps[m].first_key + key] = g * bias;
        }
      }
  return dense;
}

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
