#include "runs/detector_health.h"

namespace camber::runs {
namespace {

struct BiasPart {
  const char* name;
  torch::Tensor detection::AddedBias::*values;
};

constexpr BiasPart kBiasParts[] = {{"lidar", &detection::AddedBias::lidar_windows},
                                   {"camera", &detection::AddedBias::camera_windows},
                                   {"segments/lidar", &detection::AddedBias::lidar_segment},
                                   {"segments/camera", &detection::AddedBias::camera_segments}};

std::string layer_name(std::size_t layer) {
  return "layer" + std::to_string(layer);
}

}  // namespace

void add_output(train::HealthAdapter& adapter, const detection::DetectorOutput& output, bool learned) {
  std::vector<std::string> segments(static_cast<std::size_t>(output.attention_mass.size(-1)), "camera");
  segments[0] = "lidar";
  for (std::size_t layer = 0; layer < output.statistics.size(); ++layer)
    adapter.add_attention(layer_name(layer), output.statistics[layer], segments);
  for (const BiasPart& part : kBiasParts) {
    std::vector<torch::Tensor> all;
    for (std::size_t layer = 0; layer < output.added_bias.size(); ++layer) {
      const torch::Tensor& values = output.added_bias[layer].*part.values;
      if (values.defined()) {
        adapter.add_bias(layer_name(layer) + "/" + part.name, values);
        all.push_back(values.flatten());
      }
    }
    if (!all.empty()) adapter.add_bias(part.name, torch::cat(all));
  }
  if (output.trust.defined()) {
    adapter.add_trust("lidar", output.trust.narrow(-1, 0, 1), learned);
    adapter.add_trust("camera", output.trust.narrow(-1, 1, output.trust.size(-1) - 1), learned);
  }
}

}  // namespace camber::runs
