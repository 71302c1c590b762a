#pragma once
#include <array>

#include <ATen/core/Tensor.h>

#include "ops/attention_arguments.h"

/// The sparse part of `corrected`: attention without the windows' bias becomes attention with it
/// (camber/kernels/sparse.h has the formula). On the CPU in float by the kernels, on a device for which somebody
/// registered kernels of `camber::correct_windows` by those, elsewhere in plain tensor operations.
namespace camber::ops {

/// Corrects `output` [B, H, Q, Dv] and `logsumexp` [B, H, Q] in place, both in the compute type and contiguous in their
/// last dimension. `shift` [1|H, nnz] is what z of each entry holds beside its product, or undefined. Returns the total
/// Z of every row; rows whose total is not a finite number above 0 are left as they are.
at::Tensor correct_for_windows(const AttentionArguments& arguments, const at::Tensor& shift, const at::Tensor& output,
                               const at::Tensor& logsumexp);

/// 1 / Z of every row, by the logsumexp of the attention with the bias.
at::Tensor inverse_totals(const AttentionArguments& arguments, const at::Tensor& shift, const at::Tensor& logsumexp);

/// What goes beside the arguments into the backward: the entries' shift, and where to write the slopes of the changed
/// weights, [H, nnz] of the compute type; either may be undefined.
struct EntryTensors {
  at::Tensor shift{}, slopes{};
};

/// Adds to the gradients of q, k and v what the bias of the entries changes, and gives window_value its own; gradients
/// in the compute type, by `Gradient`. A logsumexp of +inf leaves a row out.
void correct_gradients_for_windows(const AttentionArguments& arguments, const EntryTensors& entries,
                                   const BackwardTensors& tensors, const Needs& needs,
                                   std::array<at::Tensor, kGradients>& gradients);

}  // namespace camber::ops
