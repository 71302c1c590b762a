#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include <torch/types.h>

#include "camber/detection/detector_options.h"

namespace camber::detection {

/// The assignment of rows to columns with the least total cost (shortest augmenting paths, O(n^2 m) for n the smaller
/// side). Every row or every column, whichever are fewer, gets a partner. cost is row-major [rows, columns]; entries
/// that are not finite count as dearer than any finite choice. Returns the column of each row, -1 where there is none.
///
///   const auto column = least_cost_assignment(cost, 900, 100);
std::vector<std::int64_t> least_cost_assignment(std::span<const double> cost, std::int64_t rows, std::int64_t columns);

/// What it costs to give query q object g, [Q, G]: class_weight * (pos - neg)[q, label g] + box_weight * sum over the
/// first eight code numbers of weight * |difference|, with p = sigmoid(logit), pos = -ln(p + 1e-12) alpha (1 - p)^gamma
/// and neg = -ln(1 - p + 1e-12) (1 - alpha) p^gamma. logits [Q, C], codes [Q, 10], labels [G], target_codes [G, 10].
torch::Tensor matching_cost(const torch::Tensor& logits, const torch::Tensor& codes, const torch::Tensor& labels,
                            const torch::Tensor& target_codes, const LossOptions& options);

/// The object of each query, int64 [Q], -1 for none.
torch::Tensor match(const torch::Tensor& logits, const torch::Tensor& codes, const torch::Tensor& labels,
                    const torch::Tensor& target_codes, const LossOptions& options);

}  // namespace camber::detection
