#include <utility>

#include <ATen/TensorOperators.h>

#include "ops/attention_arguments.h"

// What biased_attention refuses before work begins.
namespace camber::ops {
namespace {

bool is_float(const at::Tensor& tensor) {
  const auto type = tensor.scalar_type();
  return type == at::kFloat || type == at::kDouble || type == at::kHalf || type == at::kBFloat16;
}

void check_type(const char* name, const at::Tensor& tensor, at::ScalarType type, const char* type_name) {
  TORCH_CHECK_VALUE(tensor.scalar_type() == type, "[biased_attention] ", name, " must be ", type_name, ", got ",
                    describe(tensor));
}

void check_device(const char* op, const char* name, const at::Tensor& tensor, const at::Tensor& q) {
  TORCH_CHECK_VALUE(!tensor.defined() || tensor.device() == q.device(), "[", op, "] ", name,
                    " must be on the device of q, ", q.device(), ", got ", tensor.device());
}

void check_devices(const AttentionArguments& a) {
  constexpr std::array<const char*, AttentionArguments::kTensors> kNames = {"q",
                                                                            "k",
                                                                            "v",
                                                                            "row_offsets",
                                                                            "key_index",
                                                                            "window_value",
                                                                            "segment_offsets",
                                                                            "segment_value",
                                                                            "segment_available",
                                                                            "attn_mask",
                                                                            "blocked_mask",
                                                                            "key_padding_mask",
                                                                            "key_lengths",
                                                                            "row_lengths",
                                                                            "table_value",
                                                                            "table_index",
                                                                            "query_code",
                                                                            "key_code"};
  const auto tensors = a.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i] == &a.segment_offsets && tensors[i]->defined() && tensors[i]->is_cpu()) continue;
    check_device("biased_attention", kNames[i], *tensors[i], a.q);
  }
}

void check_qkv(const AttentionArguments& a) {
  TORCH_CHECK_VALUE(a.q.dim() == 4 && is_float(a.q),
                    "[biased_attention] q must be a float, double, half or bfloat16 tensor [B, H, Q, D], got ",
                    describe(a.q));
  for (const auto& [name, tensor] : {std::pair{"k", a.k}, std::pair{"v", a.v}}) {
    TORCH_CHECK_VALUE(tensor.dim() == 4 && tensor.scalar_type() == a.q.scalar_type(), "[biased_attention] ", name,
                      " must have four dimensions and the dtype of q (", a.q.scalar_type(), "), got ",
                      describe(tensor));
    TORCH_CHECK_VALUE(tensor.sym_size(0) == a.q.sym_size(0) && tensor.sym_size(1) == a.q.sym_size(1),
                      "[biased_attention] ", name, " must have the batch and heads of q ", a.q.sym_sizes(), ", got ",
                      tensor.sym_sizes());
  }
  TORCH_CHECK_VALUE(a.k.sym_size(3) == a.q.sym_size(3), "[biased_attention] k must have the head dimension of q, ",
                    a.q.sym_size(3), ", got ", a.k.sym_size(3));
  TORCH_CHECK_VALUE(a.v.sym_size(2) == a.k.sym_size(2), "[biased_attention] v must have as many keys as k, ",
                    a.k.sym_size(2), ", got ", a.v.sym_size(2));
  TORCH_CHECK_VALUE(a.dropout >= 0 && a.dropout < 1, "[biased_attention] dropout must lie in [0, 1), got ", a.dropout);
  check_softmax_scale("biased_attention", a.softmax_scale, a.compute_type());
}

void check_bias(const AttentionArguments& a) {
  const bool any_window = a.row_offsets.defined() || a.key_index.defined() || a.window_value.defined();
  if (any_window) {
    TORCH_CHECK_VALUE(a.row_offsets.defined() && a.key_index.defined() && a.window_value.defined(),
                      "[biased_attention] row_offsets, key_index and window_value must come together");
    check_type("row_offsets", a.row_offsets, at::kLong, "int64 [B*Q+1]");
    check_type("key_index", a.key_index, at::kInt, "int32 [nnz]");
    TORCH_CHECK_VALUE(a.row_offsets.dim() == 1 && a.row_offsets.sym_size(0) == a.q.sym_size(0) * a.q.sym_size(2) + 1,
                      "[biased_attention] row_offsets must have B*Q+1 = ", a.q.sym_size(0) * a.q.sym_size(2) + 1,
                      " entries, got ", a.row_offsets.sym_sizes());
    TORCH_CHECK_VALUE(is_float(a.window_value) && a.window_value.dim() == 2 && a.key_index.dim() == 1 &&
                          a.window_value.sym_size(1) == a.key_index.sym_size(0) &&
                          (a.window_value.sym_size(0) == 1 || a.window_value.sym_size(0) == a.q.sym_size(1)),
                      "[biased_attention] window_value must be float [1 or H, nnz] = [1 or ", a.q.sym_size(1), ", ",
                      a.key_index.sym_size(0), "], got ", describe(a.window_value));
  }
  if (a.segment_offsets.defined()) {
    check_type("segment_offsets", a.segment_offsets, at::kLong, "int64 [S+1]");
    TORCH_CHECK_VALUE(a.segment_offsets.dim() == 1 && a.segment_offsets.sym_size(0) >= 1,
                      "[biased_attention] segment_offsets must have S+1 entries, got ", a.segment_offsets.sym_sizes());
  }
  TORCH_CHECK_VALUE(a.segment_offsets.defined() || (!a.segment_value.defined() && !a.segment_available.defined()),
                    "[biased_attention] segment_value and segment_available need segment_offsets");
  if (a.segment_value.defined()) {
    const auto s = a.segment_offsets.sym_size(0) - 1;
    const auto& value = a.segment_value;
    TORCH_CHECK_VALUE(is_float(value) && value.dim() == 4 && value.sym_size(0) == a.q.sym_size(0) &&
                          (value.sym_size(1) == 1 || value.sym_size(1) == a.q.sym_size(1)) &&
                          value.sym_size(2) == a.q.sym_size(2) && value.sym_size(3) == s,
                      "[biased_attention] segment_value must be float [B, 1 or H, Q, S] = [", a.q.sym_size(0),
                      ", 1 or ", a.q.sym_size(1), ", ", a.q.sym_size(2), ", ", s, "], got ", describe(value));
  }
}

void check_table(const AttentionArguments& a) {
  const bool by_codes = a.query_code.defined() && a.key_code.defined() && !a.table_index.defined();
  const bool by_index = a.table_index.defined() && !a.query_code.defined() && !a.key_code.defined();
  if (!a.table_value.defined()) {
    TORCH_CHECK_VALUE(!a.table_index.defined() && !a.query_code.defined() && !a.key_code.defined(),
                      "[biased_attention] table_index, query_code and key_code need table_value");
    return;
  }
  TORCH_CHECK_VALUE(by_codes || by_index,
                    "[biased_attention] table_value must come with table_index, or with query_code and key_code");
  TORCH_CHECK_VALUE(is_float(a.table_value) && a.table_value.dim() == 2 &&
                        (a.table_value.sym_size(0) == 1 || a.table_value.sym_size(0) == a.q.sym_size(1)),
                    "[biased_attention] table_value must be float [1 or H, T] = [1 or ", a.q.sym_size(1), ", T], got ",
                    describe(a.table_value));
  const auto check_codes = [](const char* name, const at::Tensor& codes, const char* shape,
                              const c10::SymDimVector& sizes) {
    check_type(name, codes, at::kInt, shape);
    TORCH_CHECK_VALUE(codes.sym_sizes() == c10::SymIntArrayRef(sizes), "[biased_attention] ", name, " must be ", shape,
                      " = ", c10::SymIntArrayRef(sizes), ", got ", codes.sym_sizes());
  };
  if (by_index) check_codes("table_index", a.table_index, "int32 [Q, K]", {a.q.sym_size(2), a.k.sym_size(2)});
  if (by_codes) check_codes("query_code", a.query_code, "int32 [Q]", {a.q.sym_size(2)});
  if (by_codes) check_codes("key_code", a.key_code, "int32 [K]", {a.k.sym_size(2)});
}

// [1|B, 1|H, Q, K]
void check_pair_mask(const char* name, const AttentionArguments& a, const at::Tensor& mask) {
  const bool fits = mask.dim() == 4 && (mask.sym_size(0) == 1 || mask.sym_size(0) == a.q.sym_size(0)) &&
                    (mask.sym_size(1) == 1 || mask.sym_size(1) == a.q.sym_size(1)) &&
                    mask.sym_size(2) == a.q.sym_size(2) && mask.sym_size(3) == a.k.sym_size(2);
  TORCH_CHECK_VALUE(fits, "[biased_attention] ", name, " must be [1 or B, 1 or H, Q, K] = [1 or ", a.q.sym_size(0),
                    ", 1 or ", a.q.sym_size(1), ", ", a.q.sym_size(2), ", ", a.k.sym_size(2), "], got ",
                    mask.sym_sizes());
}

void check_masks(const AttentionArguments& a) {
  if (a.attn_mask.defined()) {
    TORCH_CHECK_VALUE(is_float(a.attn_mask),
                      "[biased_attention] attn_mask must be a float tensor (a bool mask goes in "
                      "as blocked_mask, true = blocked), got ",
                      describe(a.attn_mask));
    check_pair_mask("attn_mask", a, a.attn_mask);
  }
  if (a.blocked_mask.defined()) {
    check_type("blocked_mask", a.blocked_mask, at::kBool, "bool (true = blocked)");
    check_pair_mask("blocked_mask", a, a.blocked_mask);
  }
  if (a.key_padding_mask.defined()) {
    check_type("key_padding_mask", a.key_padding_mask, at::kBool, "bool [B, K] (true = blocked)");
    TORCH_CHECK_VALUE(a.key_padding_mask.dim() == 2 && a.key_padding_mask.sym_size(0) == a.q.sym_size(0) &&
                          a.key_padding_mask.sym_size(1) == a.k.sym_size(2),
                      "[biased_attention] key_padding_mask must be [B, K] = [", a.q.sym_size(0), ", ", a.k.sym_size(2),
                      "], got ", a.key_padding_mask.sym_sizes());
  }
  if (a.key_lengths.defined()) {
    check_type("key_lengths", a.key_lengths, at::kLong, "int64 [B]");
    TORCH_CHECK_VALUE(a.key_lengths.dim() == 1 && a.key_lengths.sym_size(0) == a.q.sym_size(0),
                      "[biased_attention] key_lengths must be [B] = [", a.q.sym_size(0), "], got ",
                      a.key_lengths.sym_sizes());
  }
  if (a.row_lengths.defined()) {
    check_type("row_lengths", a.row_lengths, at::kLong, "int64 [1 or B, Q]");
    TORCH_CHECK_VALUE(a.row_lengths.dim() == 2 &&
                          (a.row_lengths.sym_size(0) == 1 || a.row_lengths.sym_size(0) == a.q.sym_size(0)) &&
                          a.row_lengths.sym_size(1) == a.q.sym_size(2),
                      "[biased_attention] row_lengths must be [1 or B, Q] = [1 or ", a.q.sym_size(0), ", ",
                      a.q.sym_size(2), "], got ", a.row_lengths.sym_sizes());
  }
  if (a.segment_available.defined()) {
    check_type("segment_available", a.segment_available, at::kBool, "bool [B, S]");
    TORCH_CHECK_VALUE(a.segment_available.dim() == 2 && a.segment_available.sym_size(0) == a.q.sym_size(0) &&
                          a.segment_available.sym_size(1) == a.segment_offsets.sym_size(0) - 1,
                      "[biased_attention] segment_available must be [B, S] = [", a.q.sym_size(0), ", ",
                      a.segment_offsets.sym_size(0) - 1, "], got ", a.segment_available.sym_sizes());
  }
}

}  // namespace

void check_shapes(const AttentionArguments& arguments) {
  check_devices(arguments);
  check_qkv(arguments);
  check_bias(arguments);
  check_table(arguments);
  check_masks(arguments);
}

void check_backward_shapes(const AttentionArguments& a, const BackwardTensors& t) {
  const auto check = [&](const char* name, const at::Tensor& tensor, const c10::SymDimVector& sizes,
                         at::ScalarType type) {
    check_device("biased_attention_backward", name, tensor, a.q);
    TORCH_CHECK_VALUE(tensor.scalar_type() == type && tensor.sym_sizes() == c10::SymIntArrayRef(sizes),
                      "[biased_attention_backward] ", name, " must be ", c10::toString(type), " ",
                      c10::SymIntArrayRef(sizes), ", got ", describe(tensor));
  };
  const c10::SymDimVector rows = {a.q.sym_size(0), a.q.sym_size(1), a.q.sym_size(2)};
  c10::SymDimVector outputs = rows;
  outputs.push_back(a.v.sym_size(3));
  check("grad_output", t.grad_output, outputs, a.q.scalar_type());
  check("output", t.output, outputs, a.q.scalar_type());
  check("logsumexp", t.logsumexp, rows, a.compute_type());
  if (t.grad_logsumexp.defined()) check("grad_logsumexp", t.grad_logsumexp, rows, a.compute_type());
}

namespace {

// The smallest and the largest entry that the codes or the index name lie in the table.
void check_table_entries(const AttentionArguments& a) {
  if (!a.table_value.defined() || a.queries() == 0 || a.keys() == 0) return;
  const auto ends = [](const at::Tensor& codes) {
    return std::pair{codes.min().item<std::int64_t>(), codes.max().item<std::int64_t>()};
  };
  std::pair<std::int64_t, std::int64_t> found;
  if (a.table_index.defined()) {
    found = ends(a.table_index);
  } else {
    const auto keys = ends(a.key_code), queries = ends(a.query_code);
    found = {keys.first - queries.second, keys.second - queries.first};
  }
  TORCH_CHECK_VALUE(found.first >= 0 && found.second < a.table_value.size(1), "[biased_attention] ",
                    a.table_index.defined() ? "table_index" : "key_code - query_code",
                    " must lie in 0 .. T-1 = ", a.table_value.size(1) - 1, ", got ", found.first, " to ", found.second);
}

}  // namespace

void check_indices(const AttentionArguments& a) {
  if (a.row_offsets.defined()) check_rows("biased_attention", a.row_offsets, a.key_index, a.keys());
  if (a.segment_offsets.defined())
    check_offsets("biased_attention", "segment_offsets", a.segment_offsets, "segment", "K", a.keys());
  const auto check_lengths = [&](const char* name, const at::Tensor& tensor, const char* item) {
    if (!tensor.defined()) return;
    const auto lengths = tensor.contiguous();
    for (std::int64_t i = 0; i < lengths.numel(); ++i) {
      const std::int64_t length = lengths.const_data_ptr<std::int64_t>()[i];
      TORCH_CHECK_VALUE(length >= 0 && length <= a.keys(), "[biased_attention] ", name,
                        " must lie in 0 .. K = ", a.keys(), ", got ", length, " for ", item, " ", i);
    }
  };
  check_table_entries(a);
  check_lengths("key_lengths", a.key_lengths, "batch element");
  check_lengths("row_lengths", a.row_lengths, "row");
}

void check_contents(const AttentionArguments& a) {
  check_indices(a);
  check_bias_values("biased_attention", "window_value", a.window_value, a.compute_type());
  check_bias_values("biased_attention", "segment_value", a.segment_value, a.compute_type());
  check_bias_values("biased_attention", "attn_mask", a.attn_mask, a.compute_type());
  check_bias_values("biased_attention", "table_value", a.table_value, a.compute_type());
}

}  // namespace camber::ops
