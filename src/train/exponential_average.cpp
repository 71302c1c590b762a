#include <algorithm>
#include <unordered_set>

#include <camber/train/exponential_average.h>

namespace camber::train {

ExponentialAverage::ExponentialAverage(torch::nn::Module& model, ExponentialAverageOptions options)
    : options_(options) {
  std::unordered_set<const void*> taken;
  const auto add = [&](const std::string& name, const torch::Tensor& value) {
    if (value.defined() && taken.insert(value.unsafeGetTensorImpl()).second) {
      entries_.push_back({name, value.detach(), value.detach().clone()});
    }
  };
  for (const auto& entry : model.named_parameters()) {
    add(entry.key(), entry.value());
  }
  for (const auto& entry : model.named_buffers()) {
    add(entry.key(), entry.value());
  }
}

void ExponentialAverage::update() {
  torch::NoGradGuard no_grad;
  ++updates_;
  const auto count = static_cast<double>(updates_);
  const double decay = std::min(options_.decay, count / (count + 9));
  for (Entry& entry : entries_) {
    if (entry.value.is_floating_point()) {
      entry.average.lerp_(entry.value, 1 - decay);
    } else {
      entry.average.copy_(entry.value);
    }
  }
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
