#include "camber/storage/file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "camber/storage/output_folder.h"

namespace camber::storage {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path) {
  throw std::runtime_error(fmt::format("[storage] {} cannot be read: {}", path.string(), std::strerror(errno)));
}

// Closes on every way out.
class OpenFile {
 public:
  explicit OpenFile(const std::filesystem::path& path) : descriptor_(open_regular_file(path)) {}
  ~OpenFile() { close(descriptor_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

// Whether no part of the file's name below the folder is a symbolic link or leads upwards: then it lies inside, and
// neither name has to be followed from the root of the file system on.
bool plainly_inside(const std::filesystem::path& folder, const std::filesystem::path& file) {
  const auto [root_end, part_begin] = std::mismatch(folder.begin(), folder.end(), file.begin(), file.end());
  if (folder.empty() || root_end != folder.end()) return false;
  if (std::find(part_begin, file.end(), "..") != file.end()) return false;
  std::filesystem::path walked = folder;
  for (auto part = part_begin; part != file.end(); ++part) {
    walked /= *part;
    struct stat status {};
    if (lstat(walked.c_str(), &status) != 0) return errno == ENOENT;  // nothing there leads anywhere
    if (S_ISLNK(status.st_mode)) return false;
  }
  return true;
}

}  // namespace

int open_regular_file(const std::filesystem::path& path) {
  // Opening a FIFO for reading waits for its writer unless O_NONBLOCK is set, which regular files do not mind.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) fail(path);
  struct stat status {};
  if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode)) return descriptor;
  close(descriptor);
  throw std::runtime_error(fmt::format("[storage] {} must be a regular file to be read, got {}", path.string(),
                                       S_ISDIR(status.st_mode) ? "a folder" : "a FIFO, a device or a socket"));
}

void check_inside(const std::filesystem::path& folder, const std::filesystem::path& file) {
  if (plainly_inside(folder, file)) return;
  const std::filesystem::path root = std::filesystem::weakly_canonical(folder);
  const std::filesystem::path real = std::filesystem::weakly_canonical(file);
  if (std::mismatch(root.begin(), root.end(), real.begin(), real.end()).first != root.end())
    throw std::runtime_error(fmt::format("[storage] {} must lie inside {}, but leads outside, to {}", file.string(),
                                         folder.string(), real.string()));
}

void check_new_folder(const std::filesystem::path& path, std::string_view op, std::string_view option) {
  std::error_code error;
  if (can_be_output(path)) return;
  throw std::invalid_argument(fmt::format("[{}] {} must be a new or an empty folder, got {}, which {}", op, option,
                                          path.string(),
                                          std::filesystem::is_directory(path, error) ? "holds files" : "is a file"));
}

std::string read_file(const std::filesystem::path& path) {
  const OpenFile file(path);
  std::string content;
  for (std::size_t filled = 0;;) {
    content.resize(std::max<std::size_t>(filled * 2, 1 << 14));
    const ssize_t count = read(file.descriptor(), content.data() + filled, content.size() - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(path);
    filled += static_cast<std::size_t>(count);
    if (count == 0) {
      content.resize(filled);
      return content;
    }
  }
}

MappedFile::MappedFile(const std::filesystem::path& path) {
  const OpenFile file(path);
  struct stat status {};
  if (fstat(file.descriptor(), &status) != 0) fail(path);
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ == 0) return;
  void* address = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (address == MAP_FAILED) fail(path);
  data_ = static_cast<const std::byte*>(address);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace camber::storage
