#pragma once
#include <cstdint>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "camber/random/stream.h"

namespace camber::detection {

void fill_uniform(const torch::Tensor& tensor, random::Stream stream, double low, double high);
/// A matrix with orthonormal rows (columns where it is tall), times gain.
void fill_orthogonal(const torch::Tensor& matrix, random::Stream stream, double gain);

/// Gives every matrix and kernel of a model its start, each a function of (seed, its name) alone: kernels of
/// convolutions uniform within 1 / sqrt(fan in), matrices Xavier uniform, biases of both 0. Norms keep 1 and 0, and a
/// router's last layer its zeros.
void initialise_by_name(torch::nn::Module& model, std::uint64_t seed);

}  // namespace camber::detection
