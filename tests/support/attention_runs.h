#pragma once
#include <vector>

#include <ATen/ATen.h>

#include "camber/ops/biased_attention.h"
#include "support/attention_cases.h"

/// One call of biased_attention on a case, and its gradients: what the tests of every implementation and device share.
namespace camber::proof {

ops::AttentionOutput attend(const AttentionTestInputs& inputs, ops::Implementation implementation,
                            bool statistics = false, ops::AttentionReport* report = nullptr);

/// A fixed random weighting of the outputs, so that every element counts; a dead row's logsumexp is left out.
at::Tensor loss_of(const ops::AttentionOutput& output);

/// The gradients of that loss for inputs.differentiable(), the mask aside where `of_mask` is false.
std::vector<at::Tensor> gradients_of(const AttentionTestInputs& inputs, ops::Implementation implementation,
                                     bool of_mask = true);

}  // namespace camber::proof
