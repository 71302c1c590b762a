// A bounded scale in one's own module: it learns, meets its bound, and comes back when the data ask for it.
#include "camber/nn/bounded_scale.h"

#include <iostream>

#include <torch/nn/module.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include "camber/train/scale_projector.h"

struct Sharpener : torch::nn::Module {
  camber::nn::BoundedScale scale{nullptr};

  Sharpener() {
    scale = register_module("scale", camber::nn::BoundedScale(camber::nn::BoundedScaleOptions{.init = 2.5}));
  }
  torch::Tensor forward(const torch::Tensor& scores) { return torch::softmax(scores * scale->value(), -1); }
};

int main() {
  Sharpener model;
  torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.5).momentum(0.9));
  camber::train::ScaleProjector projector(model);
  const auto scores = torch::tensor({1.0F, 0.0F, -1.0F});
  for (int step = 0; step < 200; ++step) {
    optimizer.zero_grad();
    // First the data want a sharp answer, then a flat one.
    const auto weights = model.forward(scores);
    const auto loss = step < 100 ? -weights[0].log() : weights.square().sum();
    loss.backward();
    projector.step(optimizer);
    if (step % 25 == 24) std::cout << "step " << step + 1 << "  scale " << model.scale->value().item<double>() << "\n";
  }
}
