#pragma once
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "camber/ops/biased_attention.h"
#include "support/attention_cases.h"

/// One call of biased_attention on a case, and its gradients: what the tests of every implementation and device share.
namespace camber::proof {

ops::AttentionOutput attend(const AttentionTestInputs& inputs, ops::Implementation implementation,
                            bool statistics = false, ops::AttentionReport* report = nullptr);

/// The statistics that are there, with their names.
std::vector<std::pair<std::string, at::Tensor>> named_statistics(const ops::AttentionOutput& output);
/// Whether all of them are `close`, on whatever device; with a tolerance of 0 they have the same bits.
::testing::AssertionResult close_statistics(const ops::AttentionOutput& actual, const ops::AttentionOutput& expected,
                                            double tolerance);

/// A fixed random weighting of the outputs, so that every element counts; a dead row's logsumexp is left out.
at::Tensor loss_of(const ops::AttentionOutput& output);

/// The gradients of that loss for inputs.differentiable(), the mask aside where `of_mask` is false.
std::vector<at::Tensor> gradients_of(const AttentionTestInputs& inputs, ops::Implementation implementation,
                                     bool of_mask = true);

}  // namespace camber::proof
