// Attention on one's own tensors with a bias toward a few keys of each query, and the gradient of that bias.
#include "camber/ops/biased_attention.h"

#include <iostream>

#include <torch/types.h>

int main() {
  const auto q = torch::randn({1, 8, 900, 32}), k = torch::randn({1, 8, 4096, 32}), v = torch::randn({1, 8, 4096, 32});

  // Query i is biased toward keys i, i + 1 and i + 2: three entries a row.
  const auto row_offsets = torch::arange(901, torch::kLong) * 3;
  const auto key_index = (torch::arange(900).unsqueeze(1) + torch::arange(3)).flatten().to(torch::kInt);
  const auto value = torch::full({1, 2700}, 2.5).requires_grad_(true);
  const camber::ops::StructuredBias structured{.windows = camber::ops::Windows{row_offsets, key_index, value}};

  camber::ops::AttentionReport report;
  const auto out = camber::ops::biased_attention(q, k, v, structured, {.statistics = true}, &report);
  out.output.square().mean().backward();

  std::cout << report.sentence() << "\n"
            << "attention that the bias moved: " << out.statistics->change.mean().item<double>() << "\n"
            << "gradient of the bias:          " << value.grad().abs().mean().item<double>() << "\n"
            << "bytes of the bias:             " << structured.bytes() << " (dense, per head: " << 8 * 900 * 4096 * 4
            << ")\n";
}
