#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace camber::storage {

/// The descriptor of a regular file opened for reading, which the caller closes. A FIFO, a device, a socket or a folder
/// is refused at once, without waiting for whoever might write to it; throws std::runtime_error that names the path.
int open_regular_file(const std::filesystem::path& path);

/// Throws std::runtime_error when the file, its symbolic links followed, lies outside of the folder.
void check_inside(const std::filesystem::path& folder, const std::filesystem::path& file);

/// Throws std::invalid_argument unless the path can become a folder of its own: nothing is there, an empty folder, or
/// one that was left unfinished (output_folder.h). `op` begins the sentence, `option` names what the user gave.
void check_new_folder(const std::filesystem::path& path, std::string_view op, std::string_view option);

/// The whole content of a regular file; throws std::runtime_error that names the path and the reason.
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
