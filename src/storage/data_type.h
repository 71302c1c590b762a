#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "camber/storage/safetensors.h"

namespace camber::storage {

inline constexpr std::string_view kMetadataKey = "__metadata__";

std::optional<DataType> data_type_of(std::string_view name);

/// "BOOL, U8, ..."
std::string known_data_types();

/// The bytes that a shape needs; nothing when a side is negative or the product does not fit into 63 bits.
std::optional<std::uint64_t> tensor_bytes(DataType type, const std::vector<std::int64_t>& shape);

}  // namespace camber::storage
