#include "episodes/tar.h"

#include <charconv>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <stdexcept>

#include "camber/json/values.h"

namespace camber::episodes {
namespace {

using Wanted = std::function<bool(const std::string&)>;
using Refuse = std::function<void(const std::string&)>;
using json::shown_text;
using PaxRecords = std::map<std::string, std::string, std::less<>>;

std::string text_field(const char* text, std::size_t count) {
  return {text, strnlen(text, count)};
}

// Octal digits between blanks, as tar writes its numbers; -1 when they are none.
std::int64_t octal(const char* text, std::size_t count) {
  std::int64_t value = 0;
  bool any = false;
  for (std::size_t i = 0; i < count && text[i] != '\0'; ++i) {
    if (text[i] == ' ') {
      if (any) break;
      continue;
    }
    if (text[i] < '0' || text[i] > '7') return -1;
    value = value * 8 + (text[i] - '0');
    any = true;
  }
  return any ? value : -1;
}

// GNU writes sizes from 8 GiB on, and may write any, with the first bit set and the rest as a binary number.
std::int64_t size_field(const char* text) {
  constexpr std::size_t kDigits = 12;
  if ((static_cast<unsigned char>(text[0]) & 0x80U) == 0) return octal(text, kDigits);
  std::int64_t value = static_cast<unsigned char>(text[0]) & 0x7FU;
  for (std::size_t i = 1; i < kDigits; ++i) {
    if (value >> 54 != 0) return -1;
    value = value << 8 | static_cast<unsigned char>(text[i]);
  }
  return value;
}

// The unsigned sum of the header's bytes, its own field counted as blanks.
bool sum_holds(const char* header) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < kTarBlock; ++i) sum += i >= 148 && i < 156 ? ' ' : static_cast<unsigned char>(header[i]);
  return octal(header + 148, 8) == sum;
}

std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string normal(const std::string& name) {
  std::string path = std::filesystem::path(name).lexically_normal().generic_string();
  return path == "." ? "" : path;
}

// Walks the headers; what stands before an entry (records, long names) is kept until it comes.
class TarReader {
 public:
  TarReader(std::span<const std::byte> bytes, const Wanted& wanted, const Refuse& refuse)
      : text_(reinterpret_cast<const char*>(bytes.data())), size_(bytes.size()), wanted_(wanted), refuse_(refuse) {}

  std::vector<TarFile> read() {
    std::size_t position = 0;
    while (position + kTarBlock <= size_ && text_[position] != '\0') position = read_entry(position);
    if (position >= size_) refuse("is cut off: its closing block is missing");
    resolve_links();
    return std::move(files_);
  }

 private:
  struct Link {
    std::string name{}, target{};
    bool hard = false;
  };

  [[noreturn]] void refuse(const std::string& what) const {
    refuse_(what);
    throw std::logic_error("[list_tar] refuse must throw");
  }
  std::size_t read_entry(std::size_t position);
  void add_records(std::string_view text, PaxRecords& records) const;
  void add_entry(const char* header, std::uint64_t data, std::uint64_t length);
  const std::string* record(std::string_view key) const;
  std::string name_of(const char* header) const;
  std::string link_of(const char* header) const;
  void resolve_links();

  const char* text_;
  const std::size_t size_;
  const Wanted& wanted_;
  const Refuse& refuse_;
  PaxRecords global_, local_;
  std::string long_name_, long_link_;
  std::vector<TarFile> files_;
  std::vector<Link> links_;
};

// A record holds for the next entry, or from a global header on; an empty one takes a global one back.
const std::string* TarReader::record(std::string_view key) const {
  for (const PaxRecords* records : {&local_, &global_})
    if (const auto found = records->find(key); found != records->end())
      return found->second.empty() ? nullptr : &found->second;
  return nullptr;
}

std::string TarReader::name_of(const char* header) const {
  if (const std::string* path = record("path")) return normal(*path);
  if (!long_name_.empty()) return normal(long_name_);
  // Only POSIX keeps a prefix there; GNU's form has times in its place.
  const bool posix = std::memcmp(header + 257, "ustar\0", 6) == 0;
  const std::string prefix = posix ? text_field(header + 345, 155) : "";
  return normal((prefix.empty() ? "" : prefix + "/") + text_field(header, 100));
}

std::string TarReader::link_of(const char* header) const {
  if (const std::string* path = record("linkpath")) return *path;
  return long_link_.empty() ? text_field(header + 157, 100) : long_link_;
}

// Records "LENGTH key=value\n", whose length counts all of it.
void TarReader::add_records(std::string_view text, PaxRecords& records) const {
  while (!text.empty() && text[0] != '\0') {
    const std::size_t blank = text.find(' ');
    const auto length = blank == std::string_view::npos ? std::nullopt : whole_number(text.substr(0, blank));
    if (!length || *length < blank + 3 || *length > text.size() || text[*length - 1] != '\n')
      refuse("has a damaged PAX record '" + shown_text(text.substr(0, text.find('\n'))) + "'");
    const std::string_view pair = text.substr(blank + 1, *length - blank - 2);
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos) refuse("has a damaged PAX record '" + shown_text(pair) + "'");
    records.insert_or_assign(std::string(pair.substr(0, equals)), std::string(pair.substr(equals + 1)));
    text.remove_prefix(*length);
  }
}

std::size_t TarReader::read_entry(std::size_t position) {
  const char* header = text_ + position;
  const std::int64_t stated = size_field(header + 124);
  if (!sum_holds(header) || stated < 0) refuse("has a damaged header at byte " + std::to_string(position));
  const char type = header[156];
  const bool describes = type == 'x' || type == 'X' || type == 'g' || type == 'L' || type == 'K';
  auto length = static_cast<std::uint64_t>(stated);
  if (const std::string* size = describes ? nullptr : record("size")) {
    const auto number = whole_number(*size);
    if (!number) refuse("has a PAX record whose size must be a whole number, got '" + shown_text(*size) + "'");
    length = *number;
  }
  const std::uint64_t data = position + kTarBlock;
  if (length > size_ || data + length > size_) refuse("is cut off in '" + shown_text(name_of(header)) + "'");
  const std::string_view content(text_ + data, length);
  if (type == 'x' || type == 'X') {
    add_records(content, local_);
  } else if (type == 'g') {
    add_records(content, global_);
  } else if (type == 'L') {
    long_name_ = text_field(content.data(), content.size());
  } else if (type == 'K') {
    long_link_ = text_field(content.data(), content.size());
  } else {
    add_entry(header, data, length);
    local_.clear();
    long_name_.clear();
    long_link_.clear();
  }
  return data + (length + kTarBlock - 1) / kTarBlock * kTarBlock;
}

void TarReader::add_entry(const char* header, std::uint64_t data, std::uint64_t length) {
  const std::string name = name_of(header);
  if (!wanted_(name)) return;
  const char type = header[156];
  bool sparse = type == 'S';
  for (const PaxRecords* records : {&local_, &global_}) {
    const auto found = records->lower_bound("GNU.sparse.");
    sparse = sparse || (found != records->end() && found->first.starts_with("GNU.sparse."));
  }
  if (sparse) refuse("must hold whole files, but '" + shown_text(name) + "' is a sparse file");
  if (name.empty() || name.back() == '/') return;  // a folder, whatever its type
  switch (type) {
    case '0':
    case '\0':
    case '7':
      files_.push_back({.name = name, .offset = data, .size = length});
      return;
    case '1':
    case '2':
      links_.push_back({.name = name, .target = link_of(header), .hard = type == '1'});
      return;
    case '3':  // devices, folders and pipes are no files, as in a folder
    case '4':
    case '5':
    case '6':
      return;
    default:
      refuse("must hold files, folders and links, but '" + shown_text(name) + "' is of the unknown type '" +
             shown_text({&type, 1}) + "'");
  }
}

// A hard link names a file of the archive from its root, a soft one from the folder in which it stands.
void TarReader::resolve_links() {
  std::map<std::string, TarFile> known;
  for (const TarFile& file : files_) known[file.name] = file;
  std::vector<Link> open;
  const auto target_of = [](const Link& link) {
    if (link.hard) return normal(link.target);
    return normal((std::filesystem::path(link.name).parent_path() / link.target).generic_string());
  };
  // A link may lead to a link that stands after it.
  for (bool found = true; found && !links_.empty(); links_ = std::move(open), open.clear()) {
    found = false;
    for (Link& link : links_) {
      const auto target = known.find(target_of(link));
      if (target == known.end()) {
        open.push_back(std::move(link));
        continue;
      }
      found = true;
      files_.push_back({.name = link.name, .offset = target->second.offset, .size = target->second.size});
      known[link.name] = files_.back();
    }
  }
  if (!links_.empty())
    refuse("must hold what its links lead to, but '" + shown_text(links_[0].name) + "' links to '" +
           shown_text(links_[0].target) + "', which is no file of the archive");
}

}  // namespace

bool looks_like_tar(std::span<const std::byte> bytes) {
  return bytes.size() >= kTarBlock && std::memcmp(bytes.data() + 257, "ustar", 5) == 0;
}

std::vector<TarFile> list_tar(std::span<const std::byte> bytes, const Wanted& wanted, const Refuse& refuse) {
  return TarReader(bytes, wanted, refuse).read();
}

}  // namespace camber::episodes
