#include "camber/episodes/archive.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include <zlib.h>

#include "camber/json/values.h"
#include "episodes/tar.h"

namespace camber::episodes {
namespace {

constexpr std::uint64_t kLargestEntry = std::uint64_t{1} << 30;
constexpr std::uint64_t kMostDeflated = 1032;  // bytes that a byte can become: the format's own bound

std::uint64_t little_endian(const std::byte* bytes, int count) {
  std::uint64_t value = 0;
  for (int i = count - 1; i >= 0; --i) value = value << 8 | static_cast<std::uint64_t>(bytes[i]);
  return value;
}

bool is_hidden(const std::string& name) {
  for (std::size_t start = 0; start < name.size(); start = name.find('/', start)) {
    if (name[start] == '/') ++start;
    if (start < name.size() && name[start] == '.') return true;
    if (name.find('/', start) == std::string::npos) break;
  }
  return name.starts_with("__MACOSX/");
}

}  // namespace

void Archive::refuse(const std::string& what) const {
  throw std::runtime_error("[archive] " + path_.string() + " " + what);
}

std::string Archive::where(std::size_t index) const {
  return path_.string() + ": " + json::shown_text(names_[index]);
}

Archive::Archive(std::filesystem::path path) : path_(std::move(path)) {
  if (std::filesystem::is_directory(path_)) {
    list_folder();
  } else {
    file_ = std::make_unique<storage::MappedFile>(path_);
    const auto bytes = file_->bytes();
    const auto* text = reinterpret_cast<const char*>(bytes.data());
    if (bytes.size() >= 4 && std::memcmp(text, "PK\3\4", 4) == 0) {
      kind_ = Kind::kZip;
      list_zip();
    } else if (looks_like_tar(bytes)) {
      kind_ = Kind::kTar;
      list_tar();
    } else {
      refuse("must be a folder, a zip or a tar, and is none of them");
    }
  }
  std::erase_if(
      entries_, [](const Entry& entry) { return is_hidden(entry.name); });
  std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
  // Of two files of one name the later one counts, as when the archive is unpacked.
  const auto kept =
      std::unique(entries_.rbegin(), entries_.rend(), [](const Entry& a, const Entry& b) { return a.name == b.name; });
  entries_.erase(entries_.begin(), kept.base());
  for (const Entry& entry : entries_) {
    // Names become those of classes, and stand in sentences and tables.
    const auto is_control = [](unsigned char letter) { return letter < 0x20 || letter == 0x7F; };
    if (std::any_of(entry.name.begin(), entry.name.end(), is_control))
      refuse("must hold names without control characters, but one has some");
    names_.push_back(entry.name);
  }
}

void Archive::list_folder() {
  for (const auto& file : std::filesystem::recursive_directory_iterator(path_))
    if (file.is_regular_file()) entries_.push_back({.name = file.path().lexically_relative(path_).generic_string()});
}

void Archive::list_zip() {
  constexpr std::size_t kEndSize = 22, kHeaderSize = 46;
  const auto bytes = file_->bytes();
  const auto* begin = bytes.data();
  // The end record stands in the last 64 KiB, before a comment of any length.
  std::size_t end = bytes.size();
  for (std::size_t back = kEndSize; back <= std::min(bytes.size(), kEndSize + 65535); ++back)
    if (std::memcmp(begin + bytes.size() - back, "PK\5\6", 4) == 0) {
      end = bytes.size() - back;
      break;
    }
  if (end == bytes.size()) refuse("is cut off: its list of files is missing");
  const auto count = little_endian(begin + end + 10, 2);
  std::uint64_t position = little_endian(begin + end + 16, 4);
  if (count == 0xFFFF || position == 0xFFFFFFFF)
    refuse("must hold fewer than 65,535 files and 4 GiB: its list of files is of the zip64 form, which is not read");
  for (std::uint64_t i = 0; i < count; ++i) {
    if (position + kHeaderSize > end || std::memcmp(begin + position, "PK\1\2", 4) != 0)
      refuse("has a damaged list of files");
    const auto flags = little_endian(begin + position + 8, 2), method = little_endian(begin + position + 10, 2);
    const auto name_size = little_endian(begin + position + 28, 2);
    const auto skip = name_size + little_endian(begin + position + 30, 2) + little_endian(begin + position + 32, 2);
    if (position + kHeaderSize + skip > end) refuse("has a damaged list of files");
    Entry entry{.name = {reinterpret_cast<const char*>(begin + position + kHeaderSize), name_size},
                .offset = little_endian(begin + position + 42, 4),
                .compressed = little_endian(begin + position + 20, 4),
                .size = little_endian(begin + position + 24, 4),
                .checksum = static_cast<std::uint32_t>(little_endian(begin + position + 16, 4)),
                .deflated = method == 8};
    position += kHeaderSize + skip;
    if (entry.name.empty() || entry.name.back() == '/') continue;
    if ((flags & 1) != 0 || (method != 0 && method != 8) || entry.size > kLargestEntry)
      refuse("must hold stored or deflated files below 1 GiB without encryption, but '" + json::shown_text(entry.name) +
             "' is not one");
    entries_.push_back(std::move(entry));
  }
}

void Archive::list_tar() {
  const auto wanted = [](const std::string& name) { return !is_hidden(name); };
  for (TarFile& file : episodes::list_tar(file_->bytes(), wanted, [this](const std::string& what) { refuse(what); }))
    entries_.push_back({.name = std::move(file.name), .offset = file.offset, .size = file.size});
}

std::string Archive::read_zip(const Entry& entry) const {
  constexpr std::uint64_t kLocalSize = 30;
  const auto bytes = file_->bytes();
  const auto damaged = [&](const char* how) {
    refuse("has a damaged file '" + json::shown_text(entry.name) + "': " + how);
  };
  if (entry.offset + kLocalSize > bytes.size() || std::memcmp(bytes.data() + entry.offset, "PK\3\4", 4) != 0)
    damaged("its header is missing");
  const std::uint64_t start = entry.offset + kLocalSize + little_endian(bytes.data() + entry.offset + 26, 2) +
                              little_endian(bytes.data() + entry.offset + 28, 2);
  if (start + entry.compressed > bytes.size()) damaged("it is cut off");
  if (entry.size > (entry.compressed + 1) * kMostDeflated) damaged("its size is not as stated");
  const auto* source = reinterpret_cast<const Bytef*>(bytes.data() + start);
  std::string content(entry.size, '\0');
  auto* target = reinterpret_cast<Bytef*>(content.data());
  if (entry.deflated) {
    z_stream stream{};
    stream.next_in = const_cast<Bytef*>(source);
    stream.avail_in = static_cast<uInt>(entry.compressed);
    stream.next_out = target;
    stream.avail_out = static_cast<uInt>(entry.size);
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) damaged("it cannot be inflated");
    const int result = inflate(&stream, Z_FINISH);
    inflateEnd(&stream);
    if (result != Z_STREAM_END || stream.total_out != entry.size) damaged("its size is not as stated");
  } else {
    if (entry.compressed != entry.size) damaged("its size is not as stated");
    if (entry.size > 0) std::memcpy(target, source, entry.size);
  }
  if (crc32(0, target, static_cast<uInt>(entry.size)) != entry.checksum) damaged("its sum does not hold");
  return content;
}

std::string Archive::read(std::size_t index) const {
  const Entry& entry = entries_.at(index);
  switch (kind_) {
    case Kind::kFolder:
      storage::check_inside(path_, path_ / entry.name);
      return storage::read_file(path_ / entry.name);
    case Kind::kZip:
      return read_zip(entry);
    case Kind::kTar:
      return {reinterpret_cast<const char*>(file_->bytes().data()) + entry.offset, entry.size};
  }
  throw std::logic_error("[archive] unknown kind");
}

}  // namespace camber::episodes
