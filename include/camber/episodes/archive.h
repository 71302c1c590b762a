#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "camber/storage/file.h"

namespace camber::episodes {

/// The regular files of a folder, a zip or a tar, read alike: what it is shows the path itself.
///
///   const Archive archive("omniglot/images_background_small1.zip");
///   for (std::size_t i = 0; i < archive.names().size(); ++i) decode(archive.read(i), archive.where(i));
///
/// Zip: stored and deflated entries without encryption, sums checked, no zip64. Tar: the ustar form with PAX records
/// (path, linkpath, size) or GNU's long names, not compressed; links are the files that they lead to. Whatever is
/// damaged, cut off or of another form is a std::runtime_error that names path and entry.
class Archive {
 public:
  explicit Archive(std::filesystem::path path);

  /// Relative names with slashes, sorted. Hidden files and folders, which systems leave behind, are left out.
  const std::vector<std::string>& names() const { return names_; }
  /// The whole content of one file.
  std::string read(std::size_t index) const;
  /// "folder/pacs.tar: photo/dog/1.jpg", for sentences.
  std::string where(std::size_t index) const;
  const std::filesystem::path& path() const { return path_; }

 private:
  struct Entry {
    std::string name{};
    std::uint64_t offset = 0;      // of its bytes in a tar, of its local header in a zip
    std::uint64_t compressed = 0;  // bytes it takes in the file
    std::uint64_t size = 0;        // bytes it has
    std::uint32_t checksum = 0;
    bool deflated = false;
  };
  enum class Kind { kFolder, kZip, kTar };

  void list_folder();
  void list_zip();
  void list_tar();
  std::string read_zip(const Entry& entry) const;
  [[noreturn]] void refuse(const std::string& what) const;

  std::filesystem::path path_;
  Kind kind_ = Kind::kFolder;
  std::unique_ptr<storage::MappedFile> file_;
  std::vector<Entry> entries_;
  std::vector<std::string> names_;
};

}  // namespace camber::episodes
