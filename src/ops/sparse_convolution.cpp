#include "camber/ops/sparse_convolution.h"

#include <algorithm>
#include <array>
#include <vector>

#include <ATen/autocast_mode.h>
#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "camber/kernels/sparse_convolution.h"
#include "ops/argument_checks.h"
#include "ops/kernel_views.h"
#include "ops/sparse_convolution_reference.h"

namespace camber::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

using ConvolutionGradients = std::tuple<at::Tensor, at::Tensor>;

// pairs: pair_input, pair_output, pair_offsets, back_input, back_output, back_offsets of SparseIndices.
void check_convolution(const char* op, const at::Tensor& features, const at::Tensor& weight, at::TensorList pairs,
                       const c10::SymInt& outputs) {
  const auto type = features.scalar_type();
  TORCH_CHECK_VALUE(features.dim() == 2 && (type == at::kFloat || type == at::kDouble || type == at::kBFloat16), "[",
                    op, "] features must be a float, double or bfloat16 tensor [N, Cin], got ", describe(features));
  TORCH_CHECK_VALUE(weight.dim() == 5 && weight.scalar_type() == type && weight.sym_size(4) == features.sym_size(1),
                    "[", op, "] weight must be [Cout, kz, ky, kx, Cin] with the channels and dtype of features ",
                    describe(features), ", got ", describe(weight));
  TORCH_CHECK_VALUE(outputs >= 0, "[", op, "] outputs must be at least 0, got ", outputs);
  TORCH_CHECK_VALUE(pairs.size() == 6, "[", op, "] pairs must hold the 6 tensors of SparseIndices, got ", pairs.size());
  const auto taps = weight.sym_size(1) * weight.sym_size(2) * weight.sym_size(3);
  for (const std::size_t i : {0, 1, 3, 4})
    TORCH_CHECK_VALUE(
        pairs[i].scalar_type() == at::kInt && pairs[i].dim() == 1 && pairs[i].sym_size(0) == pairs[0].sym_size(0), "[",
        op, "] pairs must hold int32 [P] rows, all of one length, got ", describe(pairs[i]));
  for (const auto& [i, rows] : {std::pair{2, outputs}, std::pair{5, features.sym_size(0)}}) {
    const auto& offsets = pairs[static_cast<std::size_t>(i)];
    const auto blocks = (rows + (kernels::kPairBlock - 1)) / kernels::kPairBlock;
    TORCH_CHECK_VALUE(offsets.scalar_type() == at::kLong && offsets.dim() == 2 && offsets.sym_size(0) == taps &&
                          offsets.sym_size(1) == blocks + 1,
                      "[", op, "] pairs must hold int64 [taps, blocks + 1] = [", taps, ", ", blocks + 1,
                      "] offsets for this weight and ", rows, " rows, got ", describe(offsets));
  }
}

// That the pairs of a direction stay inside their rows and blocks: the loops trust them.
void check_pairs(const char* op, const char* direction, const PairTensors& pairs, std::int64_t from_rows,
                 std::int64_t to_rows) {
  const auto* from = pairs.from.const_data_ptr<std::int32_t>();
  const auto* to = pairs.to.const_data_ptr<std::int32_t>();
  const auto* offsets = pairs.offsets.const_data_ptr<std::int64_t>();
  const std::int64_t count = pairs.from.size(0), blocks = pairs.offsets.size(1) - 1;
  bool fits = true;
  for (std::int64_t tap = 0; tap < pairs.offsets.size(0); ++tap)
    for (std::int64_t block = 0; block < blocks && fits; ++block) {
      const std::int64_t *range = offsets + tap * (blocks + 1) + block, row = block * kernels::kPairBlock;
      const auto rows = static_cast<std::uint32_t>(std::min(kernels::kPairBlock, to_rows - row));
      fits = range[0] >= 0 && range[0] <= range[1] && range[1] <= count;
      // Without a branch, so that the compiler takes many pairs at a time; a negative row becomes a large one.
      std::uint32_t wrong = 0;
      for (std::int64_t pair = range[0]; fits && pair < range[1]; ++pair) {
        const auto to_row = static_cast<std::uint32_t>(to[pair] - static_cast<std::int32_t>(row));
        wrong |= static_cast<std::uint32_t>(to_row >= rows) |
                 static_cast<std::uint32_t>(static_cast<std::uint32_t>(from[pair]) >= from_rows);
      }
      fits = fits && wrong == 0;
    }
  TORCH_CHECK_VALUE(fits, "[", op, "] pairs must be those of one SparseIndices, but a ", direction,
                    " pair leaves its list, the ", from_rows, " rows it reads or the block of the ", to_rows,
                    " rows it adds to");
}

ConvolutionInputs convolution_inputs(const at::Tensor& features, const at::Tensor& weight, at::TensorList pairs,
                                     const c10::SymInt& outputs) {
  return {.features = features.contiguous(),
          .weight = weight.contiguous(),
          .forward = {pairs[0].contiguous(), pairs[1].contiguous(), pairs[2].contiguous()},
          .back = {pairs[4].contiguous(), pairs[3].contiguous(), pairs[5].contiguous()},
          .outputs = outputs.guard_int(__FILE__, __LINE__)};
}

// --- float and bfloat16: the kernels ---

kernels::PairLists pair_lists(const PairTensors& pairs) {
  return {.from = pairs.from.const_data_ptr<std::int32_t>(),
          .to = pairs.to.const_data_ptr<std::int32_t>(),
          .offsets = pairs.offsets.const_data_ptr<std::int64_t>()};
}

kernels::ConvolutionProblem convolution_problem(const ConvolutionInputs& in) {
  const bool bfloat = in.features.scalar_type() == at::kBFloat16;
  return {.taps = in.forward.offsets.size(0),
          .from_rows = in.features.size(0),
          .to_rows = in.outputs,
          .from_width = in.features.size(1),
          .to_width = in.weight.size(0),
          .type = bfloat ? kernels::ElementType::bfloat16 : kernels::ElementType::float32,
          .x = in.features.const_data_ptr(),
          .weight = in.weight.const_data_ptr(),
          .transposed = false,
          .pairs = pair_lists(in.forward),
          .parallel = torch_threads()};
}

at::Tensor convolve_rows(const ConvolutionInputs& in) {
  auto output = at::empty({in.outputs, in.weight.size(0)}, in.features.options());
  kernels::convolve(convolution_problem(in), output.data_ptr(), kernels::chosen_isa());
  return output;
}

at::Tensor convolve_gradient(const ConvolutionInputs& in, const at::Tensor& grad) {
  auto problem = convolution_problem(in);
  std::swap(problem.from_rows, problem.to_rows);
  std::swap(problem.from_width, problem.to_width);
  problem.x = grad.const_data_ptr();
  problem.transposed = true;
  problem.pairs = pair_lists(in.back);
  auto result = at::empty(in.features.sizes(), in.features.options());
  kernels::convolve(problem, result.data_ptr(), kernels::chosen_isa());
  return result;
}

at::Tensor weight_gradient(const ConvolutionInputs& in, const at::Tensor& grad) {
  auto result = at::empty(in.weight.sizes(), in.weight.options());
  kernels::convolution_weight_gradient(convolution_problem(in), grad.const_data_ptr<float>(), result.data_ptr<float>(),
                                       kernels::chosen_isa());
  return result;
}

// --- The operators ---

// The dispatcher hands a SymInt over by value.
// NOLINTBEGIN(performance-unnecessary-value-param)

at::Tensor convolution_cpu(const at::Tensor& features, const at::Tensor& weight, at::TensorList pairs,
                           c10::SymInt outputs) {
  constexpr const char* kOp = "sparse_convolution";
  check_convolution(kOp, features, weight, pairs, outputs);
  const auto in = convolution_inputs(features, weight, pairs, outputs);
  check_pairs(kOp, "forward", in.forward, features.size(0), in.outputs);
  return (features.scalar_type() == at::kDouble ? sparse_convolution_reference : convolve_rows)(in);
}

void check_backward(const at::Tensor& grad, const at::Tensor& features, const at::Tensor& weight, at::TensorList pairs,
                    const c10::SymInt& outputs, const c10::List<bool>& needs) {
  constexpr const char* kOp = "sparse_convolution_backward";
  check_convolution(kOp, features, weight, pairs, outputs);
  TORCH_CHECK_VALUE(features.scalar_type() != at::kBFloat16, "[", kOp,
                    "] features must be float or double where a gradient is needed, got ", describe(features));
  TORCH_CHECK_VALUE(grad.dim() == 2 && grad.scalar_type() == features.scalar_type() && grad.sym_size(0) == outputs &&
                        grad.sym_size(1) == weight.sym_size(0),
                    "[", kOp, "] grad_output must be [M, Cout] = [", outputs, ", ", weight.sym_size(0),
                    "] with the dtype of features, got ", describe(grad));
  TORCH_CHECK_VALUE(needs.size() == 2, "[", kOp, "] needs must hold 2 flags, got ", needs.size());
}

ConvolutionGradients convolution_backward_cpu(const at::Tensor& grad, const at::Tensor& features,
                                              const at::Tensor& weight, at::TensorList pairs, c10::SymInt outputs,
                                              const c10::List<bool>& needs) {
  constexpr const char* kOp = "sparse_convolution_backward";
  check_backward(grad, features, weight, pairs, outputs, needs);
  const auto in = convolution_inputs(features, weight, pairs, outputs);
  const auto dense = grad.contiguous();
  const bool reference = features.scalar_type() == at::kDouble;
  auto of_features = at::empty({0}, features.options()), of_weight = at::empty({0}, features.options());
  if (needs.get(0)) {
    check_pairs(kOp, "back", in.back, in.outputs, features.size(0));
    of_features = (reference ? sparse_convolution_reference_features : convolve_gradient)(in, dense);
  }
  if (needs.get(1)) {
    check_pairs(kOp, "forward", in.forward, features.size(0), in.outputs);
    of_weight = (reference ? sparse_convolution_reference_weight : weight_gradient)(in, dense);
  }
  return {of_features, of_weight};
}

at::Tensor convolution_meta(const at::Tensor& features, const at::Tensor& weight, at::TensorList pairs,
                            c10::SymInt outputs) {
  check_convolution("sparse_convolution", features, weight, pairs, outputs);
  return at::empty_symint({outputs, weight.sym_size(0)}, features.options());
}

ConvolutionGradients convolution_backward_meta(const at::Tensor& grad, const at::Tensor& features,
                                               const at::Tensor& weight, at::TensorList pairs, c10::SymInt outputs,
                                               const c10::List<bool>& needs) {
  check_backward(grad, features, weight, pairs, outputs, needs);
  const auto like = [&](const at::Tensor& t, std::size_t which) {
    return needs.get(which) ? at::empty_symint(t.sym_sizes(), t.options()) : at::empty({0}, t.options());
  };
  return {like(features, 0), like(weight, 1)};
}

at::Tensor call_convolution(const at::Tensor& features, const at::Tensor& weight, at::TensorList pairs,
                            const c10::SymInt& outputs) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("camber::sparse_convolution", "")
                             .typed<decltype(convolution_cpu)>();
  return op.call(features, weight, pairs, outputs);
}

ConvolutionGradients call_convolution_backward(const at::Tensor& grad, const at::Tensor& features,
                                               const at::Tensor& weight, at::TensorList pairs,
                                               const c10::SymInt& outputs, const c10::List<bool>& needs) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("camber::sparse_convolution_backward", "")
                             .typed<decltype(convolution_backward_cpu)>();
  return op.call(grad, features, weight, pairs, outputs, needs);
}

struct SparseConvolution : public torch::autograd::Function<SparseConvolution> {
  // The pairs come as a vector, so that autograd does not count them as inputs of the node.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& features, const at::Tensor& weight,
                            const std::vector<at::Tensor>& pairs, const c10::SymInt& outputs) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    variable_list saved{features, weight};
    saved.insert(saved.end(), pairs.begin(), pairs.end());
    context->save_for_backward(std::move(saved));
    context->saved_data["outputs"] = outputs;
    return call_convolution(features, weight, pairs, outputs);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const std::array<bool, 2> needs = {context->needs_input_grad(0), context->needs_input_grad(1)};
    const auto [of_features, of_weight] = call_convolution_backward(
        gradients[0], saved[0], saved[1], at::TensorList(saved).slice(2), context->saved_data["outputs"].toSymInt(),
        c10::List<bool>(c10::ArrayRef<bool>(needs)));
    return {needs[0] ? of_features : at::Tensor{}, needs[1] ? of_weight : at::Tensor{}, {}, {}};
  }
};

// A gradient of the gradient would need a pass of its own.
struct RefuseConvolutionDoubleBackward : public torch::autograd::Function<RefuseConvolutionDoubleBackward> {
  static variable_list forward(AutogradContext*, const at::Tensor& grad, const at::Tensor& features,
                               const at::Tensor& weight, const std::vector<at::Tensor>& pairs,
                               const c10::SymInt& outputs, const c10::List<bool>& needs) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    const auto [of_features, of_weight] = call_convolution_backward(grad, features, weight, pairs, outputs, needs);
    return {of_features, of_weight};
  }
  static variable_list backward(AutogradContext*, const variable_list&) {
    TORCH_CHECK_NOT_IMPLEMENTED(
        false, "[sparse_convolution] double backward must not be asked for: only first derivatives exist");
  }
};

at::Tensor convolution_autograd(const at::Tensor& features, const at::Tensor& weight, at::TensorList pairs,
                                c10::SymInt outputs) {
  const bool needed = at::GradMode::is_enabled() && (features.requires_grad() || weight.requires_grad());
  TORCH_CHECK_VALUE(!needed || features.scalar_type() != at::kBFloat16,
                    "[sparse_convolution] features must be float or double where a gradient is needed, got ",
                    describe(features));
  return SparseConvolution::apply(features, weight, pairs.vec(), outputs);
}

ConvolutionGradients convolution_backward_autograd(const at::Tensor& grad, const at::Tensor& features,
                                                   const at::Tensor& weight, at::TensorList pairs, c10::SymInt outputs,
                                                   const c10::List<bool>& needs) {
  const auto result = RefuseConvolutionDoubleBackward::apply(grad, features, weight, pairs.vec(), outputs, needs);
  return {result[0], result[1]};
}

// What autocast lowered is raised again: training sums over taps and channels in float.
at::Tensor convolution_autocast(const at::Tensor& features, const at::Tensor& weight, at::TensorList pairs,
                                c10::SymInt outputs) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastCPU);
  const auto raised = [](const at::Tensor& t) { return at::autocast::cached_cast(at::kFloat, t, at::kCPU); };
  return call_convolution(raised(features), raised(weight), pairs, outputs);
}

// NOLINTEND(performance-unnecessary-value-param)

}  // namespace

at::Tensor sparse_convolution(const at::Tensor& features, const at::Tensor& weight, const SparseIndices& indices) {
  TORCH_CHECK_VALUE(features.dim() == 2 && features.sym_size(0) == indices.inputs,
                    "[sparse_convolution] features must be [N, Cin] with the ", indices.inputs,
                    " input rows of indices, got ", describe(features));
  const auto& kernel = indices.kernel;
  TORCH_CHECK_VALUE(weight.dim() == 5 && weight.sym_sizes().slice(1, 3) == c10::fromIntArrayRefSlow(kernel),
                    "[sparse_convolution] weight must be [Cout, ", kernel[0], ", ", kernel[1], ", ", kernel[2],
                    ", Cin] for the kernel of indices, got ", describe(weight));
  const std::array<at::Tensor, 6> pairs = {indices.pair_input, indices.pair_output, indices.pair_offsets,
                                           indices.back_input, indices.back_output, indices.back_offsets};
  return call_convolution(features, weight, pairs, indices.outputs());
}

TORCH_LIBRARY_IMPL(camber, CPU, m) {
  m.impl("sparse_convolution", &convolution_cpu);
  m.impl("sparse_convolution_backward", &convolution_backward_cpu);
}
TORCH_LIBRARY_IMPL(camber, Meta, m) {
  m.impl("sparse_convolution", &convolution_meta);
  m.impl("sparse_convolution_backward", &convolution_backward_meta);
}
TORCH_LIBRARY_IMPL(camber, Autograd, m) {
  m.impl("sparse_convolution", &convolution_autograd);
  m.impl("sparse_convolution_backward", &convolution_backward_autograd);
}
TORCH_LIBRARY_IMPL(camber, AutocastCPU, m) {
  m.impl("sparse_convolution", &convolution_autocast);
}

}  // namespace camber::ops
