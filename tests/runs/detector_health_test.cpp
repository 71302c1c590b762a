// What the monitor is told of the bias: every layer's windows with their profile, every layer's segments, as added.
#include "runs/detector_health.h"

#include <map>

#include <camber/health/monitor.h>
#include <gtest/gtest.h>

#include "camber/detection/cmt_head.h"
#include "detection/example_batch.h"

namespace camber::runs {
namespace {

using detection::Detector;
using detection::DetectorBatch;
using detection::DetectorOptions;
using Metrics = std::map<std::string, double>;

// Scales that differ from layer to layer, and trust that differs from query to query.
Detector biased_detector(DetectorOptions options) {
  options.router.mode = nn::RouterMode::kLearned;
  options.bias.form = nn::WindowForm::kGaussian;
  options.bias.sharing = nn::ScaleSharing::kPerLayer;
  Detector detector(options, 1);
  detector->eval();
  const torch::NoGradGuard no_grad;
  torch::manual_seed(4);
  for (auto& parameter : detector->named_parameters()) {
    if (parameter.key().find("router.") != std::string::npos) {
      parameter.value().add_(0.3 * torch::randn_like(parameter.value()));
    } else if (parameter.key().find("scale.raw") != std::string::npos) {
      parameter.value().copy_(1 + torch::arange(parameter.value().numel()));
    }
  }
  return detector;
}

Metrics metrics_of(const detection::DetectorOutput& output) {
  train::HealthAdapter adapter(1);
  add_output(adapter, of_all_ranks(output, *distributed::alone()), true);
  Metrics metrics;
  for (const health::Metric& metric : health::health_metrics(adapter.sample())) {
    metrics[metric.name] = metric.value;
  }
  return metrics;
}

void expect_values(const Metrics& metrics, const std::string& name, const torch::Tensor& values) {
  ASSERT_GT(values.numel(), 0) << name;
  ASSERT_TRUE(metrics.contains("effective_bias/" + name + "/mean")) << name;
  const auto all = values.to(torch::kDouble).flatten();
  EXPECT_NEAR(metrics.at("effective_bias/" + name + "/mean"), all.abs().mean().item<double>(), 1e-5) << name;
  EXPECT_NEAR(metrics.at("effective_bias/" + name + "/p95"), all.abs().quantile(0.95).item<double>(), 1e-5) << name;
  EXPECT_NEAR(metrics.at("bias/" + name + "/min"), all.min().item<double>(), 1e-5) << name;
  EXPECT_NEAR(metrics.at("bias/" + name + "/max"), all.max().item<double>(), 1e-5) << name;
}

TEST(DetectorHealth, WatchesHowFarTheSensorsAgree) {
  const DetectorOptions options = detection::examples::tiny_options();
  Detector detector = biased_detector(options);
  const torch::NoGradGuard no_grad;
  auto batch = detection::examples::example_batch(options, 2, 3);
  const auto both = detector->forward(batch, {.statistics = true});
  EXPECT_NEAR(metrics_of(both).at("agreement/sensors/mean"), both.agreement.frame.mean().item<double>(), 1e-12);
  batch.available[0][0] = false;  // of the frame without LiDAR nothing is known
  const auto one = detector->forward(batch, {.statistics = true});
  EXPECT_NEAR(metrics_of(one).at("agreement/sensors/mean"), one.agreement.frame[1].item<double>(), 1e-12);
  batch.available.select(1, 0).fill_(false);
  EXPECT_FALSE(metrics_of(detector->forward(batch, {.statistics = true})).contains("agreement/sensors/mean"));
}

TEST(DetectorHealth, WatchesTheBiasThatEveryLayerAdded) {
  DetectorOptions options = detection::examples::tiny_options();
  options.bias.segments = true;
  options.bias.num_layers = options.head.decoder.num_layers;
  Detector detector = biased_detector(options);
  DetectorBatch batch = detection::examples::example_batch(options, 2, 3);
  batch.available[1][2] = false;  // what is added to keys that nobody sees is added to nothing
  const torch::NoGradGuard no_grad;
  const auto output = detector->forward(batch, {.statistics = true});
  const Metrics metrics = metrics_of(output);

  auto bias = detector->head()->attention_bias;
  const auto windows = bias->windows(nn::project_queries(output.references, batch.scene, batch.available), batch.scene);
  const auto in_grid = windows.index.map_index == 0;
  std::vector<torch::Tensor> lidar, cameras, lidar_segment, camera_segments;
  for (std::int64_t layer = 0; layer < options.head.decoder.num_layers; ++layer) {
    const auto added = bias->forward(output.trust, windows, batch.scene, layer);
    lidar.push_back(added.windows->value.select(0, 0).masked_select(in_grid));
    cameras.push_back(added.windows->value.select(0, 0).masked_select(~in_grid));
    const auto& value = *added.segments->value;  // [B, 1, Q, 4]
    lidar_segment.push_back(value.select(3, 0).flatten());
    camera_segments.push_back(
        torch::cat({value[0].slice(2, 1).flatten(), value[1].select(2, 1).flatten(), value[1].select(2, 3).flatten()}));
    const std::string name = "layer" + std::to_string(layer) + "/";
    expect_values(metrics, name + "lidar", lidar.back());
    expect_values(metrics, name + "camera", cameras.back());
    expect_values(metrics, name + "segments/lidar", lidar_segment.back());
    expect_values(metrics, name + "segments/camera", camera_segments.back());
  }
  expect_values(metrics, "lidar", torch::cat(lidar));
  expect_values(metrics, "camera", torch::cat(cameras));
  expect_values(metrics, "segments/lidar", torch::cat(lidar_segment));
  expect_values(metrics, "segments/camera", torch::cat(camera_segments));
  EXPECT_GT(metrics.at("effective_bias/layer1/lidar/mean"), 1.5 * metrics.at("effective_bias/layer0/lidar/mean"));
  EXPECT_TRUE(metrics.contains("trust/camera/mean"));
}

TEST(DetectorHealth, SaysNothingOfABiasThatIsNotThere) {
  DetectorOptions options = detection::examples::tiny_options();
  options.bias.segments = true;
  options.bias.windows = false;
  options.bias.num_layers = options.head.decoder.num_layers;
  const DetectorBatch batch = detection::examples::example_batch(options, 1, 2);
  const torch::NoGradGuard no_grad;
  const Metrics only_segments = metrics_of(biased_detector(options)->forward(batch, {.statistics = true}));
  EXPECT_FALSE(only_segments.contains("effective_bias/lidar/mean"));
  EXPECT_TRUE(only_segments.contains("effective_bias/segments/lidar/mean"));
  Detector plain(detection::examples::tiny_options(), 1);
  plain->eval();
  const auto output = plain->forward(batch, {.statistics = true});
  EXPECT_TRUE(output.layer_bias.empty());
  for (const auto& [name, value] : metrics_of(output))
    EXPECT_FALSE(name.find("bias/") != std::string::npos || name.starts_with("trust/")) << name;
}

}  // namespace
}  // namespace camber::runs
