#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace camber::distributed {

/// A sum over the ranks that goes on beside the caller. Its tensor must be left alone until wait() has returned.
class PendingSum {
 public:
  virtual ~PendingSum() = default;
  virtual void wait() = 0;
};

/// Processes that work on one thing. All of them call the same members in the same order; every member but begin_sum
/// waits for the others.
///
///   const auto group = distributed::world();
///   group->sum(counts);                                         // tensors, the same bits on every rank
///   for (const std::string& sent : group->exchange(mine)) ...   // bytes, by rank
///
/// begin_sum has an order of its own: sums that were begun and the other members may meet in any order. A process that
/// is gone is a std::runtime_error in the others.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;

  virtual std::int64_t rank() const = 0;
  virtual std::int64_t size() const = 0;
  bool is_alone() const { return size() == 1; }
  bool is_first() const { return rank() == 0; }

  /// Begins to replace the values of a dense tensor by their sum over the ranks, in a fixed order.
  virtual std::unique_ptr<PendingSum> begin_sum(const at::Tensor& tensor) = 0;
  /// The same, done when it returns.
  virtual void sum(const at::Tensor& tensor) = 0;
  /// What every rank sent, by rank.
  virtual std::vector<std::string> exchange(const std::string& own) = 0;
  /// What every rank sent, by rank, for rank 0; nothing for the others.
  virtual std::vector<std::string> gather(const std::string& own) = 0;

  /// The tensor of rank 0, for all.
  virtual void broadcast(const at::Tensor& tensor) = 0;
  /// What rank 0 sent.
  std::string from_first(const std::string& own) { return exchange(is_first() ? own : std::string()).front(); }
  /// Numbers added up in the order of the ranks. As many on every rank, or std::logic_error.
  std::vector<double> sum(const std::vector<double>& own);
  /// The largest of each.
  std::vector<double> largest(const std::vector<double>& own);

  /// Seconds that this process has waited for the others so far.
  double seconds_waited() const { return std::chrono::duration<double>(waited_).count(); }

 protected:
  std::chrono::steady_clock::duration waited_{};
};

/// A process on its own: every sum is what it was.
std::shared_ptr<ProcessGroup> alone();

/// Ranks that torch.distributed has brought together, by the names of two of its groups over the same processes: one
/// for begin_sum, one for the rest.
std::shared_ptr<ProcessGroup> c10d_group(const std::string& sums, const std::string& values);

/// The processes that this program was started among: this one alone, unless set_world said otherwise.
std::shared_ptr<ProcessGroup> world();
void set_world(std::shared_ptr<ProcessGroup> group);

}  // namespace camber::distributed
