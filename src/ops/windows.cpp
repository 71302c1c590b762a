#include "camber/ops/windows.h"

#include <algorithm>
#include <limits>

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "camber/geometry/key_layout.h"
#include "camber/kernels/windows.h"
#include "ops/argument_checks.h"
#include "ops/windows_reference.h"

namespace camber::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
constexpr std::int64_t kRowsAThread = 256;
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
    // Keys are counted in int32; the division keeps the product from overflowing.
    const std::int64_t left = std::numeric_limits<std::int32_t>::max() - next;
    TORCH_CHECK_VALUE(data[2 * m] <= left / data[2 * m + 1],
                      "[build_windows] map_shape must hold fewer than 2^31 keys in all, got ", data[2 * m], " x ",
                      data[2 * m + 1], " after ", next, " keys");
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

// Odd sizes, and none so large that the square of a distance on its map leaves int32.
void check_sizes(const at::Tensor& size, const geometry::KeyLayout& layout) {
  const auto* sizes = size.const_data_ptr<std::int32_t>();
  const std::size_t maps = layout.maps.size();
  for (std::int64_t i = 0; i < size.numel(); ++i) {
    TORCH_CHECK_VALUE(sizes[i] >= 1 && sizes[i] % 2 == 1, "[build_windows] size must be odd and at least 1, got ",
                      sizes[i]);
    const auto& map = layout.maps[static_cast<std::size_t>(i) % maps];
    const std::int64_t dx = std::min<std::int64_t>(sizes[i] / 2, map.columns - 1),
                       dy = std::min<std::int64_t>(sizes[i] / 2, map.rows - 1);
    TORCH_CHECK_VALUE(dx * dx + dy * dy <= std::numeric_limits<std::int32_t>::max(),
                      "[build_windows] size must keep squared distances below 2^31, got ", sizes[i], " on a map of ",
                      map.columns, " x ", map.rows);
  }
}

WindowTensors build_windows_here(const at::Tensor& center_in, const at::Tensor& size_in, const at::Tensor& map_shape) {
  check_windows(center_in, size_in, map_shape);
  // Their number depends on the centres: the host has to know it, and builds them as well.
  if (!center_in.is_cpu()) {
    const auto device = center_in.device();
    const auto [offsets, keys, maps, distance] = build_windows_here(center_in.cpu(), size_in.cpu(), map_shape);
    return {offsets.to(device), keys.to(device), maps.to(device), distance.to(device)};
  }
  const auto center = center_in.contiguous(), size = size_in.contiguous();
  const auto layout = layout_of(map_shape);
  check_sizes(size, layout);
  static_assert(sizeof(geometry::Cell) == 2 * sizeof(std::int64_t), "a cell is a pair of int64 in a tensor");
  const geometry::WindowRows windows{
      .layout = layout,
      .queries = center.size(0) * center.size(1),
      .center = reinterpret_cast<const geometry::Cell*>(center.const_data_ptr<std::int64_t>()),
      .size = size.const_data_ptr<std::int32_t>()};
  const auto options = center.options();
  auto row_offsets = at::empty({windows.queries + 1}, options);
  const std::int64_t entries = windows.count(row_offsets.data_ptr<std::int64_t>());
  auto key_index = at::empty({entries}, options.dtype(at::kInt)), map_index = at::empty_like(key_index),
       squared_distance = at::empty_like(key_index);
  windows.fill(row_offsets.const_data_ptr<std::int64_t>(), key_index.data_ptr<std::int32_t>(),
               map_index.data_ptr<std::int32_t>(), squared_distance.data_ptr<std::int32_t>());
  return {row_offsets, key_index, map_index, squared_distance};
}

// What both operators on values take: the list, and what is given for each of its entries.
void check_list(const char* op, const at::Tensor& profile, const at::Tensor& row_offsets, const at::Tensor& map_index) {
  TORCH_CHECK_VALUE(row_offsets.scalar_type() == at::kLong && row_offsets.dim() == 1 && row_offsets.sym_size(0) >= 1,
                    "[", op, "] row_offsets must be int64 [B*Q+1], got ", describe(row_offsets));
  TORCH_CHECK_VALUE(map_index.scalar_type() == at::kInt && map_index.dim() == 1, "[", op,
                    "] map_index must be int32 [nnz], got ", describe(map_index));
  TORCH_CHECK_VALUE(profile.dim() == 1 && profile.sym_size(0) == map_index.sym_size(0) &&
                        (profile.scalar_type() == at::kFloat || profile.scalar_type() == at::kDouble),
                    "[", op, "] profile must be float or double [nnz] = [", map_index.sym_size(0), "], got ",
                    describe(profile));
}

void check_values(const at::Tensor& strength, const at::Tensor& profile, const at::Tensor& row_offsets,
                  const at::Tensor& map_index) {
  check_list("window_values", profile, row_offsets, map_index);
  TORCH_CHECK_VALUE(strength.dim() == 3 && strength.sym_size(1) == row_offsets.sym_size(0) - 1 &&
                        strength.scalar_type() == profile.scalar_type(),
                    "[window_values] strength must be [Hb, B*Q, M] with B*Q = ", row_offsets.sym_size(0) - 1,
                    " and the dtype of profile (", profile.scalar_type(), "), got ", describe(strength));
}

void check_values_backward(const at::Tensor& grad, const at::Tensor& profile, const at::Tensor& row_offsets,
                           const at::Tensor& map_index, std::int64_t maps) {
  check_list("window_values_backward", profile, row_offsets, map_index);
  TORCH_CHECK_VALUE(
      grad.dim() == 2 && grad.sym_size(1) == profile.sym_size(0) && grad.scalar_type() == profile.scalar_type(),
      "[window_values_backward] grad must be [Hb, nnz] with nnz = ", profile.sym_size(0), " and the dtype of profile (",
      profile.scalar_type(), "), got ", describe(grad));
  TORCH_CHECK_VALUE(maps >= 0, "[window_values_backward] maps must be at least 0, got ", maps);
}

kernels::WindowLists lists_of(const at::Tensor& profile, const at::Tensor& row_offsets, const at::Tensor& map_index,
                              std::int64_t maps) {
  return {.rows = row_offsets.size(0) - 1,
          .maps = maps,
          .entries = profile.size(0),
          .row_offsets = row_offsets.const_data_ptr<std::int64_t>(),
          .map_index = map_index.const_data_ptr<std::int32_t>(),
          .profile = profile.const_data_ptr<float>()};
}

at::Tensor window_values_here(const at::Tensor& strength_in, const at::Tensor& profile_in,
                              const at::Tensor& row_offsets_in, const at::Tensor& map_index_in) {
  check_values(strength_in, profile_in, row_offsets_in, map_index_in);
  const auto strength = strength_in.contiguous(), profile = profile_in.contiguous();
  const auto row_offsets = row_offsets_in.contiguous(), map_index = map_index_in.contiguous();
  if (strength.is_cpu()) {
    check_offsets("window_values", "row_offsets", row_offsets, "row", "nnz", profile.size(0));
    check_map_index("window_values", map_index, strength.size(2));
  }
  if (!strength.is_cpu() || strength.scalar_type() == at::kDouble)
    return window_values_reference(strength, profile, row_offsets, map_index);
  const auto lists = lists_of(profile, row_offsets, map_index, strength.size(2));
  auto value = at::empty({strength.size(0), lists.entries}, strength.options());
  const auto* s = strength.const_data_ptr<float>();
  auto* out = value.data_ptr<float>();
  at::parallel_for(0, strength.size(0) * lists.rows, kRowsAThread,
                   [&](std::int64_t first, std::int64_t last) { kernels::window_values(lists, s, first, last, out); });
  return value;
}

at::Tensor window_values_backward_here(const at::Tensor& grad_in, const at::Tensor& profile_in,
                                       const at::Tensor& row_offsets_in, const at::Tensor& map_index_in,
                                       std::int64_t maps) {
  check_values_backward(grad_in, profile_in, row_offsets_in, map_index_in, maps);
  const auto grad = grad_in.contiguous(), profile = profile_in.contiguous();
  const auto row_offsets = row_offsets_in.contiguous(), map_index = map_index_in.contiguous();
  if (grad.is_cpu()) {
    check_offsets("window_values_backward", "row_offsets", row_offsets, "row", "nnz", profile.size(0));
    check_map_index("window_values_backward", map_index, maps);
  }
  if (!grad.is_cpu() || grad.scalar_type() == at::kDouble)
    return window_values_backward_reference(grad, profile, row_offsets, map_index, maps);
  const auto lists = lists_of(profile, row_offsets, map_index, maps);
  auto result = at::empty({grad.size(0), lists.rows, maps}, grad.options());
  const auto* g = grad.const_data_ptr<float>();
  auto* out = result.data_ptr<float>();
  at::parallel_for(0, grad.size(0) * lists.rows, kRowsAThread, [&](std::int64_t first, std::int64_t last) {
    kernels::window_values_backward(lists, g, first, last, out);
  });
  return result;
}

at::Tensor window_values_meta(const at::Tensor& strength, const at::Tensor& profile, const at::Tensor& row_offsets,
                              const at::Tensor& map_index) {
  check_values(strength, profile, row_offsets, map_index);
  return at::empty_symint({strength.sym_size(0), profile.sym_size(0)}, strength.options());
}

at::Tensor window_values_backward_meta(const at::Tensor& grad, const at::Tensor& profile, const at::Tensor& row_offsets,
                                       const at::Tensor& map_index, std::int64_t maps) {
  check_values_backward(grad, profile, row_offsets, map_index, maps);
  return at::empty_symint({grad.sym_size(0), row_offsets.sym_size(0) - 1, maps}, grad.options());
}

at::Tensor call_window_values(const at::Tensor& strength, const at::Tensor& profile, const at::Tensor& row_offsets,
                              const at::Tensor& map_index) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("camber::window_values", "").typed<decltype(window_values_here)>();
  return op.call(strength, profile, row_offsets, map_index);
}

at::Tensor call_window_values_backward(const at::Tensor& grad, const at::Tensor& profile, const at::Tensor& row_offsets,
                                       const at::Tensor& map_index, std::int64_t maps) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("camber::window_values_backward", "")
                             .typed<decltype(window_values_backward_here)>();
  return op.call(grad, profile, row_offsets, map_index, maps);
}

void refuse_gradient_of_profile(const char* op, const at::Tensor& profile) {
  TORCH_CHECK_NOT_IMPLEMENTED(!(at::GradMode::is_enabled() && profile.requires_grad()), "[", op,
                              "] profile must not require a gradient: only strength gets one");
}

// The map from strength to values is linear, and each of the two operators is the other's derivative: autograd goes
// through them to any order.
struct WindowValues : public torch::autograd::Function<WindowValues> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& strength, const at::Tensor& profile,
                            const at::Tensor& row_offsets, const at::Tensor& map_index) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    auto value = call_window_values(strength, profile, row_offsets, map_index);
    context->save_for_backward({profile, row_offsets, map_index});
    context->saved_data["maps"] = strength.size(2);
    return value;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto maps = context->saved_data["maps"].toInt();
    return {call_window_values_backward(gradients[0], saved[0], saved[1], saved[2], maps), {}, {}, {}};
  }
};

struct WindowValuesBackward : public torch::autograd::Function<WindowValuesBackward> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& grad, const at::Tensor& profile,
                            const at::Tensor& row_offsets, const at::Tensor& map_index, std::int64_t maps) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    context->save_for_backward({profile, row_offsets, map_index});
    return call_window_values_backward(grad, profile, row_offsets, map_index, maps);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    return {call_window_values(gradients[0], saved[0], saved[1], saved[2]), {}, {}, {}, {}};
  }
};

at::Tensor window_values_autograd(const at::Tensor& strength, const at::Tensor& profile, const at::Tensor& row_offsets,
                                  const at::Tensor& map_index) {
  refuse_gradient_of_profile("window_values", profile);
  return WindowValues::apply(strength, profile, row_offsets, map_index);
}

at::Tensor window_values_backward_autograd(const at::Tensor& grad, const at::Tensor& profile,
                                           const at::Tensor& row_offsets, const at::Tensor& map_index,
                                           std::int64_t maps) {
  refuse_gradient_of_profile("window_values_backward", profile);
  return WindowValuesBackward::apply(grad, profile, row_offsets, map_index, maps);
}

// Values are computed in float, whatever autocast made of the strength.
at::Tensor window_values_autocast(const at::Tensor& strength, const at::Tensor& profile, const at::Tensor& row_offsets,
                                  const at::Tensor& map_index) {
  const auto device = strength.device().type();
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(
      at::autocast::get_autocast_dispatch_key_from_device_type(device));
  return call_window_values(at::autocast::cached_cast(at::kFloat, strength, device),
                            at::autocast::cached_cast(at::kFloat, profile, device), row_offsets, map_index);
}

}  // namespace

WindowIndex build_windows(const at::Tensor& center, const at::Tensor& size, const at::Tensor& map_shape) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("camber::build_windows", "").typed<decltype(build_windows_here)>();
  auto [row_offsets, key_index, map_index, squared_distance] = op.call(center, size, map_shape);
  return {row_offsets, key_index, map_index, squared_distance};
}

at::Tensor window_values(const at::Tensor& strength, const at::Tensor& profile, const at::Tensor& row_offsets,
                         const at::Tensor& map_index) {
  return call_window_values(strength, profile, row_offsets, map_index);
}

TORCH_LIBRARY_IMPL(camber, CompositeExplicitAutograd, m) {
  m.impl("build_windows", &build_windows_here);
  m.impl("window_values", &window_values_here);
  m.impl("window_values_backward", &window_values_backward_here);
}
TORCH_LIBRARY_IMPL(camber, Meta, m) {
  m.impl("window_values", &window_values_meta);
  m.impl("window_values_backward", &window_values_backward_meta);
}
TORCH_LIBRARY_IMPL(camber, Autograd, m) {
  m.impl("window_values", &window_values_autograd);
  m.impl("window_values_backward", &window_values_backward_autograd);
}
TORCH_LIBRARY_IMPL(camber, AutocastCPU, m) {
  m.impl("window_values", &window_values_autocast);
}
TORCH_LIBRARY_IMPL(camber, AutocastCUDA, m) {
  m.impl("window_values", &window_values_autocast);
}
TORCH_LIBRARY_IMPL(camber, AutocastPrivateUse1, m) {
  m.impl("window_values", &window_values_autocast);
}

}  // namespace camber::ops
