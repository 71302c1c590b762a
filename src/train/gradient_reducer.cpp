#include <camber/train/gradient_reducer.h>

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace camber::train {

// Called when autograd has added the last part of a parameter's gradient.
class GradientReducer::Hook : public torch::autograd::PostAccumulateGradHook {
 public:
  Hook(GradientReducer& reducer, std::size_t bucket) : reducer_(reducer), bucket_(bucket) {}
  void operator()(const torch::Tensor&) override { reducer_.arrived(bucket_); }

 private:
  GradientReducer& reducer_;
  std::size_t bucket_;
};

GradientReducer::GradientReducer(const std::vector<torch::Tensor>& parameters,
                                 std::shared_ptr<distributed::ProcessGroup> group, std::int64_t bucket_bytes)
    : group_(std::move(group)) {
  std::int64_t bytes = 0;
  for (std::size_t i = parameters.size(); i-- > 0;) {
    const torch::Tensor& parameter = parameters[i];
    if (!parameter.requires_grad()) continue;
    const bool fits = !buckets_.empty() && bytes + static_cast<std::int64_t>(parameter.nbytes()) <= bucket_bytes &&
                      parameter.scalar_type() == buckets_.back().parameters.front().scalar_type() &&
                      parameter.device() == buckets_.back().parameters.front().device();
    if (!fits) {
      buckets_.emplace_back();
      bytes = 0;
    }
    buckets_.back().parameters.push_back(parameter);
    bytes += static_cast<std::int64_t>(parameter.nbytes());
  }
  for (std::size_t i = 0; i < buckets_.size(); ++i)
    for (const torch::Tensor& parameter : buckets_[i].parameters)
      torch::autograd::impl::set_post_acc_grad_hooks(parameter, std::make_unique<Hook>(*this, i));
}

GradientReducer::~GradientReducer() {
  for (const Bucket& bucket : buckets_)
    for (const torch::Tensor& parameter : bucket.parameters)
      torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
}

void GradientReducer::begin() {
  for (Bucket& bucket : buckets_) bucket.arrived = 0;
  next_ = 0;
  running_ = true;
}

void GradientReducer::arrived(std::size_t bucket) {
  if (!running_) return;
  ++buckets_[bucket].arrived;
  while (next_ < buckets_.size() && buckets_[next_].arrived == buckets_[next_].parameters.size())
    begin_sum(buckets_[next_++]);
}

void GradientReducer::begin_sum(Bucket& bucket) {
  const torch::NoGradGuard no_grad;
  if (!bucket.flat.defined()) {
    auto numel = static_cast<std::int64_t>(bucket.parameters.size());
    for (const torch::Tensor& parameter : bucket.parameters) numel += parameter.numel();
    bucket.flat = torch::empty({numel}, bucket.parameters.front().options().requires_grad(false));
  }
  std::int64_t at = 0;
  std::vector<float> present;
  for (const torch::Tensor& parameter : bucket.parameters) {
    const torch::Tensor& gradient = parameter.grad();
    const torch::Tensor slice = bucket.flat.narrow(0, at, parameter.numel());
    if (gradient.defined())
      slice.view(parameter.sizes()).copy_(gradient);
    else
      slice.zero_();
    present.push_back(gradient.defined() ? 1 : 0);
    at += parameter.numel();
  }
  bucket.flat.slice(0, at).copy_(torch::tensor(present));
  bucket.sum = group_->begin_sum(bucket.flat);
}

void GradientReducer::finish() {
  while (next_ < buckets_.size()) begin_sum(buckets_[next_++]);
  running_ = false;
  for (Bucket& bucket : buckets_) take_sum(bucket);
}

void GradientReducer::take_sum(Bucket& bucket) {
  const torch::NoGradGuard no_grad;
  bucket.sum->wait();
  bucket.sum.reset();
  const auto count = static_cast<std::int64_t>(bucket.parameters.size());
  const torch::Tensor present = bucket.flat.slice(0, bucket.flat.numel() - count).to(torch::kCPU, torch::kFloat);
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    torch::Tensor& parameter = bucket.parameters[static_cast<std::size_t>(i)];
    if (present.const_data_ptr<float>()[i] > 0) {
      if (!parameter.grad().defined()) parameter.mutable_grad() = torch::empty_like(parameter);
      parameter.mutable_grad().copy_(bucket.flat.narrow(0, at, parameter.numel()).view(parameter.sizes()));
    }
    at += parameter.numel();
  }
}

}  // namespace camber::train
