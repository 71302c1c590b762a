// Attention on one's own tensors with a lean toward a few keys of each query, and the gradient of that lean.
#include "camber/ops/biased_attention.h"

#include <iostream>

#include <torch/types.h>

int main() {
  const auto q = torch::randn({1, 8, 900, 32}), k = torch::randn({1, 8, 4096, 32}), v = torch::randn({1, 8, 4096, 32});

  // Query i leans toward keys i, i + 1 and i + 2: three entries a row.
  const auto row_offsets = torch::arange(901, torch::kLong) * 3;
  const auto key_index = (torch::arange(900).unsqueeze(1) + torch::arange(3)).flatten().to(torch::kInt);
  const auto value = torch::full({1, 2700}, 2.5).requires_grad_(true);
  const camber::ops::StructuredBias lean{.windows = camber::ops::Windows{row_offsets, key_index, value}};

  camber::ops::AttentionReport report;
  const auto out = camber::ops::biased_attention(q, k, v, lean, {.statistics = true}, &report);
  out.output.square().mean().backward();

  std::cout << report.sentence() << "\n"
            << "attention that the lean moved: " << out.statistics->change.mean().item<double>() << "\n"
            << "gradient of the lean:          " << value.grad().abs().mean().item<double>() << "\n"
            << "bytes of the lean:             " << lean.bytes() << " (dense, per head: " << 8 * 900 * 4096 * 4
            << ")\n";
}
