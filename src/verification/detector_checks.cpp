#include "camber/detection/detector.h"
#include "verification/checklist.h"

namespace camber::verification {
namespace {

// One frame with two cameras; the second delivered nothing, so that it has no image and no calibration.
detection::DetectorBatch frame_without_a_camera(const detection::DetectorOptions& options) {
  const auto& encoder = options.encoder;
  geometry::Camera front{.name = "front",
                         .width = encoder.image_width,
                         .height = encoder.image_height,
                         .columns = encoder.image_width / encoder.feature_stride,
                         .rows = encoder.image_height / encoder.feature_stride,
                         .lidar_to_image = {120, -160, 0, 0, 36, 0, -160, 0, 1, 0, 0, 0, 0, 0, 0, 1}};
  geometry::Camera missing = front;
  missing.lidar_to_image = {};
  detection::DetectorBatch batch{.size = 1};
  batch.scene = {.grid = options.space.grid(), .cameras = {{front, missing}}};
  batch.points = torch::rand({200, 5}) * 20 - 10;
  batch.point_offsets = torch::tensor({0, 200}, torch::kLong);
  batch.images = {torch::rand({1, 2, 3, encoder.image_height, encoder.image_width})};
  batch.available = torch::tensor({true, true, false}).view({1, 3});
  batch.age = torch::tensor({0.F, 0.F, 1.F}).view({1, 3});
  batch.level = torch::tensor({0.F, 0.F, -1.F}).view({1, 3});
  batch.quality = torch::tensor({1.F, 1.F, 0.F}).view({1, 3});
  batch.targets = {{.boxes = torch::tensor({8.F, 1.F, -1.F, 4.F, 2.F, 1.5F, 0.F, 0.F, 0.F}).view({1, 9}),
                    .labels = torch::zeros({1}, torch::kLong),
                    .trust = torch::ones({1, 2})}};
  batch.origins.resize(1);
  return batch;
}

Seen missing_camera(detection::PositionEmbedding embedding) {
  auto options = detection::DetectorOptions::small();
  options.head.num_queries = 20;
  options.head.position_embedding = embedding;
  options.router.mode = nn::RouterMode::kLearned;
  options.bias.segments = true;
  detection::Detector detector(options, 1);
  detector->eval();
  auto batch = frame_without_a_camera(options);
  const auto output = detector->forward(batch, {.attention_mass = true});
  const auto mass = output.attention_mass.select(-1, 2).max().item<double>();
  batch.images[0].select(1, 1).fill_(0.5);
  const double change = difference(detector->forward(batch).codes, output.codes);
  detector->train();
  detector->losses(detector->forward(batch), batch).total.backward();
  bool finite = output.codes.isfinite().all().item<bool>();
  for (const auto& parameter : detector->parameters())
    finite = finite && (!parameter.grad().defined() || parameter.grad().isfinite().all().item<bool>());
  return {"attention on it " + number(mass) + ", boxes moved by its image " + number(change) +
              ", boxes and gradients " + (finite ? "finite" : "not finite"),
          mass == 0 && change == 0 && finite};
}

}  // namespace

void check_detector(Checklist& list) {
  list.section("detector");
  list.check(
      "a camera that delivered nothing is off in use and in training, CMT's positions",
      [] { return missing_camera(detection::PositionEmbedding::kCmt); });
  list.check("a camera that delivered nothing is off in use and in training, split positions",
             [] { return missing_camera(detection::PositionEmbedding::kSplit); });
}

}  // namespace camber::verification
