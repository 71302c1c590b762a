#pragma once
#include <filesystem>
#include <optional>
#include <string_view>

#include "camber/storage/folder_lock.h"

namespace camber::storage {

/// A folder that is written by one process and becomes whole, or is as if nothing had happened. While it is written it
/// holds the file `.unfinished`, which is its lock: a second writer is told who the first is. A process that is killed
/// leaves that file without its lock; the next writer recognises what lies there as unfinished, removes it and begins
/// anew. Without finish() the destructor removes what was written.
///
///   OutputFolder output("world", "simulate", "--out");
///   ...                                                  // write into output.path()
///   output.finish();
class OutputFolder {
 public:
  /// Makes the folder. Throws std::invalid_argument, with `op` and the name of the `option`, for a file and for a
  /// folder that holds other files; std::runtime_error for one that another process works in.
  OutputFolder(std::filesystem::path path, std::string_view op, std::string_view option);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// The folder is whole: the mark is removed.
  void finish();

 private:
  std::filesystem::path path_;
  bool made_ = false;
  std::optional<FolderLock> lock_;
};

/// Whether a folder can be claimed so: it is absent, empty, or was left unfinished.
bool can_be_output(const std::filesystem::path& path);

}  // namespace camber::storage
