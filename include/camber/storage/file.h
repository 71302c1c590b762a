#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace camber::storage {

/// The whole content of a file; throws std::runtime_error that names the path and the reason.
std::string read_file(const std::filesystem::path& path);

/// A file mapped for reading: its pages come from the disk when they are touched. The bytes stay valid while the object
/// lives, also when the path is renamed over meanwhile.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace camber::storage
