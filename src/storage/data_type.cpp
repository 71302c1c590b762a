#include "storage/data_type.h"

#include <array>
#include <limits>
#include <utility>

namespace camber::storage {
namespace {

struct TypeEntry {
  DataType type;
  std::string_view name;
  std::size_t bytes;
};

constexpr std::array<TypeEntry, 15> kTypes = {{{DataType::kBool, "BOOL", 1},
                                               {DataType::kU8, "U8", 1},
                                               {DataType::kI8, "I8", 1},
                                               {DataType::kF8E4M3, "F8_E4M3", 1},
                                               {DataType::kF8E5M2, "F8_E5M2", 1},
                                               {DataType::kI16, "I16", 2},
                                               {DataType::kU16, "U16", 2},
                                               {DataType::kF16, "F16", 2},
                                               {DataType::kBF16, "BF16", 2},
                                               {DataType::kI32, "I32", 4},
                                               {DataType::kU32, "U32", 4},
                                               {DataType::kF32, "F32", 4},
                                               {DataType::kI64, "I64", 8},
                                               {DataType::kU64, "U64", 8},
                                               {DataType::kF64, "F64", 8}}};

}  // namespace

std::string_view name(DataType type) {
  return kTypes[static_cast<std::size_t>(type)].name;
}
std::size_t byte_size(DataType type) {
  return kTypes[static_cast<std::size_t>(type)].bytes;
}

std::optional<DataType> data_type_of(std::string_view name) {
  for (const TypeEntry& entry : kTypes)
    if (entry.name == name) return entry.type;
  return std::nullopt;
}

std::string known_data_types() {
  std::string text;
  for (const TypeEntry& entry : kTypes) text += (text.empty() ? "" : ", ") + std::string(entry.name);
  return text;
}

std::optional<std::uint64_t> tensor_bytes(DataType type, const std::vector<std::int64_t>& shape) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  std::uint64_t bytes = byte_size(type);
  bool empty = false;
  for (const std::int64_t side : shape) {
    if (side < 0) return std::nullopt;
    empty = empty || side == 0;
  }
  if (empty) return 0;
  for (const std::int64_t side : shape) {
    if (bytes > kMost / static_cast<std::uint64_t>(side)) return std::nullopt;
    bytes *= static_cast<std::uint64_t>(side);
  }
  return bytes;
}

}  // namespace camber::storage
