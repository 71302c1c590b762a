// Every installed header together, and a call into a few of the rooms.
#include "includes_everything.h"

#include <iostream>

int main() {
  const camber::nn::BoundedScaleOptions options = camber::nn::scale_preset("aggressive");
  const auto read = camber::config::parse<camber::nn::BoundedScaleOptions>(camber::config::to_toml(options), "scale");
  camber::nn::BoundedScale scale(read);
  camber::train::ScaleProjector projector(*scale);
  const auto q = torch::ones({1, 1, 2, 4});
  const auto out = camber::ops::biased_attention(q, q, q).output;
  if (projector.scales().size() != 1 || !out.allclose(q) || scale->value().item<float>() != 3.5F) {
    std::cerr << "the installed rooms must work together\n";
    return 1;
  }
  return 0;
}
