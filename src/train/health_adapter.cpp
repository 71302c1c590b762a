#include <camber/config/sentence.h>
#include <camber/train/health_adapter.h>

namespace camber::train {

std::span<const float> HealthAdapter::keep(const torch::Tensor& tensor) {
  if (!tensor.defined() || tensor.numel() == 0) return {};
  kept_.push_back(tensor.detach().to(torch::kCPU, torch::kFloat).contiguous());
  return {kept_.back().const_data_ptr<float>(), static_cast<std::size_t>(kept_.back().numel())};
}

void HealthAdapter::add_scales(const ScaleProjector& projector, const std::vector<ReachableRange>& reaches) {
  const auto flat = [](const torch::Tensor& tensor) {
    return tensor.detach().to(torch::kCPU, torch::kDouble).reshape({-1});
  };
  for (std::size_t i = 0; i < projector.scales().size(); ++i) {
    nn::BoundedScale scale = projector.scales()[i].scale;
    const nn::BoundedScaleOptions& options = scale->options;
    const torch::Tensor value = flat(scale->value()), raw = flat(scale->raw()),
                        at_bound = flat(scale->share_at_bound());
    const torch::Tensor& gradient = scale->raw().grad();
    const torch::Tensor gradients = gradient.defined() ? flat(gradient) : torch::Tensor();
    for (std::int64_t k = 0; k < value.numel(); ++k) {
      const auto steps = static_cast<double>(scale->num_steps());
      health::ScaleSample sample{
          .name = projector.scales()[i].name,
          .value = value[k].item<double>(),
          .raw = raw[k].item<double>(),
          .gradient = gradients.defined() ? std::optional(gradients[k].item<double>()) : std::nullopt,
          .init = options.init,
          .min = scale->min(),
          .max = scale->max(),
          .warn_threshold = options.warn_threshold,
          .learnable = options.learnable,
          .log_space = scale->space() == nn::Space::kLog,
          .num_steps = steps,
          .steps_at_bound = at_bound[k].item<double>() * steps};
      if (value.numel() > 1) sample.name = config::sentence(sample.name, "/", k);
      if (i < reaches.size()) {
        const std::vector<double>& start = reaches[i].start;
        sample.init = start.size() == 1 ? start.front() : start.at(static_cast<std::size_t>(k));
      }
      if (i < reaches.size() && options.learnable) {
        sample.reach_low = reaches[i].steady.low;
        sample.reach_high = reaches[i].steady.high;
      }
      sample_.scales.push_back(std::move(sample));
    }
  }
}

void HealthAdapter::add_attention(const std::string& name, const ops::AttentionStatistics& statistics,
                                  const std::vector<std::string>& segments) {
  const auto sizes = statistics.entropy.sizes();
  sample_.attention.push_back({.name = name,
                               .batch = sizes[0],
                               .heads = sizes[1],
                               .queries = sizes[2],
                               .entropy = keep(statistics.entropy),
                               .largest_weight = keep(statistics.largest_weight),
                               .sum_of_squares = keep(statistics.sum_of_squares),
                               .change = keep(statistics.change),
                               .divergence = keep(statistics.divergence),
                               .keys_left = keep(statistics.keys_left),
                               .segment_mass = keep(statistics.segment_mass),
                               .segments = segments});
}

void HealthAdapter::add_bias(const std::string& name, const torch::Tensor& value) {
  sample_.bias.push_back({.name = name, .value = keep(value)});
}

void HealthAdapter::add_trust(const std::string& name, const torch::Tensor& weight, bool learned) {
  sample_.trust.push_back({.name = name, .weight = keep(weight), .learned = learned});
}

void HealthAdapter::add_agreement(const torch::Tensor& by_frame) {
  const torch::Tensor known = by_frame.masked_select(by_frame.isnan().logical_not());
  if (known.numel() > 0) sample_.agreement = known.mean().item<double>();
}

}  // namespace camber::train
