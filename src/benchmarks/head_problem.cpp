#include "benchmarks/head_problem.h"

#include <numbers>
#include <stdexcept>

#include <ATen/CPUGeneratorImpl.h>

#include "benchmarks/attention_problem.h"
#include "camber/random/stream.h"

namespace camber::benchmarks {
namespace {

constexpr std::int64_t kRing = 6;  // cameras

torch::Tensor normal(const HeadBenchOptions& options, const std::string& name, at::IntArrayRef shape) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(random::Stream(options.seed, "bench.head." + name).key());
  return torch::empty(shape, torch::kFloat).normal_(0, 1, generator);
}

detection::Targets objects_of(const HeadBenchOptions& options, const detection::DetectorOptions& detector,
                              std::int64_t frame) {
  random::Stream draw(options.seed, "bench.head.objects." + std::to_string(frame));
  std::vector<float> boxes;
  const auto& space = detector.space;
  for (std::int64_t i = 0; i < options.objects; ++i)
    for (const double value : {draw.uniform(space.x_min, space.x_max), draw.uniform(space.y_min, space.y_max),
                               draw.uniform(-1.5, 0.5), draw.uniform(0.5, 10), draw.uniform(0.5, 3), draw.uniform(1, 3),
                               draw.uniform(-3, 3), draw.uniform(-5, 5), draw.uniform(-5, 5)})
      boxes.push_back(static_cast<float>(value));
  return {.boxes = torch::tensor(boxes).view({options.objects, 9}),
          .labels = torch::arange(options.objects) % detector.num_classes(),
          .trust = torch::zeros({options.objects, 2})};
}

}  // namespace

void HeadBenchOptions::validate() const {
  for (const auto& [name, value] :
       {std::pair{"batch", batch}, std::pair{"queries", queries}, std::pair{"layers", layers},
        std::pair{"objects", objects}, std::pair{"repeats", repeats}})
    if (value < 1) throw std::invalid_argument(std::string(name) + " must be at least 1, got " + std::to_string(value));
  if (precision != "float32" && precision != "bfloat16")
    throw std::invalid_argument("precision must be float32 or bfloat16, got '" + precision + "'");
}

detection::Detector reference_head(const HeadBenchOptions& options, bool with_router) {
  auto reference = detection::DetectorOptions::reference();
  reference.encoder.kind = detection::EncoderKind::kFeatures;
  reference.head.num_queries = options.queries;
  reference.head.decoder.num_layers = options.layers;
  reference.bias.num_layers = options.layers;
  if (with_router) reference.router.mode = nn::RouterMode::kLearned;
  detection::Detector detector(reference, options.seed);
  const torch::NoGradGuard guard;
  for (auto& parameter : detector->named_parameters())
    if (parameter.key().find("router.content.weight") != std::string::npos)
      parameter.value().copy_(0.1 * normal(options, "content", parameter.value().sizes()));
  detector->eval();
  return detector;
}

detection::DetectorBatch head_batch(const HeadBenchOptions& options, const detection::DetectorOptions& detector) {
  const auto& encoder = detector.encoder;
  const std::int64_t columns = encoder.image_width / encoder.feature_stride,
                     rows = encoder.image_height / encoder.feature_stride;
  detection::DetectorBatch batch{.size = options.batch};
  batch.scene.grid = detector.space.grid();
  std::vector<geometry::Camera> ring;
  ring.reserve(static_cast<std::size_t>(kRing));
  for (std::int64_t i = 0; i < kRing; ++i)
    ring.push_back(camera_at(static_cast<double>(i) * std::numbers::pi / 3, columns, rows));
  batch.scene.cameras.assign(static_cast<std::size_t>(options.batch), ring);
  const auto& grid = batch.scene.grid;
  batch.bev_features = normal(options, "bev", {options.batch, encoder.bev_channels, grid.rows(), grid.columns()});
  batch.camera_features = {normal(options, "cameras", {options.batch, kRing, encoder.camera_channels, rows, columns})};
  batch.available = torch::ones({options.batch, 1 + kRing}, torch::kBool);
  batch.age = torch::full({options.batch, 1 + kRing}, 0.5F);
  batch.level = torch::zeros({options.batch, 1 + kRing});
  batch.quality = torch::ones({options.batch, 1 + kRing});
  for (std::int64_t b = 0; b < options.batch; ++b) batch.targets.push_back(objects_of(options, detector, b));
  batch.origins.resize(static_cast<std::size_t>(options.batch));
  return batch;
}

}  // namespace camber::benchmarks
