#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "camber/storage/file.h"

/// Named arrays in one file that Python, Rust and everyone else opens without running code: an 8-byte length, a JSON
/// header, the bytes. (The format is that of the safetensors library; https://github.com/huggingface/safetensors.)
///
///   write_safetensors("weights.safetensors", {{.name = "w", .type = DataType::kF32, .shape = {2, 3}, .bytes = bytes}},
///                     {{"step", "700"}});
///   SafetensorsFile file("weights.safetensors");
///   const TensorView& w = file.at("w");
namespace camber::storage {

enum class DataType { kBool, kU8, kI8, kF8E4M3, kF8E5M2, kI16, kU16, kF16, kBF16, kI32, kU32, kF32, kI64, kU64, kF64 };

/// As the header spells it: "F32".
std::string_view name(DataType type);
std::size_t byte_size(DataType type);

/// One array; the bytes belong to someone else and lie row by row, little-endian.
struct TensorView {
  std::string name{};
  DataType type = DataType::kF32;
  std::vector<std::int64_t> shape{};
  std::span<const std::byte> bytes{};
};

using Metadata = std::map<std::string, std::string>;

/// A file opened for reading. Everything is checked before the constructor returns: header length, JSON, types, shapes,
/// that the arrays fill the data without gap or overlap, and that the file is whole. What is wrong is a
/// std::runtime_error with one sentence that names the file and the tensor.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  /// In the order of their bytes. The spans are valid while this object lives.
  const std::vector<TensorView>& tensors() const { return tensors_; }
  /// nullptr when there is none of this name.
  const TensorView* find(std::string_view tensor_name) const;
  /// Throws std::runtime_error that names the file.
  const TensorView& at(std::string_view tensor_name) const;
  const Metadata& metadata() const { return metadata_; }

 private:
  std::filesystem::path path_;
  std::unique_ptr<MappedFile> file_;
  std::vector<TensorView> tensors_;
  std::map<std::string, std::size_t, std::less<>> index_;
  Metadata metadata_;
};

/// Writes a file atomically. The arrays lie by falling size of their elements, then by name, each aligned to its
/// elements and the first to 8 bytes: the same content gives the same bytes, whatever the order given. Throws
/// std::invalid_argument, naming the tensor, for a name given twice or a number of bytes that is not the shape's.
void write_safetensors(const std::filesystem::path& path, const std::vector<TensorView>& tensors,
                       const Metadata& metadata = {});

}  // namespace camber::storage
