#pragma once
#include <cstdint>
#include <filesystem>
#include <string_view>

namespace camber::health {

/// A file that only grows: each record goes to the operating system in one call at its end, so that a process killed
/// at any moment leaves whole records and at most one cut short.
class AppendFile {
 public:
  AppendFile() = default;
  /// Opens or makes the file and cuts it to `keep` bytes; a negative number keeps all of it.
  AppendFile(std::filesystem::path path, std::int64_t keep);
  ~AppendFile();
  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&& other) noexcept;

  void append(std::string_view record);
  /// Brings what was written to the disk.
  void flush();
  const std::filesystem::path& path() const { return path_; }

 private:
  void close();

  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace camber::health
