#include "runs/detector_health.h"

#include <torch/serialize.h>

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

// The tensors that add_output looks at, frames (or values in no order) first.
std::vector<torch::Tensor*> watched_tensors(WatchedPass& watched) {
  auto& output = watched.output;
  std::vector<torch::Tensor*> all{&output.trust, &output.attention_mass, &output.agreement.frame};
  for (ops::AttentionStatistics& layer : output.statistics)
    for (torch::Tensor* one : {&layer.entropy, &layer.largest_weight, &layer.sum_of_squares, &layer.change,
                               &layer.divergence, &layer.keys_left, &layer.segment_mass})
      all.push_back(one);
  for (detection::AddedBias& layer : watched.added_bias)
    for (const BiasPart& part : kBiasParts) {
      torch::Tensor& values = layer.*part.values;
      if (values.defined()) values = values.flatten();
      all.push_back(&values);
    }
  std::erase_if(all, [](const torch::Tensor* one) { return !one->defined(); });
  return all;
}

std::string layer_name(std::size_t layer) {
  return "layer" + std::to_string(layer);
}

}  // namespace

WatchedPass of_all_ranks(const detection::DetectorOutput& own, distributed::ProcessGroup& group) {
  WatchedPass whole{.output = own};
  for (const detection::LayerBias& layer : own.layer_bias) whole.added_bias.push_back(layer.added());
  if (group.is_alone()) return whole;
  const std::vector<torch::Tensor*> tensors = watched_tensors(whole);
  std::vector<torch::Tensor> mine;
  mine.reserve(tensors.size());
  for (const torch::Tensor* one : tensors) mine.push_back(one->detach().cpu().contiguous());
  const std::vector<char> bytes = torch::pickle_save(c10::IValue(mine));
  std::vector<std::vector<torch::Tensor>> of_rank;
  for (const std::string& sent : group.gather({bytes.begin(), bytes.end()}))
    of_rank.push_back(torch::pickle_load({sent.begin(), sent.end()}).toTensorVector());
  for (std::size_t i = 0; i < tensors.size() && !of_rank.empty(); ++i) {
    std::vector<torch::Tensor> parts;
    parts.reserve(of_rank.size());
    for (const auto& sent : of_rank) parts.push_back(sent.at(i));
    *tensors[i] = torch::cat(parts);
  }
  return whole;
}

void add_output(train::HealthAdapter& adapter, const WatchedPass& watched, bool learned) {
  const detection::DetectorOutput& output = watched.output;
  std::vector<std::string> segments;
  if (output.attention_mass.defined())
    segments.assign(static_cast<std::size_t>(output.attention_mass.size(-1)), "camera");
  if (!segments.empty()) segments[0] = "lidar";
  for (std::size_t layer = 0; layer < output.statistics.size(); ++layer)
    adapter.add_attention(layer_name(layer), output.statistics[layer], segments);
  for (const BiasPart& part : kBiasParts) {
    std::vector<torch::Tensor> all;
    for (std::size_t layer = 0; layer < watched.added_bias.size(); ++layer) {
      const torch::Tensor& values = watched.added_bias[layer].*part.values;
      if (values.defined()) {
        adapter.add_bias(layer_name(layer) + "/" + part.name, values);
        all.push_back(values.flatten());
      }
    }
    if (!all.empty()) adapter.add_bias(part.name, torch::cat(all));
  }
  if (output.agreement.defined()) adapter.add_agreement(output.agreement.frame);
  if (output.trust.defined()) {
    adapter.add_trust("lidar", output.trust.narrow(-1, 0, 1), learned);
    adapter.add_trust("camera", output.trust.narrow(-1, 1, output.trust.size(-1) - 1), learned);
  }
}

}  // namespace camber::runs
