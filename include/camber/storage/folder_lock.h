#pragma once
#include <filesystem>

namespace camber::storage {

/// A folder that only one process (and its children, who inherit the lock) works in. It is held by `file` in that
/// folder, which is made when it is absent and keeps the holder's number and host; the lock itself vanishes with the
/// process, however that ends. One that is held is waited for for `seconds`; then std::runtime_error says who holds it.
///
///   const FolderLock lock("runs/demo/lock");
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& file, double seconds = 0);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// Whether the file was there before, signed by a holder that ended or was killed.
  bool was_signed() const { return was_signed_; }

 private:
  bool was_signed_ = false;
  int descriptor_ = -1;
};

}  // namespace camber::storage
