#pragma once
#include <cstdint>

#include <ATen/core/Tensor.h>

#pragma GCC visibility push(default)  // libcamber_ops.so hides everything else
namespace camber::ops {

/// While one lives, operators of this thread on another device than the CPU do not wait for the device to learn whether
/// the fast way holds for what it computed (`corrected`: no row has to be recomputed; windows: no query lies in more
/// cameras than there is room for). They take it and count on the device where it does not hold. Whoever keeps the
/// check reads the count together with something that is waited for anyway, and where it is not 0 throws the results
/// away and computes again without it. So no result is ever inexact, and the host waits for nothing in between.
///
///   at::Tensor loss, failures;
///   {
///     DeferredCheck check;
///     loss = model(batch);
///     failures = check.failures();
///   }
///   if (failures.defined() && failures.item<int64_t>() > 0) loss = model(batch);
///
/// Backward of what was computed under a check trusts that its count was 0. The CPU is never waited for: a check has no
/// effect there. Checks do not nest. What there is room for changes how much memory and time the assumption costs, but
/// no bit of a result: whoever sees a check fail may give the next one the room that was missing.
class DeferredCheck {
 public:
  static constexpr std::int64_t kUsualCameras = 2;
  /// Room for queries that lie in so many cameras.
  explicit DeferredCheck(std::int64_t cameras = kUsualCameras);
  ~DeferredCheck();
  DeferredCheck(const DeferredCheck&) = delete;
  DeferredCheck& operator=(const DeferredCheck&) = delete;

  /// int64 [] on the device; undefined where nothing was assumed.
  const at::Tensor& failures() const { return failures_; }
  /// Adds what an operator counted, a whole number on its device.
  void add(const at::Tensor& count);

  std::int64_t cameras() const { return cameras_; }
  /// int64 [] on the device: the most cameras that a query lay in; undefined where nobody had to know.
  const at::Tensor& most_cameras() const { return most_cameras_; }
  /// Tells in how many cameras a query lies, at most.
  void tell_cameras(const at::Tensor& most);
  /// The check that lives on this thread and holds for tensors of this device, or nullptr.
  static DeferredCheck* current(const c10::Device& device);

 private:
  std::int64_t cameras_;
  at::Tensor failures_, most_cameras_;
};

}  // namespace camber::ops
#pragma GCC visibility pop
