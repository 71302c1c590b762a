#pragma once
// A model of a few dozen numbers with everything that a checkpoint must carry: weights, running statistics, a bounded
// scale. Its batches are functions of their number alone.
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <camber/nn/bounded_scale.h>
#include <camber/random/stream.h>
#include <camber/train/training_loop.h>
#include <unistd.h>

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

namespace camber::train::testing {

struct TinyModelImpl : torch::nn::Module {
  TinyModelImpl() {
    first = register_module("first", torch::nn::Linear(4, 8));
    norm = register_module("norm", torch::nn::BatchNorm1d(8));
    scale = register_module("scale", nn::BoundedScale());
    last = register_module("last", torch::nn::Linear(8, 1));
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(2, 2, {2, 1})));
    conv->weight.set_data(conv->weight.data().contiguous(torch::MemoryFormat::ChannelsLast));
    torch::NoGradGuard no_grad;
    for (const auto& entry : named_parameters()) {
      if (!entry.key().starts_with("norm") && !entry.key().starts_with("scale")) {
        random::Stream stream = random::Stream(1, "initial").at(entry.key());
        std::vector<float> values;
        values.reserve(static_cast<std::size_t>(entry.value().numel()));
        for (std::int64_t i = 0; i < entry.value().numel(); ++i) {
          values.push_back(static_cast<float>(stream.normal(0, 0.5)));
        }
        entry.value().copy_(torch::tensor(values).view(entry.value().sizes()));
      }
    }
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor straight = conv->forward(x.view({-1, 2, 2, 1})).flatten(1).mean(1, true);
    return last->forward(torch::tanh(norm->forward(first->forward(x)))) * scale->value() + 0.1 * straight;
  }
  torch::nn::Linear first{nullptr}, last{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Conv2d conv{nullptr};  // its weights lie channels last
  nn::BoundedScale scale{nullptr};
};
TORCH_MODULE(TinyModel);

inline torch::Tensor inputs_of(std::int64_t batch, std::int64_t rows = 16) {
  random::Stream stream = random::Stream(7, "inputs").at(static_cast<std::uint64_t>(batch));
  torch::Tensor x = torch::empty({rows, 4});
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    x.data_ptr<float>()[i] = static_cast<float>(stream.normal());
  }
  return x;
}

inline NamedLosses losses_of(TinyModel& model, std::int64_t batch) {
  const torch::Tensor x = inputs_of(batch);
  const torch::Tensor y = x.sum(1, true) * 6;
  const torch::Tensor found = model->forward(x);
  return {{"square", torch::square(found - y).mean()}, {"absolute", 0.1 * torch::abs(found - y).mean()}};
}

inline TrainingLoopOptions tiny_options() {
  TrainingLoopOptions options;
  options.steps = 40;
  options.accumulate = 2;
  options.optimizer = {.learning_rate = 0.02, .clip_norm = 5};
  options.groups = {.rules = {{.pattern = "last", .lr_mult = 0.5}}, .scale_lr_mult = 3};
  options.schedule = {.kind = ScheduleKind::kCyclic, .warmup_share = 0};
  options.average = {.enabled = true, .decay = 0.9};
  options.checkpoint_every = 5;
  return options;
}

/// A folder of its own for one test, gone afterwards.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& name)
      : path_(std::filesystem::temp_directory_path() / ("camber_train_" + name + "_" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace camber::train::testing
