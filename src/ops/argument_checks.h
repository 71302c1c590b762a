#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include <ATen/core/Tensor.h>

/// What the operators check of their arguments before they index or compute with them. Contents are read: CPU tensors
/// only, and what has the right shape and type.
namespace camber::ops {

/// "float [2, 4, 8]": how a tensor is named in an error.
std::string describe(const at::Tensor& tensor);

/// int64 [n+1] that starts at 0, never falls and ends at `end`: where the n items of a list begin.
void check_offsets(const char* op, const char* name, const at::Tensor& offsets, const char* item, const char* end_name,
                   std::int64_t end);
/// Sparse rows: offsets as above, and int32 [nnz] keys in 0 .. keys-1, sorted and unique in a row.
void check_rows(const char* op, const at::Tensor& row_offsets, const at::Tensor& key_index, std::int64_t keys);
/// int32 [nnz] in 0 .. maps-1.
void check_map_index(const char* op, const at::Tensor& map_index, std::int64_t maps);

/// A bias that cannot make a score +inf, whose weight would be NaN. Undefined: nothing to check.
void check_bias_values(const char* op, const char* name, const at::Tensor& value, at::ScalarType compute_type);
/// A scale that is a number in the type that scores are computed in.
void check_softmax_scale(const char* op, std::optional<double> scale, at::ScalarType compute_type);

}  // namespace camber::ops
