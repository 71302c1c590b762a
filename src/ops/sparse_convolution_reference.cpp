#include "ops/sparse_convolution_reference.h"

#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

namespace camber::ops {
namespace {

// visit(tap, from, to) for the pairs of blocks first .. end, tap by tap.
template <class Visit>
void for_pairs(const PairTensors& pairs, std::int64_t first, std::int64_t end, const Visit& visit) {
  const auto* from = pairs.from.const_data_ptr<std::int32_t>();
  const auto* to = pairs.to.const_data_ptr<std::int32_t>();
  const auto* offsets = pairs.offsets.const_data_ptr<std::int64_t>();
  for (std::int64_t tap = 0; tap < pairs.offsets.size(0); ++tap) {
    const std::int64_t* of_tap = offsets + tap * pairs.offsets.size(1);
    for (std::int64_t pair = of_tap[first]; pair < of_tap[end]; ++pair) visit(tap, from[pair], to[pair]);
  }
}

}  // namespace

at::Tensor sparse_convolution_reference(const ConvolutionInputs& in) {
  const std::int64_t taps = in.forward.offsets.size(0), wide_in = in.features.size(1), wide_out = in.weight.size(0);
  auto output = at::zeros({in.outputs, wide_out}, in.features.options());
  const auto *x = in.features.const_data_ptr<double>(), *w = in.weight.const_data_ptr<double>();
  auto* y = output.data_ptr<double>();
  at::parallel_for(0, in.forward.offsets.size(1) - 1, 1, [&](std::int64_t first, std::int64_t end) {
    for_pairs(in.forward, first, end, [&](std::int64_t tap, std::int64_t from, std::int64_t to) {
      for (std::int64_t o = 0; o < wide_out; ++o) {
        double sum = 0;
        for (std::int64_t i = 0; i < wide_in; ++i) sum += w[(o * taps + tap) * wide_in + i] * x[from * wide_in + i];
        y[to * wide_out + o] += sum;
      }
    });
  });
  return output;
}

at::Tensor sparse_convolution_reference_features(const ConvolutionInputs& in, const at::Tensor& grad) {
  const std::int64_t taps = in.back.offsets.size(0), wide_in = in.features.size(1), wide_out = in.weight.size(0);
  auto result = at::zeros_like(in.features);
  const auto *g = grad.const_data_ptr<double>(), *w = in.weight.const_data_ptr<double>();
  auto* dx = result.data_ptr<double>();
  at::parallel_for(0, in.back.offsets.size(1) - 1, 1, [&](std::int64_t first, std::int64_t end) {
    for_pairs(in.back, first, end, [&](std::int64_t tap, std::int64_t from, std::int64_t to) {
      for (std::int64_t o = 0; o < wide_out; ++o)
        for (std::int64_t i = 0; i < wide_in; ++i)
          dx[to * wide_in + i] += w[(o * taps + tap) * wide_in + i] * g[from * wide_out + o];
    });
  });
  return result;
}

at::Tensor sparse_convolution_reference_weight(const ConvolutionInputs& in, const at::Tensor& grad) {
  const std::int64_t taps = in.forward.offsets.size(0), wide_in = in.features.size(1), wide_out = in.weight.size(0);
  auto result = at::zeros_like(in.weight);
  const auto *g = grad.const_data_ptr<double>(), *x = in.features.const_data_ptr<double>();
  auto* dw = result.data_ptr<double>();
  const std::int64_t blocks = in.forward.offsets.size(1) - 1;
  // Every output channel has one owner.
  at::parallel_for(0, wide_out, 1, [&](std::int64_t first, std::int64_t end) {
    for_pairs(in.forward, 0, blocks, [&](std::int64_t tap, std::int64_t from, std::int64_t to) {
      for (std::int64_t o = first; o < end; ++o)
        for (std::int64_t i = 0; i < wide_in; ++i)
          dw[(o * taps + tap) * wide_in + i] += g[to * wide_out + o] * x[from * wide_in + i];
    });
  });
  return result;
}

}  // namespace camber::ops
