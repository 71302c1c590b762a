// The published models as options, and what they make of frames.
#include "camber/config/options.h"

#include <fstream>

#include "camber/detection/cmt_head.h"
#include "camber/nn/query_projection.h"
#include "camber/runs/detector_options.h"
#include "cmt/recipe.h"
#include "detection/encoders.h"
#include "detection/position_embedding.h"
#include "support/comparison.h"

namespace camber::cmt_tests {
namespace {

using camber::proof::close;
using camber::proof::error_of;
using namespace detection;

const std::vector<std::string> kModels = {"cmt_r50", "cmt_vov", "cmt_lidar", "cmt_camera"};

TEST(CmtOptions, ConfigurationsAreThePresets) {
  const char* source = std::getenv("CAMBER_SOURCE");
  for (const auto& name : kModels) {
    const auto file = std::filesystem::path(source == nullptr ? "." : source) / "configs" / (name + ".toml");
    EXPECT_EQ(config::to_toml(runs::detector_of_config(file.string())), config::to_toml(DetectorOptions::preset(name)))
        << name;
    DetectorOptions::preset(name).validate();
  }
  EXPECT_EQ(error_of([] { runs::detector_of_config("cmt_r101"); }),
            "[Detector] preset must be reference, small, cmt_r50, cmt_vov, cmt_lidar or cmt_camera, got \"cmt_r101\"");
}

TEST(CmtOptions, RefusesWhatDoesNotHoldTogether) {
  const auto refused = [](const std::function<void(DetectorOptions&)>& change) {
    auto options = DetectorOptions::preset("cmt_r50");
    change(options);
    return error_of([&] { options.validate(); });
  };
  EXPECT_EQ(refused([](auto& o) { o.encoder.cmt.voxel = 0.075; }),
            "[Detector] encoder.cmt.voxel must be an eighth of space.cell 0.800000, got 0.075000");
  EXPECT_EQ(refused([](auto& o) { o.space.grid_cells = 136; }),
            "[Detector] space.grid_cells must stay inside the range, got 136 cells of 0.800000 m");
  EXPECT_EQ(refused([](auto& o) {
              o.encoder.cmt.sparse_channels = {16, 32};
            }),
            "[Detector] encoder.cmt.sparse_channels must hold four widths, got 2");
  EXPECT_EQ(refused([](auto& o) { o.encoder.cmt.voxel_height = 0.4; }),
            "[Detector] encoder.cmt.voxel_height must cut the space into at least 24 heights, got 0.400000 m");
  EXPECT_EQ(refused([](auto& o) { o.head.task_kernel = 2; }), "[Detector] head.task_kernel must be odd, got 2");
  EXPECT_EQ(refused([](auto& o) {
              o.head.centre_limits = {1, 2};
            }),
            "[Detector] head.centre_limits must hold six numbers or none, got 2");
  EXPECT_EQ(refused([](auto& o) { o.encoder.feature_stride = 8; }),
            "[Detector] encoder.feature_stride must be 16 for CMT's encoders, got 8");
}

TEST(CmtOptions, WindowsLieOnTrueCellsAndEmbeddingsAsPublished) {
  const auto options = DetectorOptions::preset("cmt_r50");
  const auto grid = options.space.grid();
  EXPECT_EQ(grid.columns(), 128);
  EXPECT_DOUBLE_EQ(grid.x_max(), 48.4);
  const nn::SensorScene scene{.grid = grid};
  const auto projected = nn::project_queries(torch::tensor({{{40.0, -53.9, 0.0}, {50.0, 0.0, 0.0}}}), scene);
  EXPECT_EQ(projected.cell[0][0][0][0].item<std::int64_t>(), 117);  // floor(94 / 0.8), not floor(94 * 128 / 108) = 111
  EXPECT_EQ(projected.cell[0][0][0][1].item<std::int64_t>(), 0);
  EXPECT_FALSE(projected.seen[0][1][0].item<bool>());  // beyond the grid
  // The key of column 117 is embedded where 117.5 / 128 of the range lies, 45.14 m, and not at its centre, 40 m.
  auto small = options;
  small.head.decoder.width = 16;
  CmtPositionsImpl positions(small);
  const auto keys = positions.keys(scene, 1)[0];
  const auto there =
      positions.queries(torch::tensor({{{(117.5F / 128) * 108 - 54, 0.5F / 128 * 108 - 54, 0.0F}}}), scene);
  EXPECT_TRUE(close(keys[117], there[0][0], 1e-5));
}

TEST(CmtOptions, VoxelsBeyondTheGridAreDropped) {
  auto options = small_options();
  options.space.grid_cells = 24;  // of 32
  const auto encoder = make_cmt_lidar_encoder(options);
  const auto points = torch::tensor({{0.0F, 0.0F, 0.0F, 1.0F, 0.0F},
                                     {10.0F, 0.0F, 0.0F, 2.0F, 0.0F},
                                     {0.0F, 7.0F, 0.0F, 3.0F, 0.0F},
                                     {1.0F, 1.0F, 0.0F, 4.0F, 0.0F}});
  const auto grouped = encoder->group(points, torch::tensor({0, 4}, torch::kLong), torch::tensor({0}, torch::kLong));
  EXPECT_TRUE(grouped.features.select(1, 3).equal(torch::tensor({1.0F, 4.0F})));
  EXPECT_EQ(encoder->forward(grouped, 1).sizes(), (torch::IntArrayRef{1, 128, 24, 24}));
}

// One frame with a cloud and two cameras, as a loader gives it.
sensors::LoadedSample one_frame(const DetectorOptions& options) {
  sensors::LoadedSample sample;
  auto& frame = sample.sensor_frame.frame;
  for (int i = 0; i < 200; ++i)
    frame.points.push_back({.x = static_cast<float>(20 * uniform_of("x", 1, static_cast<std::uint64_t>(i)) - 10),
                            .y = static_cast<float>(20 * uniform_of("y", 1, static_cast<std::uint64_t>(i)) - 10),
                            .z = -1,
                            .intensity = static_cast<float>(i % 256)});
  frame.lidar_available = true;
  for (int v = 0; v < 2; ++v) {
    sensors::CameraView view;
    const auto& encoder = options.encoder;
    view.camera = {.width = encoder.image_width,
                   .height = encoder.image_height,
                   .columns = encoder.image_width / 16,
                   .rows = encoder.image_height / 16,
                   .lidar_to_image = {80, v == 0 ? -80.0 : 80.0, 0, 1, 32, 0, -80, 1, 1, 0, 0, 0.1, 0, 0, 0, 1}};
    view.available = true;
    view.image.width = encoder.image_width;
    view.image.height = encoder.image_height;
    for (std::int64_t i = 0; i < 3 * encoder.image_width * encoder.image_height; ++i)
      view.image.pixels.push_back(static_cast<std::uint8_t>((7 * i + v) % 256));
    frame.cameras.push_back(view);
  }
  return sample;
}

TEST(CmtCollate, KeepsIntensitiesAndNormalisesImagesAsTheOriginal) {
  const auto options = small_options();
  const auto sample = one_frame(options);
  const auto batch = collate(std::span(&sample, 1), options);
  EXPECT_EQ(batch.points[3][3].item<float>(), 3);
  const auto& bytes = sample.sensor_frame.frame.cameras[1].image.pixels;
  const auto images = batch.images[0][0][1];
  for (std::int64_t pixel = 0; pixel < 50; ++pixel)
    for (std::int64_t plane = 0; plane < 3; ++plane) {
      const auto byte = static_cast<float>(bytes[static_cast<std::size_t>(3 * pixel + 2 - plane)]);  // blue first
      const auto at = static_cast<std::size_t>(plane);
      const auto expected = static_cast<float>(static_cast<double>(byte - kCmtImageMean[at]) *
                                               (1 / static_cast<double>(kCmtImageDeviation[at])));
      EXPECT_EQ(images[plane].flatten()[pixel].item<float>(), expected);
    }
}

TEST(CmtSensors, LidarAndCamerasAloneEqualBothWithTheOtherAbsent) {
  const torch::NoGradGuard guard;
  auto both = small_options();
  const auto sample = one_frame(both);
  for (const auto alone : {Sensors::kLidar, Sensors::kCameras}) {
    auto options = both;
    options.encoder.cmt.sensors = alone;
    if (alone == Sensors::kCameras) {  // as the published one: a grid of one cell, no convolution over it
      options.space.cell = 25.6;
      options.space.pillar_cell = 12.8;
      options.encoder.bev_channels = 64;
      options.head.shared_convolution = false;
    }
    Detector single(options, 5), whole(both, 5);  // the same start by name
    single->eval();
    whole->eval();
    const auto own = collate(std::span(&sample, 1), options);
    EXPECT_EQ(own.scene.num_maps(), alone == Sensors::kLidar ? 1 : 3);
    auto shared = collate(std::span(&sample, 1), both);
    if (alone == Sensors::kCameras) {
      shared.available.select(1, 0).fill_(false);
    } else {  // without cameras at all: a camera that sees a query would embed it
      shared.scene.cameras = {{}};
      shared.images.clear();
      shared.available = shared.available.narrow(1, 0, 1);
    }
    const auto found = single->forward(own), expected = whole->forward(shared);
    EXPECT_TRUE(close(found.codes, expected.codes, 1e-5));
    EXPECT_TRUE(close(found.class_logits, expected.class_logits, 1e-5));
    EXPECT_EQ(single->decode(found, own)[0].empty(), whole->decode(expected, shared)[0].empty());
  }
}

TEST(CmtSensors, RefusesFramesOfASensorThatItDoesNotHave) {
  auto options = small_options();
  const auto sample = one_frame(options);
  const auto batch = collate(std::span(&sample, 1), options);
  options.encoder.cmt.sensors = Sensors::kLidar;
  Detector lidar(options);
  EXPECT_EQ(error_of([&] { lidar->forward(batch); }),
            "[Detector] scene must have no cameras: this detector looks with the LiDAR alone");
}

}  // namespace
}  // namespace camber::cmt_tests
