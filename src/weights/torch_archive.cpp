#include "weights/torch_archive.h"

#include <algorithm>
#include <cstring>

namespace camber::weights {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::size_t kEndSize = 22, kLocatorSize = 20, kEnd64Size = 56, kHeaderSize = 46, kLongestComment = 65535;
constexpr std::uint64_t kElsewhere = 0xFFFFFFFF;  // of a 32-bit field: the value stands among the zip64 fields

std::uint64_t number(Bytes bytes, std::size_t at, std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t i = count; i-- > 0;) value = value << 8 | static_cast<std::uint64_t>(bytes[at + i]);
  return value;
}

bool has(Bytes bytes, std::uint64_t at, std::size_t size, const char* signature) {
  return at <= bytes.size() && size <= bytes.size() - at && std::memcmp(bytes.data() + at, signature, 4) == 0;
}

struct FileList {
  std::uint64_t entries = 0, offset = 0;
};

// The last end record; before it, in the zip64 form, a locator of the one with numbers of 64 bits.
std::optional<FileList> list_of(Bytes bytes) {
  if (bytes.size() < kEndSize) return std::nullopt;
  const std::size_t first = bytes.size() - kEndSize - std::min(bytes.size() - kEndSize, kLongestComment);
  std::size_t end = bytes.size() - kEndSize;
  while (!has(bytes, end, kEndSize, "PK\5\6"))
    if (end-- == first) return std::nullopt;
  if (end < kLocatorSize || !has(bytes, end - kLocatorSize, kLocatorSize, "PK\6\7"))
    return FileList{number(bytes, end + 10, 2), number(bytes, end + 16, 4)};
  const std::uint64_t end64 = number(bytes, end - kLocatorSize + 8, 8);
  if (!has(bytes, end64, kEnd64Size, "PK\6\6")) return std::nullopt;
  return FileList{number(bytes, end64 + 32, 8), number(bytes, end64 + 48, 8)};
}

// Of an entry whose 32-bit size says that it stands elsewhere: the first number of its zip64 field.
std::optional<std::uint64_t> long_size(Bytes extra) {
  for (std::size_t at = 0; extra.size() - at >= 4;) {
    const std::size_t size = number(extra, at + 2, 2);
    if (size > extra.size() - at - 4) return std::nullopt;
    if (number(extra, at, 2) == 1) return size < 8 ? std::nullopt : std::optional(number(extra, at + 4, 8));
    at += 4 + size;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> largest_stated_size(std::span<const std::byte> archive) {
  const auto list = list_of(archive);
  if (!list) return std::nullopt;
  std::uint64_t largest = 0, at = list->offset;
  for (std::uint64_t i = 0; i < list->entries; ++i) {
    if (!has(archive, at, kHeaderSize, "PK\1\2")) return std::nullopt;
    const std::size_t name = number(archive, at + 28, 2), extra = number(archive, at + 30, 2);
    const std::uint64_t rest = at + kHeaderSize + name;
    if (rest > archive.size() || extra > archive.size() - rest) return std::nullopt;
    std::optional<std::uint64_t> size = number(archive, at + 24, 4);
    if (size == kElsewhere) size = long_size(archive.subspan(rest, extra));
    if (!size) return std::nullopt;
    largest = std::max(largest, *size);
    at = rest + extra + number(archive, at + 32, 2);
  }
  return largest;
}

}  // namespace camber::weights
