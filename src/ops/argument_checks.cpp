#include "ops/argument_checks.h"

#include <cmath>
#include <limits>
#include <sstream>

#include <ATen/TensorOperators.h>

namespace camber::ops {
namespace {

const char* type_name(at::ScalarType compute_type) {
  return compute_type == at::kDouble ? "double" : "float";
}

}  // namespace

std::string describe(const at::Tensor& tensor) {
  std::ostringstream text;
  text << c10::toString(tensor.scalar_type()) << " " << tensor.sym_sizes();
  return text.str();
}

void check_offsets(const char* op, const char* name, const at::Tensor& offsets, const char* item, const char* end_name,
                   std::int64_t end) {
  const auto dense = offsets.contiguous();
  const auto* data = dense.const_data_ptr<std::int64_t>();
  const std::int64_t items = offsets.size(0) - 1;
  TORCH_CHECK_VALUE(data[0] == 0 && data[items] == end, "[", op, "] ", name, " must run from 0 to ", end_name, " = ",
                    end, ", got ", data[0], " to ", data[items]);
  for (std::int64_t i = 0; i < items; ++i)
    TORCH_CHECK_VALUE(data[i] <= data[i + 1], "[", op, "] ", name, " must never fall, got ", data[i], " then ",
                      data[i + 1], " at ", item, " ", i);
}

void check_rows(const char* op, const at::Tensor& row_offsets, const at::Tensor& key_index, std::int64_t keys) {
  check_offsets(op, "row_offsets", row_offsets, "row", "nnz", key_index.size(0));
  const auto dense_offsets = row_offsets.contiguous(), dense_index = key_index.contiguous();
  const auto* offsets = dense_offsets.const_data_ptr<std::int64_t>();
  const auto* index = dense_index.const_data_ptr<std::int32_t>();
  // Without a branch, so that the compiler takes many entries at a time; what is wrong is found afterwards.
  std::int64_t wrong = 0;
  for (std::int64_t row = 0; row < row_offsets.size(0) - 1; ++row) {
    const std::int64_t first = offsets[row], last = offsets[row + 1];
    if (first == last) continue;
    wrong += static_cast<int>(index[first] < 0) + static_cast<int>(index[last - 1] >= keys);
    std::int32_t falls = 0;
    for (std::int64_t e = first + 1; e < last; ++e) falls |= static_cast<std::int32_t>(index[e - 1] >= index[e]);
    wrong += falls;
  }
  for (std::int64_t row = 0; wrong != 0 && row < row_offsets.size(0) - 1; ++row) {
    for (std::int64_t e = offsets[row]; e < offsets[row + 1]; ++e) {
      TORCH_CHECK_VALUE(index[e] >= 0 && index[e] < keys, "[", op, "] key_index must lie in 0 .. K-1 = ", keys - 1,
                        ", got ", index[e], " in row ", row);
      TORCH_CHECK_VALUE(e == offsets[row] || index[e - 1] < index[e], "[", op,
                        "] key_index must be sorted and unique in a row, got ", index[e - 1], " then ", index[e],
                        " in row ", row);
    }
  }
}

void check_map_index(const char* op, const at::Tensor& map_index, std::int64_t maps) {
  const auto dense = map_index.contiguous();
  const auto* map = dense.const_data_ptr<std::int32_t>();
  for (std::int64_t e = 0; e < map_index.size(0); ++e)
    TORCH_CHECK_VALUE(map[e] >= 0 && map[e] < maps, "[", op, "] map_index must lie in 0 .. M-1 = ", maps - 1, ", got ",
                      map[e]);
}

void check_bias_values(const char* op, const char* name, const at::Tensor& value, at::ScalarType compute_type) {
  if (!value.defined() || value.numel() == 0) return;
  // An eighth of the type's range: windows, segments and mask may meet on one score, and the kernels multiply it with
  // log2(e).
  const int exponent = compute_type == at::kDouble ? 1021 : 125;
  const double limit = std::ldexp(1.0, exponent);
  auto largest = value.detach().max().item<double>();
  // A NaN hides the largest number; it stays in its row.
  if (std::isnan(largest)) {
    const auto wide = value.detach().to(at::kDouble);
    largest = wide.masked_fill(wide.isnan(), -std::numeric_limits<double>::infinity()).max().item<double>();
  }
  TORCH_CHECK_VALUE(largest != std::numeric_limits<double>::infinity(), "[", op, "] ", name,
                    " must be below +inf (-inf removes a key), got +inf");
  TORCH_CHECK_VALUE(largest < limit, "[", op, "] ", name, " must be below 2^", exponent,
                    ", so that a score stays finite in ", type_name(compute_type), ", got ", largest);
}

void check_softmax_scale(const char* op, std::optional<double> scale, at::ScalarType compute_type) {
  if (!scale) return;
  TORCH_CHECK_VALUE(std::isfinite(*scale), "[", op, "] softmax_scale must be finite, got ", *scale);
  TORCH_CHECK_VALUE(compute_type == at::kDouble || std::abs(*scale) <= std::numeric_limits<float>::max(), "[", op,
                    "] softmax_scale must be finite in float, got ", *scale);
}

}  // namespace camber::ops
