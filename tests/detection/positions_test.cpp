#include <gtest/gtest.h>

#include "detection/example_batch.h"
#include "detection/initial_values.h"
#include "detection/position_embedding.h"
#include "support/comparison.h"

namespace camber::detection {
namespace {

using camber::proof::close;
using examples::example_batch;

TEST(Pos2embed, GivesCmtsNumbers) {
  const auto embedded = pos2embed(torch::tensor({0.25, 0.75}, torch::kDouble), 256);
  ASSERT_EQ(embedded.size(0), 512);
  const auto expected_y = torch::tensor({-1.0, 0.0, -0.99933285, -0.03652202, -0.99737315, -0.0724348}, torch::kDouble);
  const auto expected_x = torch::tensor({1.0, 0.0, 0.99992586, 0.01217641}, torch::kDouble);
  EXPECT_TRUE(close(embedded.narrow(0, 0, 6), expected_y, 1e-8));
  EXPECT_TRUE(close(embedded.narrow(0, 256, 4), expected_x, 1e-8));
  EXPECT_NEAR(embedded.sum().item<double>(), 56.118315647725, 1e-9);
  EXPECT_TRUE(close(pos2embed(torch::tensor({0.25F, 0.75F}), 256), embedded, 1e-6));
}

TEST(InverseSigmoid, ClampsAtBothEnds) {
  const auto value = inverse_sigmoid(torch::tensor({0.0, 0.5, 1.0, 0.731058578630005}, torch::kDouble));
  EXPECT_TRUE(close(value, torch::tensor({std::log(1e-5), 0.0, -std::log(1e-5), 1.0}, torch::kDouble), 1e-12));
}

// Applies Linear, ReLU, Linear of a module by hand.
torch::Tensor by_hand(torch::nn::Module& module, const std::string& name, const torch::Tensor& input) {
  const auto p = module.named_parameters();
  const auto inner = torch::relu(torch::matmul(input, p[name + "_first.weight"].t()) + p[name + "_first.bias"]);
  return torch::matmul(inner, p[name + "_second.weight"].t()) + p[name + "_second.bias"];
}

// Points along the ray of a pixel, over the space, as one row.
torch::Tensor ray_inputs(const geometry::Camera& camera, const SpaceOptions& space, std::int64_t depths, double u,
                         double v, double w = 1) {
  const auto inverse = geometry::inverse(camera.lidar_to_image);
  std::vector<double> row;
  const std::array<double, 3> low = {space.x_min, space.y_min, space.z_min},
                              high = {space.x_max, space.y_max, space.z_max};
  for (std::int64_t k = 0; k < depths; ++k) {
    const double d = 1 + static_cast<double>(k) * (space.x_max - 1) / static_cast<double>(depths);
    for (std::size_t i = 0; i < 3; ++i) {
      const double p =
          inverse[4 * i] * u * d + inverse[4 * i + 1] * v * d + inverse[4 * i + 2] * w * d + inverse[4 * i + 3];
      row.push_back((p - low[i]) / (high[i] - low[i]));
    }
  }
  return torch::tensor(row, torch::kDouble);
}

struct CmtCase {
  DetectorOptions options = examples::tiny_options();
  DetectorBatch batch = example_batch(options, 2, 3);
  std::shared_ptr<CmtPositionsImpl> positions;

  CmtCase() {
    options.head.depths = 5;
    positions = std::make_shared<CmtPositionsImpl>(options);
    initialise_by_name(*positions, 1);
    positions->to(torch::kDouble);
  }
};

TEST(CmtPositions, KeysAreGridCentresAndRaysThroughCorners) {
  CmtCase c;
  const auto keys = c.positions->keys(c.batch.scene, 2);
  const auto& grid = c.batch.scene.grid;
  const auto position = torch::tensor(
      {(grid.center_x(5) - c.options.space.x_min) / 51.2, (grid.center_y(2) - c.options.space.y_min) / 51.2},
      torch::kDouble);
  const auto expected = by_hand(*c.positions, "bev", pos2embed(position, 64));
  EXPECT_TRUE(close(keys[0][2 * grid.columns() + 5], expected, 1e-12));
  const auto& camera = c.batch.scene.cameras[1][2];
  const std::int64_t key = grid.keys() + 2 * camera.keys() + 3 * camera.columns + 4;
  const auto ray = ray_inputs(camera, c.options.space, 5, 4 * 8.0, 3 * 8.0);
  EXPECT_TRUE(close(keys[1][key], by_hand(*c.positions, "rv", ray), 1e-11));
}

TEST(CmtPositions, QueriesSumOverEveryCameraThatSeesThem) {
  CmtCase c;
  // All three cameras are turned to the same side, so that one point lies in all of their images.
  for (auto& rig : c.batch.scene.cameras)
    for (std::size_t v = 0; v < rig.size(); ++v)
      rig[v] = examples::camera_at(0.3 * static_cast<double>(v), 0, 0.1 * static_cast<double>(v), 120, 48, 8);
  const auto points = torch::tensor({{{12.0, 1.0, -0.6}, {-9.0, 2.0, -0.6}}}, torch::kDouble).expand({2, 2, 3});
  const auto embedded = c.positions->queries(points, c.batch.scene);
  const auto position = [&](double x, double y) {
    return torch::tensor({(x + 25.6) / 51.2, (y + 25.6) / 51.2}, torch::kDouble);
  };
  auto expected = by_hand(*c.positions, "bev", pos2embed(position(12, 1), 64));
  for (const auto& camera : c.batch.scene.cameras[0]) {
    const auto p = camera.project({12, 1, -0.6});
    ASSERT_TRUE(camera.sees(p));
    const double share = p.depth / (p.depth + 1e-6);  // CMT adds 1e-6 to the depth that divides
    expected =
        expected + by_hand(*c.positions, "rv", ray_inputs(camera, c.options.space, 5, p.u * share, p.v * share, share));
  }
  EXPECT_TRUE(close(embedded[0][0], expected, 1e-10));
  EXPECT_TRUE(close(embedded[0][1], by_hand(*c.positions, "bev", pos2embed(position(-9, 2), 64)), 1e-12));
}

TEST(CmtPositions, GradientsReachTheReferences) {
  CmtCase c;
  auto points = torch::tensor({{{12.0, 1.0, -0.6}}, {{11.0, 2.0, -0.5}}}, torch::kDouble).requires_grad_();
  c.positions->queries(points, c.batch.scene).sum().backward();
  EXPECT_GT(points.grad().abs().min().item<double>(), 0);
}

TEST(SplitPositions, AQueryOnAKeyHasThatKeysEmbedding) {
  const auto options = examples::tiny_options();
  const auto batch = example_batch(options, 1, 4);
  const auto positions = std::make_shared<SplitPositionsImpl>(options);
  positions->initialise(1, "p");
  positions->to(torch::kDouble);
  const auto keys = positions->keys(batch.scene, 1)[0];
  const auto& grid = batch.scene.grid;
  // A point on the ray through the centre of a camera's cell that no other camera sees.
  const auto& camera = batch.scene.cameras[0][1];
  const auto inverse = geometry::inverse(camera.lidar_to_image);
  const double u = (7 + 0.5) * 8, v = (2 + 0.5) * 8, depth = 11;
  std::vector<double> point;
  point.reserve(3);
  for (std::size_t i = 0; i < 3; ++i)
    point.push_back((inverse[4 * i] * u + inverse[4 * i + 1] * v + inverse[4 * i + 2]) * depth + inverse[4 * i + 3]);
  const auto at_camera = positions->queries(torch::tensor(point, torch::kDouble).view({1, 1, 3}), batch.scene)[0][0];
  const auto key = keys[grid.keys() + camera.keys() + 2 * camera.columns + 7];
  EXPECT_TRUE(close(at_camera.narrow(0, 32, 32), key.narrow(0, 32, 32), 1e-5));
  EXPECT_EQ(key.narrow(0, 0, 32).abs().max().item<double>(), 0);
  const auto at_cell = positions->queries(
      torch::tensor({grid.center_x(9), grid.center_y(20), -1.0}, torch::kDouble).view({1, 1, 3}), batch.scene)[0][0];
  EXPECT_TRUE(close(at_cell.narrow(0, 0, 32), keys[20 * grid.columns() + 9].narrow(0, 0, 32), 1e-12));
  EXPECT_EQ(keys[20 * grid.columns() + 9].narrow(0, 32, 32).abs().max().item<double>(), 0);
}

TEST(SplitPositions, StartsAreOrthogonalTimesTwo) {
  const auto positions = std::make_shared<SplitPositionsImpl>(examples::tiny_options());
  positions->initialise(3, "p");
  for (const auto& weight : positions->parameters())
    EXPECT_TRUE(close(torch::matmul(weight, weight.t()), 4 * torch::eye(32), 1e-5));
}

}  // namespace
}  // namespace camber::detection
