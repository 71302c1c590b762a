#pragma once
#include <memory>

#include <torch/nn/modules/batchnorm.h>

#include "camber/distributed/process_group.h"

namespace camber::nn {

/// Batch statistics over the shares that several ranks hold of one batch. Every rank has to go through the module, one
/// with nothing in its share with an empty input, and backward through it.
///
///   y = (x - m) / sqrt(v + eps) * weight + bias,  m and v over all elements of all ranks
///
/// The gradients of weight and bias are those of the rank's own share. Fewer than two elements in all have no variance
/// and are measured by the running statistics. Not differentiable twice.
struct BatchNormState {
  torch::Tensor weight{}, bias{};                          // [C]
  torch::Tensor running_mean{}, running_var{}, batches{};  // [C], [C], []: moved by the call
  double momentum = 0.1, epsilon = 1e-5;
};
torch::Tensor synchronized_batch_norm(const torch::Tensor& input, const BatchNormState& state,
                                      const std::shared_ptr<distributed::ProcessGroup>& group);

/// What both batch norms below add to torch's.
class SharedStatistics {
 public:
  virtual ~SharedStatistics() = default;

  /// From now on statistics are those of all ranks while training; a group of one: torch's own batch norm.
  void share_statistics(const std::shared_ptr<distributed::ProcessGroup>& group) {
    group_ = group && !group->is_alone() ? group : nullptr;
  }
  bool shares_statistics() const { return group_ != nullptr; }

 protected:
  std::shared_ptr<distributed::ProcessGroup> group_;
};

/// torch's BatchNorm1d and BatchNorm2d, to the bit, whose statistics can be those of several ranks.
template <class Norm>
class SharedBatchNorm : public Norm, public SharedStatistics {
 public:
  using Norm::Norm;

  torch::Tensor forward(const torch::Tensor& input) {
    if (!shares_statistics() || !this->is_training()) return Norm::forward(input);
    return synchronized_batch_norm(input,
                                   {.weight = this->weight,
                                    .bias = this->bias,
                                    .running_mean = this->running_mean,
                                    .running_var = this->running_var,
                                    .batches = this->num_batches_tracked,
                                    .momentum = *this->options.momentum(),
                                    .epsilon = this->options.eps()},
                                   group_);
  }
};

class BatchNorm1dImpl : public SharedBatchNorm<torch::nn::BatchNorm1dImpl> {
 public:
  using SharedBatchNorm::SharedBatchNorm;
};
TORCH_MODULE(BatchNorm1d);

class BatchNorm2dImpl : public SharedBatchNorm<torch::nn::BatchNorm2dImpl> {
 public:
  using SharedBatchNorm::SharedBatchNorm;
};
TORCH_MODULE(BatchNorm2d);

/// Every batch norm of the model that is one of these.
void share_statistics(torch::nn::Module& model, const std::shared_ptr<distributed::ProcessGroup>& group);

}  // namespace camber::nn
