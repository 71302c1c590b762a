#pragma once
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace camber::storage {

/// A file that appears whole or not at all. What is written goes to a temporary name in the same folder; commit()
/// flushes it to the disk and renames it over the path, so that a crash at any moment leaves the old file or the new
/// one. Without commit() the temporary is removed. Every failure is a std::runtime_error that names the path.
///
///   AtomicFile file("runs/a/result.json");
///   file.write(text);
///   file.commit();
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::string_view bytes) { write(bytes.data(), bytes.size()); }
  void write(const void* bytes, std::size_t count);
  void commit();

 private:
  void discard();

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
};

/// The same in one call.
void write_file(const std::filesystem::path& path, std::string_view bytes);

/// Throws what writing to the path would throw (no such folder, no right to write there, no regular file), before the
/// work whose result is to stand there. Leaves nothing behind, and removes what a killed process left of this file.
void check_writable(const std::filesystem::path& path);

/// Removes the temporaries of processes that were killed while they wrote in this folder; of files whose name begins
/// so, or of all. Those of processes that live are left alone.
void remove_leftovers(const std::filesystem::path& folder, const std::string& name = "");

}  // namespace camber::storage
