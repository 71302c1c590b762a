#include "camber/ops/deferred_check.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/maximum.h>

namespace camber::ops {
namespace {

thread_local DeferredCheck* living_check = nullptr;

}  // namespace

DeferredCheck::DeferredCheck(std::int64_t cameras) : cameras_(cameras) {
  TORCH_CHECK_VALUE(living_check == nullptr, "[DeferredCheck] checks must not nest");
  living_check = this;
}

DeferredCheck::~DeferredCheck() {
  living_check = nullptr;
}

void DeferredCheck::add(const at::Tensor& count) {
  const auto whole = count.to(at::kLong);
  failures_ = failures_.defined() ? failures_ + whole : whole;
}

void DeferredCheck::tell_cameras(const at::Tensor& most) {
  const auto whole = most.to(at::kLong);
  most_cameras_ = most_cameras_.defined() ? at::maximum(most_cameras_, whole) : whole;
}

DeferredCheck* DeferredCheck::current(const c10::Device& device) {
  return device.is_cpu() ? nullptr : living_check;
}

}  // namespace camber::ops
