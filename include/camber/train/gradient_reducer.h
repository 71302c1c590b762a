#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include <camber/distributed/process_group.h>

#include <torch/types.h>

namespace camber::train {

/// Adds up the gradients of all ranks, while backward goes on. Parameters stand in buckets of a fixed order, the last
/// parameters first, since backward reaches them first; the sum of a bucket begins when its gradients and those of the
/// buckets before it are there. So the bits of a sum depend on the number of ranks alone.
///
///   GradientReducer reducer(model.parameters(), group);
///   reducer.begin();
///   loss.backward();
///   reducer.finish();
///
/// A parameter that no rank has a gradient of stays without one.
class GradientReducer {
 public:
  static constexpr std::int64_t kBucketBytes = 4 << 20;

  GradientReducer(const std::vector<torch::Tensor>& parameters, std::shared_ptr<distributed::ProcessGroup> group,
                  std::int64_t bucket_bytes = kBucketBytes);
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  /// The next backward pass is the last one of its step.
  void begin();
  /// Waits until every gradient is the sum over the ranks.
  void finish();

  std::int64_t num_buckets() const { return static_cast<std::int64_t>(buckets_.size()); }

 private:
  class Hook;
  struct Bucket {
    std::vector<torch::Tensor> parameters{};
    torch::Tensor flat{};  // the gradients, then a 1 for every parameter that has one
    std::size_t arrived = 0;
    std::unique_ptr<distributed::PendingSum> sum{};
  };

  void arrived(std::size_t bucket);
  void begin_sum(Bucket& bucket);
  static void take_sum(Bucket& bucket);

  std::shared_ptr<distributed::ProcessGroup> group_;
  std::vector<Bucket> buckets_;
  std::size_t next_ = 0;  // first bucket whose sum has not begun
  bool running_ = false;
};

}  // namespace camber::train
