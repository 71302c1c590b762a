#include "camber/fewshot/norm_pool_relu.h"

#include <cmath>
#include <vector>

#include <ATen/Parallel.h>
#include <torch/autograd.h>

#include "fewshot/norm_pool_loops.h"

namespace camber::fewshot {
namespace {

ImageShape shape_of(const torch::Tensor& maps) {
  return {.height = maps.size(2), .width = maps.size(3), .channels = maps.size(1)};
}

// Sums over images, in their order: [B, C] to [C].
std::vector<double> sum_images(const std::vector<double>& values, std::int64_t channels) {
  std::vector<double> total(static_cast<std::size_t>(channels), 0);
  for (std::size_t i = 0; i < values.size(); ++i) total[i % static_cast<std::size_t>(channels)] += values[i];
  return total;
}

struct Moments {
  torch::Tensor mean, variance;  // float [C], the variance over all numbers
};

Moments batch_moments(const torch::Tensor& maps) {
  const ImageShape shape = shape_of(maps);
  const std::int64_t images = maps.size(0), channels = shape.channels, numbers = shape.pixels() * channels;
  std::vector<double> means(static_cast<std::size_t>(images * channels)), squares = means;
  const auto* data = maps.const_data_ptr<float>();
  at::parallel_for(0, images, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n)
      image_moments(data + n * numbers, shape, means.data() + n * channels, squares.data() + n * channels);
  });
  // Images are of one size: the mean of their means, and the spread within plus the spread between.
  auto mean = sum_images(means, channels), within = sum_images(squares, channels);
  Moments result{torch::empty({channels}), torch::empty({channels})};
  for (std::int64_t c = 0; c < channels; ++c) {
    const auto at = static_cast<std::size_t>(c);
    mean[at] /= static_cast<double>(images);
    double between = 0;
    for (std::int64_t n = 0; n < images; ++n)
      between += std::pow(means[static_cast<std::size_t>(n * channels + c)] - mean[at], 2);
    result.mean.data_ptr<float>()[c] = static_cast<float>(mean[at]);
    result.variance.data_ptr<float>()[c] = static_cast<float>(
        within[at] / static_cast<double>(images * shape.pixels()) + between / static_cast<double>(images));
  }
  return result;
}

class NormPoolRelu : public torch::autograd::Function<NormPoolRelu> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& maps,
                               const torch::Tensor& weight, const torch::Tensor& bias, const torch::Tensor& mean,
                               const torch::Tensor& inverse) {
    const ImageShape shape = shape_of(maps);
    const auto slope = weight * inverse, offset = bias - mean * slope;
    const auto layout = maps.options().memory_format(torch::MemoryFormat::ChannelsLast);
    const std::vector<std::int64_t> sizes{maps.size(0), shape.channels, shape.height / 2, shape.width / 2};
    auto pooled = torch::empty(sizes, layout), which = torch::empty(sizes, layout.dtype(torch::kByte));
    const std::int64_t numbers = shape.pixels() * shape.channels, cells = shape.cells() * shape.channels;
    at::parallel_for(0, maps.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n)
        pool_image(maps.const_data_ptr<float>() + n * numbers, shape, slope.const_data_ptr<float>(),
                   offset.const_data_ptr<float>(), pooled.data_ptr<float>() + n * cells,
                   which.data_ptr<std::uint8_t>() + n * cells);
    });
    context->save_for_backward({maps, weight, mean, inverse, pooled, which});
    return pooled;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list outputs) {
    const auto saved = context->get_saved_variables();
    const auto &maps = saved[0], &weight = saved[1], &mean = saved[2], &inverse = saved[3], &pooled = saved[4],
               &which = saved[5];
    const ImageShape shape = shape_of(maps);
    const std::int64_t images = maps.size(0), channels = shape.channels;
    const std::int64_t numbers = shape.pixels() * channels, cells = shape.cells() * channels;
    const auto gradient = outputs[0].contiguous(torch::MemoryFormat::ChannelsLast);
    const auto *x = maps.const_data_ptr<float>(), *g = gradient.const_data_ptr<float>(),
               *y = pooled.const_data_ptr<float>(), *m = mean.const_data_ptr<float>();
    const auto* index = which.const_data_ptr<std::uint8_t>();
    std::vector<double> sums(static_cast<std::size_t>(images * channels)), products = sums;
    at::parallel_for(0, images, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n)
        gradient_sums(g + n * cells, y + n * cells, index + n * cells, x + n * numbers, shape, m,
                      sums.data() + n * channels, products.data() + n * channels);
    });
    const auto sum = sum_images(sums, channels), product = sum_images(products, channels);
    auto bias_gradient = torch::empty({channels}), weight_gradient = torch::empty({channels});
    std::vector<float> slope(static_cast<std::size_t>(channels)), constant = slope, linear = slope;
    const auto count = static_cast<double>(images * shape.pixels());
    for (std::int64_t c = 0; c < channels; ++c) {
      const auto at = static_cast<std::size_t>(c);
      const double inv = inverse.const_data_ptr<float>()[c], s = inv * weight.const_data_ptr<float>()[c];
      bias_gradient.data_ptr<float>()[c] = static_cast<float>(sum[at]);
      weight_gradient.data_ptr<float>()[c] = static_cast<float>(product[at] * inv);
      slope[at] = static_cast<float>(s);
      constant[at] = static_cast<float>(-s * sum[at] / count);
      linear[at] = static_cast<float>(-s * inv * inv * product[at] / count);
    }
    auto result = torch::empty_like(maps);
    at::parallel_for(0, images, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n)
        spread_gradient(g + n * cells, y + n * cells, index + n * cells, x + n * numbers, shape, m, slope.data(),
                        constant.data(), linear.data(), result.data_ptr<float>() + n * numbers);
    });
    // The norm's mean and deviation are functions of the maps; their gradient is in `result` already.
    return {result, weight_gradient, bias_gradient, torch::Tensor(), torch::Tensor()};
  }
};

void move_running_statistics(torch::nn::BatchNorm2d& norm, const Moments& moments, double count) {
  const torch::NoGradGuard no_grad;
  norm->num_batches_tracked.add_(1);
  const double share =
      norm->options.momentum() ? *norm->options.momentum() : 1 / norm->num_batches_tracked.item<double>();
  norm->running_mean.lerp_(moments.mean, share);
  norm->running_var.lerp_(moments.variance * (count / std::max(count - 1, 1.0)), share);
}

}  // namespace

torch::Tensor norm_pool_relu(const torch::Tensor& maps, torch::nn::BatchNorm2d& norm) {
  const bool fused = norm->is_training() && norm->options.affine() && norm->options.track_running_stats() &&
                     maps.is_cpu() && maps.scalar_type() == torch::kFloat &&
                     norm->weight.scalar_type() == torch::kFloat;
  if (!fused) return torch::relu(torch::max_pool2d(norm(maps), 2));
  const auto plain = maps.contiguous(torch::MemoryFormat::ChannelsLast);
  const Moments moments = batch_moments(plain.detach());
  move_running_statistics(norm, moments, static_cast<double>(plain.numel()) / static_cast<double>(plain.size(1)));
  const auto inverse = (moments.variance + norm->options.eps()).rsqrt();
  return NormPoolRelu::apply(plain, norm->weight, norm->bias, moments.mean, inverse);
}

}  // namespace camber::fewshot
