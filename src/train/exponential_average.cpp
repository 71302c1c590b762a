#include <algorithm>
#include <map>

#include <camber/train/exponential_average.h>
#include <camber/train/scale_projector.h>
#include <camber/weights/load.h>

namespace camber::train {

ExponentialAverage::ExponentialAverage(torch::nn::Module& model, ExponentialAverageOptions options)
    : options_(options) {
  const weights::SettingNames settings = weights::settings_of(model);
  std::map<const void*, std::size_t> positions;
  for (const weights::NamedTensor& entry : weights::tensors_of(model, "")) {
    positions[entry.tensor.const_data_ptr()] = entries_.size();
    entries_.push_back({entry.name, entry.tensor, entry.tensor.clone(),
                        settings.contains(entry.name) || !entry.tensor.is_floating_point()});
  }
  const ScaleProjector projector(model);
  for (const NamedScale& entry : projector.scales()) {
    const torch::Tensor bounds = entry.scale->named_buffers(/*recurse=*/false)["bounds"];
    scales_.push_back(
        {entry.scale, positions.at(entry.scale->raw().const_data_ptr()), positions.at(bounds.const_data_ptr())});
  }
}

void ExponentialAverage::carry_over(const Scale& scale) {
  const nn::ScaleMapping now = scale.scale->mapping();
  const torch::Tensor &raw = entries_[scale.raw].average, &bounds = entries_[scale.bounds].average;
  const auto before = nn::ScaleMapping::make(now.constraint, now.log, bounds[0].item<double>(),
                                             bounds[1].item<double>(), raw.scalar_type());
  if (before != now) raw.copy_(now.carried_over(raw.to(torch::kDouble), before));
}

void ExponentialAverage::update() {
  torch::NoGradGuard no_grad;
  ++updates_;
  const auto count = static_cast<double>(updates_);
  const double decay = std::min(options_.decay, count / (count + 9));
  for (const Scale& scale : scales_) carry_over(scale);
  for (Entry& entry : entries_)
    if (entry.copied)
      entry.average.copy_(entry.value);
    else
      entry.average.lerp_(entry.value, 1 - decay);
}

void ExponentialAverage::exchange() {
  torch::NoGradGuard no_grad;
  for (Entry& entry : entries_) {
    const torch::Tensor kept = entry.value.clone();
    entry.value.copy_(entry.average);
    entry.average.copy_(kept);
  }
}

ExponentialAverage::Applied::Applied(ExponentialAverage& average) : average_(average) {
  average_.exchange();
}

ExponentialAverage::Applied::~Applied() {
  average_.exchange();
}

}  // namespace camber::train
