#pragma once
#include <cstdint>
#include <string>

namespace camber::detection::cmt {

/// Whether a tensor of the original is the weight of a sparse convolution, whose module mmdetection3d marks with
/// version 2.
bool is_sparse_weight(const std::string& name, std::int64_t dimensions);

}  // namespace camber::detection::cmt
