#include "camber/nn/batch_norm.h"

#include <array>

#include <torch/autograd.h>

namespace camber::nn {
namespace {

// Of all elements of all ranks, in double: a sum of squares in single precision has no variance left for a channel
// whose mean is large.
struct Moments {
  double count = 0;
  torch::Tensor mean, variance;  // double [C]
};

Moments moments_of(const torch::Tensor& input, distributed::ProcessGroup& group) {
  const std::int64_t channels = input.size(1);
  const double own = static_cast<double>(input.numel()) / static_cast<double>(channels);
  torch::Tensor sums = torch::zeros({2 * channels + 1}, input.options().dtype(torch::kDouble));
  if (own > 0) {
    const auto [mean, variance] = at::batch_norm_update_stats(input, {}, {}, 0);
    const auto exact = mean.to(torch::kDouble);
    sums.narrow(0, 0, channels).copy_(exact * own);
    sums.narrow(0, channels, channels).copy_((variance.to(torch::kDouble) + exact.square()) * own);
    sums[2 * channels] = own;
  }
  group.sum(sums);
  Moments moments{.count = sums[2 * channels].item<double>(), .mean = {}, .variance = {}};
  if (moments.count < 2) return moments;
  moments.mean = sums.narrow(0, 0, channels) / moments.count;
  moments.variance = (sums.narrow(0, channels, channels) / moments.count - moments.mean.square()).clamp_min(0);
  return moments;
}

// With statistics that are given: torch's batch norm in evaluation.
torch::Tensor normalised(const torch::Tensor& input, const torch::Tensor& weight, const torch::Tensor& bias,
                         const torch::Tensor& mean, const torch::Tensor& variance, double epsilon) {
  return torch::batch_norm(input, weight, bias, mean, variance, /*training=*/false, 0, epsilon,
                           /*cudnn_enabled=*/false);
}

// [C] as [1, C, 1, ...].
torch::Tensor by_channel(const torch::Tensor& values, const torch::Tensor& like) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(like.dim()), 1);
  sizes[1] = values.size(0);
  return values.to(like.scalar_type()).view(sizes);
}

// A group among the things that a graph keeps for its backward pass.
struct KeptGroup : torch::CustomClassHolder {
  explicit KeptGroup(std::shared_ptr<distributed::ProcessGroup> kept) : group(std::move(kept)) {}
  std::shared_ptr<distributed::ProcessGroup> group;
};

class SynchronizedNorm : public torch::autograd::Function<SynchronizedNorm> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& input,
                               const torch::Tensor& weight, const torch::Tensor& bias, const torch::Tensor& mean,
                               const torch::Tensor& variance, double epsilon, double count,
                               const std::shared_ptr<distributed::ProcessGroup>& group) {
    context->save_for_backward({input, weight, mean, variance});
    context->saved_data["epsilon"] = epsilon;
    context->saved_data["count"] = count;
    context->saved_data["group"] = c10::IValue::make_capsule(c10::make_intrusive<KeptGroup>(group));
    if (input.numel() == 0) return torch::empty_like(input);
    return normalised(input, weight, bias, mean, variance, epsilon);
  }

  // With n elements in all, h = (x - m) / s and s = sqrt(v + eps):
  //   dx = weight / s * (dy - sum(dy) / n - h sum(dy h) / n), the sums over all ranks.
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto &input = saved[0], &weight = saved[1], &mean = saved[2], &variance = saved[3];
    const double epsilon = context->saved_data["epsilon"].toDouble(), count = context->saved_data["count"].toDouble();
    const auto group = c10::static_intrusive_pointer_cast<KeptGroup>(context->saved_data["group"].toCapsule())->group;
    const auto gradient = gradients[0].contiguous(input.suggest_memory_format());
    torch::Tensor d_weight = torch::zeros_like(weight), d_bias = torch::zeros_like(weight), d_input;
    if (input.numel() > 0)
      std::tie(std::ignore, d_weight, d_bias) = at::native_batch_norm_backward(
          gradient, input, weight, mean, variance, {}, {}, /*train=*/false, epsilon, {false, true, true});
    const auto sums = torch::cat({d_weight, d_bias}).to(torch::kDouble);
    group->sum(sums);
    if (input.numel() == 0) return {torch::zeros_like(input), d_weight, d_bias, {}, {}, {}, {}, {}};
    const std::int64_t channels = weight.size(0);
    const auto inverse = (variance.to(torch::kDouble) + epsilon).rsqrt();
    const auto slope = weight.to(torch::kDouble) * inverse;
    const auto with_input = slope * inverse * sums.narrow(0, 0, channels) / count;
    const auto constant = with_input * mean.to(torch::kDouble) - slope * sums.narrow(0, channels, channels) / count;
    d_input = gradient * by_channel(slope, input);
    d_input.addcmul_(input, by_channel(with_input, input), -1).add_(by_channel(constant, input));
    return {d_input, d_weight, d_bias, {}, {}, {}, {}, {}};
  }
};

}  // namespace

torch::Tensor synchronized_batch_norm(const torch::Tensor& input, const BatchNormState& state,
                                      const std::shared_ptr<distributed::ProcessGroup>& group) {
  TORCH_CHECK_VALUE(input.dim() >= 2 && input.size(1) == state.weight.size(0), "[BatchNorm] input must be [B, ",
                    state.weight.size(0), ", ...], got ", input.sizes());
  Moments moments;
  {
    const torch::NoGradGuard no_grad;
    moments = moments_of(input.detach(), *group);
    if (moments.count >= 2) {
      state.batches.add_(1);
      const auto move = [&](const torch::Tensor& running, const torch::Tensor& now) {
        running.mul_(1 - state.momentum).add_(now.to(running.scalar_type()), state.momentum);
      };
      move(state.running_mean, moments.mean);
      move(state.running_var, moments.variance * (moments.count / (moments.count - 1)));
    }
  }
  if (moments.count < 2)
    return input.numel() == 0
               ? input
               : normalised(input, state.weight, state.bias, state.running_mean, state.running_var, state.epsilon);
  const auto type = state.weight.scalar_type();
  return SynchronizedNorm::apply(input, state.weight, state.bias, moments.mean.to(type), moments.variance.to(type),
                                 state.epsilon, moments.count, group);
}

void share_statistics(torch::nn::Module& model, const std::shared_ptr<distributed::ProcessGroup>& group) {
  for (const auto& module : model.modules())
    if (auto* norm = dynamic_cast<SharedStatistics*>(module.get())) norm->share_statistics(group);
}

}  // namespace camber::nn
