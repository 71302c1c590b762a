#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>

#include "camber/kernels/attention.h"
#include "camber/kernels/limits.h"
#include "ops/attention_arguments.h"
#include "ops/kernel_views.h"

// The bridge from tensors to the kernels on raw pointers. Keys, values and masks are read in place; only what the
// kernels cannot read (a last stride other than 1, a bias in half precision) is copied first.
namespace camber::ops {
namespace {

// A mask [1|B, 1|H, Q, K]: a dimension of one is broadcast by a stride of zero.
kernels::Strides broadcast_strides(const at::Tensor& t) {
  return {t.size(0) == 1 ? 0 : t.stride(0), t.size(1) == 1 ? 0 : t.stride(1), t.stride(2)};
}

// The problem with everything it points into.
struct Prepared {
  kernels::AttentionProblem problem{};
  std::vector<at::Tensor> alive{};

  at::Tensor keep(at::Tensor tensor) {
    alive.push_back(std::move(tensor));
    return alive.back();
  }
};

void prepare_bias(const AttentionArguments& a, Prepared& prepared) {
  auto& problem = prepared.problem;
  if (a.window_value.defined()) {
    const auto value = prepared.keep(a.window_value.to(at::kFloat).contiguous());
    problem.windows = {.row_offsets = prepared.keep(a.row_offsets.contiguous()).const_data_ptr<std::int64_t>(),
                       .key_index = prepared.keep(a.key_index.contiguous()).const_data_ptr<std::int32_t>(),
                       .value = value.const_data_ptr<float>(),
                       .heads = value.size(0),
                       .entries = value.size(1)};
  }
  if (a.table_value.defined()) {
    const auto value = prepared.keep(a.table_value.to(at::kFloat).contiguous());
    const auto codes = [&](const at::Tensor& tensor) {
      return tensor.defined() ? prepared.keep(tensor.contiguous()).const_data_ptr<std::int32_t>() : nullptr;
    };
    problem.table = {.value = value.const_data_ptr<float>(),
                     .heads = value.size(0),
                     .size = value.size(1),
                     .index = codes(a.table_index),
                     .query_code = codes(a.query_code),
                     .key_code = codes(a.key_code)};
  }
  if (!a.segment_offsets.defined()) return;
  problem.segments.offsets = prepared.keep(a.segment_offsets.contiguous()).const_data_ptr<std::int64_t>();
  problem.segments.count = a.segments();
  if (a.segment_value.defined()) {
    const auto value = prepared.keep(a.segment_value.to(at::kFloat).contiguous());
    problem.segments.value = value.const_data_ptr<float>();
    problem.segments.heads = value.size(1);
  }
  if (a.segment_available.defined())
    problem.segments.available = prepared.keep(a.segment_available.contiguous()).const_data_ptr<bool>();
}

void prepare_masks(const AttentionArguments& a, Prepared& prepared) {
  auto& problem = prepared.problem;
  if (a.attn_mask.defined()) {
    const auto mask = prepared.keep(with_unit_stride(a.attn_mask.to(at::kFloat)));
    problem.mask = {mask.const_data_ptr<float>(), broadcast_strides(mask), mask.size(0), mask.size(1)};
  }
  if (a.blocked_mask.defined()) {
    const auto mask = prepared.keep(with_unit_stride(a.blocked_mask));
    problem.blocked = {mask.const_data_ptr<bool>(), broadcast_strides(mask)};
  }
  if (a.key_padding_mask.defined())
    problem.key_padding = prepared.keep(a.key_padding_mask.contiguous()).const_data_ptr<bool>();
  if (a.key_lengths.defined())
    problem.key_lengths = prepared.keep(a.key_lengths.contiguous()).const_data_ptr<std::int64_t>();
  if (a.row_lengths.defined())
    problem.row_lengths = {prepared.keep(a.row_lengths.contiguous()).const_data_ptr<std::int64_t>(),
                           a.row_lengths.size(0) == 1 ? 0 : a.queries()};
}

kernels::ElementType element_type(at::ScalarType type) {
  if (type == at::kBFloat16) return kernels::ElementType::bfloat16;
  return type == at::kHalf ? kernels::ElementType::float16 : kernels::ElementType::float32;
}

Prepared prepare(const AttentionArguments& a) {
  Prepared prepared;
  auto& problem = prepared.problem;
  problem.batches = a.batch();
  problem.heads = a.heads();
  problem.queries = a.queries();
  problem.keys = a.keys();
  problem.key_width = a.q.size(3);
  problem.value_width = a.v.size(3);
  problem.softmax_scale = static_cast<float>(a.scale());
  problem.type = element_type(a.q.scalar_type());
  problem.q = kernel_rows(prepared.keep(with_unit_stride(a.q)));
  problem.k = kernel_rows(prepared.keep(with_unit_stride(a.k)));
  problem.v = kernel_rows(prepared.keep(with_unit_stride(a.v)));
  prepare_bias(a, prepared);
  prepare_masks(a, prepared);
  problem.dropout = {.probability = a.dropout, .seed = static_cast<std::uint64_t>(a.seed)};
  problem.parallel = torch_threads();
  return prepared;
}

}  // namespace

std::vector<std::string> fused_obstacles(const AttentionArguments& a) {
  std::vector<std::string> obstacles;
  if (!a.q.is_cpu()) obstacles.push_back("fused: q lies on " + a.q.device().str() + ", the kernels run on the CPU");
  if (a.q.scalar_type() == at::kDouble)
    obstacles.push_back(std::string("fused: q is ") + c10::toString(a.q.scalar_type()) +
                        ", the kernels take float, bfloat16 and half");
  kernels::AttentionProblem sizes;
  sizes.keys = a.keys();
  sizes.key_width = a.q.size(3);
  sizes.value_width = a.v.size(3);
  for (const auto& obstacle : kernels::size_obstacles(sizes)) obstacles.push_back("fused: " + obstacle);
  return obstacles;
}

ForwardResult fused_forward(const AttentionArguments& a) {
  const auto prepared = prepare(a);
  ForwardResult result = empty_results(a);
  kernels::ForwardResult out{.output = result.output.data_ptr(),
                             .output_strides = kernel_strides(result.output),
                             .logsumexp = result.logsumexp.data_ptr<float>(),
                             .statistics = {}};
  at::Tensor keys_left;
  if (a.statistics) {
    const auto row = [&](Statistic which) { return result.row_statistics.select(0, which).data_ptr<float>(); };
    keys_left = at::empty(result.logsumexp.sizes(), result.logsumexp.options().dtype(at::kLong));
    out.statistics = {.entropy = row(kEntropy),
                      .largest_weight = row(kLargestWeight),
                      .sum_of_squares = row(kSumOfSquares),
                      .segment_mass = a.segment_offsets.defined() ? result.segment_mass.data_ptr<float>() : nullptr,
                      .change = row(kChange),
                      .divergence = row(kDivergence),
                      .keys_left = keys_left.data_ptr<std::int64_t>()};
  }
  kernels::forward(prepared.problem, out);
  if (a.statistics) result.row_statistics.select(0, kKeysLeft).copy_(keys_left);
  return result;
}

std::array<at::Tensor, kGradients> fused_backward(const AttentionArguments& a, const at::Tensor& output,
                                                  const at::Tensor& logsumexp, const at::Tensor& grad_output,
                                                  const at::Tensor& grad_logsumexp, const Needs& needs) {
  auto prepared = prepare(a);
  const auto saved = prepared.keep(with_unit_stride(output));
  const auto incoming = prepared.keep(with_unit_stride(grad_output));
  const auto lse = prepared.keep(logsumexp.contiguous());
  const kernels::BackwardInput input{
      .output = kernel_rows(saved),
      .logsumexp = lse.const_data_ptr<float>(),
      .grad_output = kernel_rows(incoming),
      .grad_logsumexp = grad_logsumexp.defined()
                            ? prepared.keep(grad_logsumexp.to(at::kFloat).contiguous()).const_data_ptr<float>()
                            : nullptr};
  const auto inputs = a.differentiable();
  auto gradients = empty_gradients(a, needs, at::kFloat);
  const auto target = [&](Gradient which) {
    return needs[which] ? kernels::GradientRows{gradients[which].data_ptr<float>(), kernel_strides(gradients[which])}
                        : kernels::GradientRows{};
  };
  const auto pointer = [&](Gradient which) { return needs[which] ? gradients[which].data_ptr<float>() : nullptr; };
  kernels::backward(prepared.problem, input,
                    {.q = target(kQuery),
                     .k = target(kKey),
                     .v = target(kValue),
                     .window_value = pointer(kWindowValue),
                     .segment_value = pointer(kSegmentValue),
                     .table_value = pointer(kTableValue),
                     .mask = target(kAttnMask)});
  for (std::size_t i = 0; i < kGradients; ++i)
    if (needs[i]) gradients[i] = gradients[i].to(inputs[i]->scalar_type());
  return gradients;
}

}  // namespace camber::ops
