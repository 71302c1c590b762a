#include "camber/ops/windows.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "camber/geometry/key_layout.h"
#include "ops/attention_arguments.h"

namespace camber::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using WindowTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

geometry::KeyLayout layout_of(const at::Tensor& map_shape) {
  geometry::KeyLayout layout;
  const auto shape = map_shape.cpu().contiguous();
  const auto* data = shape.const_data_ptr<std::int64_t>();
  std::int64_t next = 0;
  for (std::int64_t m = 0; m < map_shape.size(0); ++m) {
    TORCH_CHECK_VALUE(data[2 * m] >= 1 && data[2 * m + 1] >= 1,
                      "[build_windows] map_shape must hold sizes of at least 1, got ", data[2 * m], " x ",
                      data[2 * m + 1]);
    layout.maps.push_back({.columns = data[2 * m], .rows = data[2 * m + 1], .first_key = next});
    next += layout.maps.back().keys();
  }
  return layout;
}

void check_windows(const at::Tensor& center, const at::Tensor& size, const at::Tensor& map_shape) {
  TORCH_CHECK_VALUE(map_shape.dim() == 2 && map_shape.size(1) == 2 && map_shape.scalar_type() == at::kLong,
                    "[build_windows] map_shape must be int64 [M, 2], got ", describe(map_shape));
  TORCH_CHECK_VALUE(center.dim() == 4 && center.size(2) == map_shape.size(0) && center.size(3) == 2 &&
                        center.scalar_type() == at::kLong,
                    "[build_windows] center must be int64 [B, Q, M, 2] with M = ", map_shape.size(0), ", got ",
                    describe(center));
  TORCH_CHECK_VALUE(size.scalar_type() == at::kInt && size.sizes() == center.sizes().slice(0, 3),
                    "[build_windows] size must be int32 [B, Q, M] = ", center.sizes().slice(0, 3), ", got ",
                    describe(size));
}

WindowTensors build_windows_cpu(const at::Tensor& center_in, const at::Tensor& size_in, const at::Tensor& map_shape) {
  check_windows(center_in, size_in, map_shape);
  const auto center = center_in.contiguous(), size = size_in.contiguous();
  const auto* sizes = size.const_data_ptr<std::int32_t>();
  for (std::int64_t i = 0; i < size.numel(); ++i)
    TORCH_CHECK_VALUE(sizes[i] >= 1 && sizes[i] % 2 == 1, "[build_windows] size must be odd and at least 1, got ",
                      sizes[i]);
  const auto layout = layout_of(map_shape);
  static_assert(sizeof(geometry::Cell) == 2 * sizeof(std::int64_t), "a cell is a pair of int64 in a tensor");
  const geometry::WindowRows windows{
      .layout = layout,
      .queries = center.size(0) * center.size(1),
      .center = reinterpret_cast<const geometry::Cell*>(center.const_data_ptr<std::int64_t>()),
      .size = sizes};
  const auto options = center.options();
  auto row_offsets = at::empty({windows.queries + 1}, options);
  const std::int64_t entries = windows.count(row_offsets.data_ptr<std::int64_t>());
  auto key_index = at::empty({entries}, options.dtype(at::kInt)), map_index = at::empty_like(key_index),
       squared_distance = at::empty_like(key_index);
  windows.fill(row_offsets.const_data_ptr<std::int64_t>(), key_index.data_ptr<std::int32_t>(),
               map_index.data_ptr<std::int32_t>(), squared_distance.data_ptr<std::int32_t>());
  return {row_offsets, key_index, map_index, squared_distance};
}

void check_values(const at::Tensor& strength, const at::Tensor& profile, const at::Tensor& row_offsets,
                  const at::Tensor& map_index) {
  TORCH_CHECK_VALUE(strength.dim() == 3 && strength.sym_size(1) == row_offsets.sym_size(0) - 1 &&
                        (strength.scalar_type() == at::kFloat || strength.scalar_type() == at::kDouble),
                    "[window_values] strength must be float or double [Hb, B*Q, M] with B*Q = ",
                    row_offsets.sym_size(0) - 1, ", got ", describe(strength));
  TORCH_CHECK_VALUE(profile.dim() == 1 && profile.scalar_type() == strength.scalar_type() &&
                        profile.sym_size(0) == map_index.sym_size(0),
                    "[window_values] profile must be [nnz] = [", map_index.sym_size(0),
                    "] with the dtype of strength, got ", describe(profile));
  TORCH_CHECK_VALUE(map_index.scalar_type() == at::kInt && row_offsets.scalar_type() == at::kLong,
                    "[window_values] map_index must be int32 and row_offsets int64, got ", describe(map_index), " and ",
                    describe(row_offsets));
}

at::Tensor window_values_cpu(const at::Tensor& strength_in, const at::Tensor& profile_in,
                             const at::Tensor& row_offsets_in, const at::Tensor& map_index_in) {
  check_values(strength_in, profile_in, row_offsets_in, map_index_in);
  const auto strength = strength_in.contiguous(), profile = profile_in.contiguous();
  const auto row_offsets = row_offsets_in.contiguous(), map_index = map_index_in.contiguous();
  const std::int64_t heads = strength.size(0), rows = strength.size(1), maps = strength.size(2),
                     entries = profile.size(0);
  const auto* offsets = row_offsets.const_data_ptr<std::int64_t>();
  const auto* map = map_index.const_data_ptr<std::int32_t>();
  TORCH_CHECK_VALUE(offsets[rows] == entries, "[window_values] row_offsets must end at nnz = ", entries, ", got ",
                    offsets[rows]);
  for (std::int64_t e = 0; e < entries; ++e)
    TORCH_CHECK_VALUE(map[e] >= 0 && map[e] < maps, "[window_values] map_index must lie in 0 .. M-1 = ", maps - 1,
                      ", got ", map[e]);
  auto value = at::empty({heads, entries}, strength.options());
  AT_DISPATCH_FLOATING_TYPES(strength.scalar_type(), "window_values", [&] {
    const auto* s = strength.const_data_ptr<scalar_t>();
    const auto* g = profile.const_data_ptr<scalar_t>();
    auto* out = value.data_ptr<scalar_t>();
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t e = offsets[row]; e < offsets[row + 1]; ++e)
          out[h * entries + e] = g[e] * s[(h * rows + row) * maps + map[e]];
  });
  return value;
}

at::Tensor window_values_backward_cpu(const at::Tensor& grad_in, const at::Tensor& profile_in,
                                      const at::Tensor& row_offsets_in, const at::Tensor& map_index_in,
                                      std::int64_t maps) {
  const auto grad = grad_in.contiguous(), profile = profile_in.contiguous();
  const auto row_offsets = row_offsets_in.contiguous(), map_index = map_index_in.contiguous();
  const std::int64_t heads = grad.size(0), rows = row_offsets.size(0) - 1, entries = profile.size(0);
  const auto* offsets = row_offsets.const_data_ptr<std::int64_t>();
  const auto* map = map_index.const_data_ptr<std::int32_t>();
  auto result = at::empty({heads, rows, maps}, grad.options());
  AT_DISPATCH_FLOATING_TYPES(grad.scalar_type(), "window_values_backward", [&] {
    const auto* g = profile.const_data_ptr<scalar_t>();
    const auto* d = grad.const_data_ptr<scalar_t>();
    auto* out = result.data_ptr<scalar_t>();
    at::parallel_for(0, heads * rows, 256, [&](std::int64_t begin, std::int64_t end) {
      std::vector<double> sums(static_cast<std::size_t>(maps));
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t h = i / rows, row = i % rows;
        std::fill(sums.begin(), sums.end(), 0.0);
        for (std::int64_t e = offsets[row]; e < offsets[row + 1]; ++e)
          sums[static_cast<std::size_t>(map[e])] += static_cast<double>(g[e]) * static_cast<double>(d[h * entries + e]);
        for (std::int64_t m = 0; m < maps; ++m)
          out[i * maps + m] = static_cast<scalar_t>(sums[static_cast<std::size_t>(m)]);
      }
    });
  });
  return result;
}

at::Tensor window_values_meta(const at::Tensor& strength, const at::Tensor& profile, const at::Tensor& row_offsets,
                              const at::Tensor& map_index) {
  check_values(strength, profile, row_offsets, map_index);
  return at::empty_symint({strength.sym_size(0), profile.sym_size(0)}, strength.options());
}

at::Tensor window_values_backward_meta(const at::Tensor& grad, const at::Tensor&, const at::Tensor& row_offsets,
                                       const at::Tensor&, std::int64_t maps) {
  return at::empty_symint({grad.sym_size(0), row_offsets.sym_size(0) - 1, maps}, grad.options());
}

at::Tensor call_window_values(const at::Tensor& strength, const at::Tensor& profile, const at::Tensor& row_offsets,
                              const at::Tensor& map_index) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("camber::window_values", "").typed<decltype(window_values_cpu)>();
  return op.call(strength, profile, row_offsets, map_index);
}

struct WindowValues : public torch::autograd::Function<WindowValues> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& strength, const at::Tensor& profile,
                            const at::Tensor& row_offsets, const at::Tensor& map_index) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    context->save_for_backward({profile, row_offsets, map_index});
    context->saved_data["maps"] = strength.size(2);
    return call_window_values(strength, profile, row_offsets, map_index);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("camber::window_values_backward", "")
                               .typed<decltype(window_values_backward_cpu)>();
    const auto saved = context->get_saved_variables();
    return {op.call(gradients[0], saved[0], saved[1], saved[2], context->saved_data["maps"].toInt()), {}, {}, {}};
  }
};

at::Tensor window_values_autograd(const at::Tensor& strength, const at::Tensor& profile, const at::Tensor& row_offsets,
                                  const at::Tensor& map_index) {
  return WindowValues::apply(strength, profile, row_offsets, map_index);
}

}  // namespace

WindowIndex build_windows(const at::Tensor& center, const at::Tensor& size, const at::Tensor& map_shape) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("camber::build_windows", "").typed<decltype(build_windows_cpu)>();
  auto [row_offsets, key_index, map_index, squared_distance] = op.call(center, size, map_shape);
  return {row_offsets, key_index, map_index, squared_distance};
}

at::Tensor window_values(const at::Tensor& strength, const at::Tensor& profile, const at::Tensor& row_offsets,
                         const at::Tensor& map_index) {
  return call_window_values(strength, profile, row_offsets, map_index);
}

TORCH_LIBRARY_IMPL(camber, CPU, m) {
  m.impl("build_windows", &build_windows_cpu);
  m.impl("window_values", &window_values_cpu);
  m.impl("window_values_backward", &window_values_backward_cpu);
}
TORCH_LIBRARY_IMPL(camber, Meta, m) {
  m.impl("window_values", &window_values_meta);
  m.impl("window_values_backward", &window_values_backward_meta);
}
TORCH_LIBRARY_IMPL(camber, Autograd, m) {
  m.impl("window_values", &window_values_autograd);
}

}  // namespace camber::ops
