#include "camber/ops/deferred_check.h"

#include <ATen/TensorOperators.h>

namespace camber::ops {
namespace {

thread_local DeferredCheck* living_check = nullptr;

}  // namespace

DeferredCheck::DeferredCheck() {
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

DeferredCheck* DeferredCheck::current(const c10::Device& device) {
  return device.is_cpu() ? nullptr : living_check;
}

}  // namespace camber::ops
