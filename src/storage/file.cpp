#include "camber/storage/file.h"

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace camber::storage {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path) {
  throw std::runtime_error(fmt::format("[storage] {} cannot be read: {}", path.string(), std::strerror(errno)));
}

// Closes on every way out.
class OpenFile {
 public:
  explicit OpenFile(const std::filesystem::path& path) : descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) fail(path);
  }
  ~OpenFile() { close(descriptor_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

}  // namespace

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
  if (!S_ISREG(status.st_mode))
    throw std::runtime_error(fmt::format("[storage] {} must be a regular file to be read", path.string()));
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
