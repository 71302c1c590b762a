#include "detection/norm_relu.h"

#include <cmath>
#include <vector>

#include <ATen/Parallel.h>
#include <torch/autograd.h>

#include "camber/kernels/norm_relu.h"

namespace camber::detection {
namespace {

using kernels::kNormRows;
using kernels::NormPart;

std::int64_t rows_of(const torch::Tensor& maps) {
  return maps.size(0) * maps.size(2) * maps.size(3);
}

// Calls action(part, its first number, its number among the parts) for all rows, on all threads.
template <class Action>
void for_parts(const torch::Tensor& maps, const Action& action) {
  const std::int64_t rows = rows_of(maps), channels = maps.size(1);
  const auto* data = maps.const_data_ptr<float>();
  constexpr std::int64_t kPartsAThread = 4;  // some ten microseconds
  at::parallel_for(0, (rows + kNormRows - 1) / kNormRows, kPartsAThread, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i * kNormRows;
      action(NormPart{data + first * channels, std::min(kNormRows, rows - first), channels}, first * channels, i);
    }
  });
}

// The sums [2 * channels] of all parts, in their order.
template <class Action>
std::vector<double> sums_of(const torch::Tensor& maps, const Action& action) {
  const auto width = static_cast<std::size_t>(2 * maps.size(1));
  const auto parts = static_cast<std::size_t>((rows_of(maps) + kNormRows - 1) / kNormRows);
  std::vector<double> all(parts * width), total(width, 0);
  for_parts(maps, [&](const NormPart& part, std::int64_t first, std::int64_t i) {
    action(part, first, all.data() + static_cast<std::size_t>(i) * width);
  });
  for (std::size_t i = 0; i < all.size(); ++i) total[i % width] += all[i];
  return total;
}

struct Moments {
  torch::Tensor mean, variance;  // float [C], the variance over all numbers
};

// Distances are taken from the first row: the squares of numbers far from 0 would have no variance left.
Moments moments_of(const torch::Tensor& maps, kernels::Isa isa) {
  const std::int64_t channels = maps.size(1);
  const auto count = static_cast<double>(rows_of(maps));
  const auto* reference = maps.const_data_ptr<float>();
  const auto sums = sums_of(
      maps, [&](const NormPart& part, std::int64_t, double* out) { kernels::norm_moments(part, reference, out, isa); });
  Moments moments{torch::empty({channels}), torch::empty({channels})};
  for (std::int64_t c = 0; c < channels; ++c) {
    const double apart = sums[static_cast<std::size_t>(c)] / count;
    const double square = sums[static_cast<std::size_t>(channels + c)] / count - apart * apart;
    moments.mean.data_ptr<float>()[c] = static_cast<float>(static_cast<double>(reference[c]) + apart);
    moments.variance.data_ptr<float>()[c] = static_cast<float>(square < 0 ? 0 : square);  // a NaN stays
  }
  return moments;
}

class NormRelu : public torch::autograd::Function<NormRelu> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& maps,
                               const torch::Tensor& weight, const torch::Tensor& bias, const torch::Tensor& mean,
                               const torch::Tensor& inverse) {
    const auto isa = kernels::chosen_isa();
    const auto slope = weight * inverse, offset = bias - mean * slope;
    const kernels::NormLine line{slope.const_data_ptr<float>(), offset.const_data_ptr<float>()};
    auto result = torch::empty_like(maps);
    auto* out = result.data_ptr<float>();
    for_parts(maps, [&](const NormPart& part, std::int64_t first, std::int64_t) {
      kernels::norm_relu(part, line, out + first, isa);
    });
    context->save_for_backward({maps, slope, offset, mean, inverse});
    return result;
  }

  // With s = weight * inverse and n rows: dx = s * (g - sum(g) / n - (x - mean) * inverse^2 * sum(g (x - mean)) / n).
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list outputs) {
    const auto saved = context->get_saved_variables();
    const auto &maps = saved[0], &slope = saved[1], &offset = saved[2], &mean = saved[3], &inverse = saved[4];
    const auto isa = kernels::chosen_isa();
    const auto gradient = outputs[0].contiguous(torch::MemoryFormat::ChannelsLast);
    const auto *g = gradient.const_data_ptr<float>(), *m = mean.const_data_ptr<float>();
    const kernels::NormLine line{slope.const_data_ptr<float>(), offset.const_data_ptr<float>()};
    const auto sums = sums_of(maps, [&](const NormPart& part, std::int64_t first, double* out) {
      kernels::norm_relu_sums(part, line, g + first, m, out, isa);
    });
    const std::int64_t channels = maps.size(1);
    auto weight_gradient = torch::empty({channels}), bias_gradient = torch::empty({channels});
    std::vector<float> constant(static_cast<std::size_t>(channels)), linear = constant;
    const auto count = static_cast<double>(rows_of(maps));
    for (std::int64_t c = 0; c < channels; ++c) {
      const auto at = static_cast<std::size_t>(c);
      const double sum = sums[at], product = sums[static_cast<std::size_t>(channels + c)];
      const double inv = inverse.const_data_ptr<float>()[c], s = line.slope[c];
      bias_gradient.data_ptr<float>()[c] = static_cast<float>(sum);
      weight_gradient.data_ptr<float>()[c] = static_cast<float>(product * inv);
      constant[at] = static_cast<float>(-s * sum / count);
      linear[at] = static_cast<float>(-s * inv * inv * product / count);
    }
    auto result = torch::empty_like(maps);
    auto* out = result.data_ptr<float>();
    const kernels::NormSpread spread{m, constant.data(), linear.data()};
    for_parts(maps, [&](const NormPart& part, std::int64_t first, std::int64_t) {
      kernels::norm_relu_gradient(part, line, g + first, spread, out + first, isa);
    });
    // Mean and deviation are functions of the maps; their gradient is in `result` already.
    return {result, weight_gradient, bias_gradient, torch::Tensor(), torch::Tensor()};
  }
};

bool suits(const torch::Tensor& maps, const nn::BatchNorm2dImpl& norm) {
  return norm.is_training() && !norm.shares_statistics() && norm.options.affine() &&
         norm.options.track_running_stats() && norm.options.momentum() && maps.is_cpu() &&
         maps.scalar_type() == torch::kFloat && norm.weight.scalar_type() == torch::kFloat && maps.dim() == 4 &&
         rows_of(maps) > 1 && maps.is_contiguous(torch::MemoryFormat::ChannelsLast);
}

void move_running_statistics(nn::BatchNorm2dImpl& norm, const Moments& moments, double count) {
  const torch::NoGradGuard no_grad;
  norm.num_batches_tracked.add_(1);
  norm.running_mean.lerp_(moments.mean, *norm.options.momentum());
  norm.running_var.lerp_(moments.variance * (count / (count - 1)), *norm.options.momentum());
}

}  // namespace

torch::Tensor norm_relu(const torch::Tensor& maps, nn::BatchNorm2dImpl& norm) {
  if (!suits(maps, norm)) return norm.forward(maps).relu_();
  const Moments moments = moments_of(maps.detach(), kernels::chosen_isa());
  move_running_statistics(norm, moments, static_cast<double>(rows_of(maps)));
  return NormRelu::apply(maps, norm.weight, norm.bias, moments.mean, (moments.variance + norm.options.eps()).rsqrt());
}

}  // namespace camber::detection
