#include <algorithm>
#include <array>
#include <string_view>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/NativeFunctions.h>
#include <ATen/autocast_mode.h>
#include <ATen/native/CPUFallback.h>
#include <c10/util/strides.h>
#include <torch/library.h>

#include "support/test_device_state.h"

// The operators: what makes and moves memory here, everything else on the CPU behind the checks that CUDA makes.
namespace camber::proof {
namespace {

using Type = std::optional<at::ScalarType>;
using Layout = std::optional<at::Layout>;
using Device = std::optional<at::Device>;
using Flag = std::optional<bool>;
using Format = std::optional<at::MemoryFormat>;

const c10::DispatchKeySet kKeys(c10::DispatchKey::CAMBER_TEST_DEVICE_KEY);

at::Tensor make_empty(at::IntArrayRef size, Type type, Layout, Device, Flag, Format format) {
  return at::detail::empty_generic(size, &device_allocator(), kKeys, c10::dtype_or_default(type), format);
}

at::Tensor make_empty_strided(at::IntArrayRef size, at::IntArrayRef stride, Type type, Layout, Device, Flag) {
  return at::detail::empty_strided_generic(size, stride, &device_allocator(), kKeys, c10::dtype_or_default(type));
}

at::Tensor copy_elements(const at::Tensor& from, const at::Tensor& to, bool) {
  count_copy(to.is_cpu(), from.is_cpu());
  host_view(to).copy_(host_view(from));
  return to;
}

void reserve(const c10::Storage& storage, std::size_t bytes) {
  if (bytes <= storage.nbytes()) return;
  auto block = device_allocator().allocate(bytes);
  device_allocator().copy_data(block.get(), storage.data(), storage.nbytes());
  storage.unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(block));
  storage.unsafeGetStorageImpl()->set_nbytes(bytes);
}

const at::Tensor& resize_elements(const at::Tensor& self, at::IntArrayRef size, Format format) {
  auto* tensor = self.unsafeGetTensorImpl();
  if (self.sizes() != size) {
    tensor->set_sizes_contiguous(size);
    reserve(self.storage(), at::detail::computeStorageNbytesContiguous(size, self.itemsize(), self.storage_offset()));
  }
  if (format && *format != at::MemoryFormat::Preserve) tensor->empty_tensor_restride(*format);
  return self;  // NOLINT(bugprone-return-const-ref-from-parameter): the signature of aten::resize_
}

at::Tensor copy_and_resize(const at::Tensor& from, const at::Tensor& to) {
  resize_elements(to, from.sizes(), std::nullopt);
  return copy_elements(from, to, false);
}

at::Scalar read_number(const at::Tensor& self) {
  count_number();
  return host_view(self).item();
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source, std::int64_t offset, at::IntArrayRef size,
                        at::IntArrayRef stride) {
  // Without strides the elements are dense.
  const auto dense = c10::contiguous_strides(size);
  const at::IntArrayRef steps = stride.size() == size.size() ? stride : at::IntArrayRef(dense);
  reserve(source, at::detail::computeStorageNbytes(size, steps, self.itemsize(), offset));
  return at::native::set_storage_cpu_(self, std::move(source), offset, size, steps);
}

// Its running statistics change though its schema calls them inputs: copies would lose the change.
std::tuple<at::Tensor, at::Tensor, at::Tensor> batch_norm(const at::Tensor& input,
                                                          const std::optional<at::Tensor>& weight,
                                                          const std::optional<at::Tensor>& bias,
                                                          const std::optional<at::Tensor>& mean,
                                                          const std::optional<at::Tensor>& variance, bool training,
                                                          double momentum, double epsilon) {
  count_call("aten::native_batch_norm");
  const Uncounted own;
  const auto view = [](const std::optional<at::Tensor>& tensor) -> std::optional<at::Tensor> {
    if (!tensor || !tensor->defined()) return std::nullopt;
    TORCH_CHECK(tensor->device() == test_device(), "Expected all tensors to be on the same device, got ",
                tensor->device(), " in native_batch_norm");
    return host_view(*tensor);
  };
  const auto [output, saved_mean, saved_scale] = at::native_batch_norm(
      host_view(input), view(weight), view(bias), view(mean), view(variance), training, momentum, epsilon);
  return {output.to(test_device()), saved_mean.to(test_device()), saved_scale.to(test_device())};
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// CUDA takes a number of the CPU in pointwise operators and as a value to write, nothing else.
void check_device(const c10::OperatorHandle& op, const c10::Argument& argument, const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.device() == test_device()) return;
  const std::string& name = op.schema().name();
  const bool takes_numbers =
      op.hasTag(at::Tag::pointwise) ||
      is_one_of(name, {"aten::fill_", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"});
  if (tensor.dim() == 0 && (takes_numbers || tensor.unsafeGetTensorImpl()->is_wrapped_number())) return;
  TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ", test_device(),
              " and ", tensor.device(), "! (argument ", argument.name(), " of ", op.operator_name(), ")");
}

void check_value(const c10::OperatorHandle& op, const c10::Argument& argument, const c10::IValue& value) {
  if (value.isTensor()) check_device(op, argument, value.toTensor());
  if (value.isTensorList())
    for (const at::Tensor& tensor : value.toTensorVector()) check_device(op, argument, tensor);
  // Indices may lie on the host: CUDA copies them.
  const bool indexes = is_one_of(op.schema().name(), {"aten::index", "aten::index_put", "aten::index_put_",
                                                      "aten::_index_put_impl_", "aten::_unsafe_index"});
  if (value.isOptionalTensorList() && !indexes)
    for (const auto& tensor : value.toOptionalTensorVector())
      if (tensor) check_device(op, argument, *tensor);
  if (value.isGenerator())
    TORCH_CHECK(value.toGenerator().device() == test_device(), "Expected a generator of ", test_device(),
                ", got one of ", value.toGenerator().device());
}

void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const std::string& name = op.schema().name();
  const std::string_view view = name;
  // The CPU's own kernels do not exist on another device, and those of other libraries must bring their own.
  const bool known = view.starts_with("aten::") && view.find("_for_cpu") == view.npos &&
                     view.find("mkldnn") == view.npos && view.find("fbgemm") == view.npos;
  TORCH_CHECK_NOT_IMPLEMENTED(known, "Could not run '", op.operator_name(), "' with arguments from the test device");
  const auto& arguments = op.schema().arguments();
  const std::size_t first = stack->size() - arguments.size();
  for (std::size_t i = 0; i < arguments.size(); ++i) check_value(op, arguments[i], (*stack)[first + i]);
  count_call(name);
  // Random numbers come from this device's state, by an engine of the CPU.
  at::Generator own, engine;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    c10::IValue& value = (*stack)[first + i];
    if (arguments[i].name() != "generator" || !(value.isNone() || value.isGenerator())) continue;
    own = value.isNone() ? device_generator() : value.toGenerator();
    engine = at::make_generator<at::CPUGeneratorImpl>();
    engine.set_state(own.get_state());
    value = engine;
  }
  const Uncounted inner;
  at::native::cpu_fallback(op, stack, /*error_on_views=*/true);
  if (own.defined()) own.set_state(engine.get_state());
}

TORCH_LIBRARY_IMPL(_, CAMBER_TEST_DEVICE_KEY, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
}

#ifndef CAMBER_TEST_DEVICE_AS_CUDA
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}
// Products go to the lower precision and norms to float, as on CUDA.
TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m){
    KERNEL_PRIVATEUSEONE(conv2d, lower_precision_fp) KERNEL_PRIVATEUSEONE(linear, lower_precision_fp)
        KERNEL_PRIVATEUSEONE(matmul, lower_precision_fp) KERNEL_PRIVATEUSEONE(addmm, lower_precision_fp)
            KERNEL_PRIVATEUSEONE(mm, lower_precision_fp) KERNEL_PRIVATEUSEONE(bmm, lower_precision_fp)
                KERNEL_PRIVATEUSEONE(layer_norm, fp32)}
#endif

TORCH_LIBRARY_IMPL(aten, CAMBER_TEST_DEVICE_KEY, m) {
  m.impl("empty.memory_format", &make_empty);
  m.impl("empty_strided", &make_empty_strided);
  m.impl("_copy_from", &copy_elements);
  m.impl("_copy_from_and_resize", &copy_and_resize);
  m.impl("_local_scalar_dense", &read_number);
  m.impl("resize_", &resize_elements);
  m.impl("set_.source_Storage_storage_offset", &set_storage);
  m.impl("set_.source_Storage", &at::native::set_);
  m.impl("set_.source_Tensor", &at::native::set_tensor_);
  m.impl("view", &at::native::view);
  m.impl("as_strided", &at::native::as_strided_tensorimpl);
  m.impl("_reshape_alias", &at::native::_reshape_alias);
  m.impl("unfold", &at::native::unfold);
#ifdef CAMBER_TEST_DEVICE_AS_CUDA
  m.impl("copy_", [](at::Tensor& to, const at::Tensor& from, bool) -> at::Tensor& {
    copy_elements(from.expand_as(to), to, false);
    return to;
  });
#endif
  // Module::to() moves a parameter in place only between tensors that may stand for each other.
  m.impl("_has_compatible_shallow_copy_type", [](const at::Tensor&, const at::Tensor&) { return true; });
  m.impl("native_batch_norm", &batch_norm);
  // Their composite kernels look for a hook of the backend that this one has no use for.
  m.impl("convolution", torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
  m.impl("convolution_backward", torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
}

}  // namespace

at::Tensor host_view(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return tensor;
  TORCH_CHECK(tensor.device() == test_device(), "expected a tensor of the test device, got ", tensor.device());
  return at::from_blob(host_address(tensor.const_data_ptr()), tensor.sizes(), tensor.strides(),
                       at::TensorOptions().dtype(tensor.scalar_type()));
}

}  // namespace camber::proof
