#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <camber/distributed/process_group.h>
#include <camber/health/guard.h>

#include <torch/nn/module.h>

namespace camber::train {

/// What a rank has to say before the backward pass of a batch: all of them go backward, or none.
struct BatchReport {
  std::vector<std::pair<std::string, double>> losses{};  ///< terms of its share of the batch
  std::optional<health::BrokenTensor> broken{};
  bool stop = false;  ///< it was asked to stop after this step
};

/// The same on every rank: terms added up in the order of the ranks, a term that some lack included; what broke first,
/// with its rank; whether anybody was asked to stop.
BatchReport agree(const BatchReport& own, distributed::ProcessGroup& group);

/// Throws std::runtime_error when the ranks' parameters do not have the same bits: sums of gradients do, so a processor
/// that calculates otherwise would drift away unseen.
void check_same_parameters(const torch::nn::Module& model, distributed::ProcessGroup& group);

/// Every rank begins with the parameters and buffers of rank 0.
void take_state_of_first(torch::nn::Module& model, distributed::ProcessGroup& group);

}  // namespace camber::train
