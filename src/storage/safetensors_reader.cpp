#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <set>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "camber/storage/one_line.h"
#include "camber/storage/safetensors.h"
#include "storage/data_type.h"

namespace camber::storage {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian, and so must the machine be");

using Json = nlohmann::json;

constexpr std::uint64_t kLongestHeader = 100'000'000;
constexpr std::size_t kLengthBytes = 8;

/// A tensor as the header describes it, before its bytes are known to exist.
struct Entry {
  TensorView view{};
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

class HeaderReader {
 public:
  explicit HeaderReader(const std::filesystem::path& path) : path_(path) {}

  template <class... Parts>
  [[noreturn]] void fail(fmt::format_string<Parts...> sentence, Parts&&... parts) const {
    throw std::runtime_error(fmt::format("[safetensors] {}: {}", path_.string(),
                                         one_line(fmt::format(sentence, std::forward<Parts>(parts)...))));
  }

  std::string_view header_text(std::span<const std::byte> file) const {
    if (file.size() < kLengthBytes) fail("the file must begin with an 8-byte length, got {} bytes in all", file.size());
    std::uint64_t length = 0;
    std::memcpy(&length, file.data(), kLengthBytes);
    if (length > kLongestHeader)
      fail("the header must be at most {} bytes long, got a length of {}: no safetensors file", kLongestHeader, length);
    if (length > file.size() - kLengthBytes)
      fail("the file is cut short: its header must be {} bytes long, got {}", length, file.size() - kLengthBytes);
    return {reinterpret_cast<const char*>(file.data()) + kLengthBytes, static_cast<std::size_t>(length)};
  }

  Json parse(std::string_view text) const {
    // nlohmann keeps the last of equal keys in silence; a callback sees them all.
    std::vector<std::set<std::string>> keys;
    const auto refuse_twice = [&](int, Json::parse_event_t event, Json& parsed) {
      if (event == Json::parse_event_t::object_start) keys.emplace_back();
      if (event == Json::parse_event_t::object_end) keys.pop_back();
      if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second)
        fail("the name '{}' must stand in the header once, got it twice", parsed.get<std::string>());
      return true;
    };
    try {
      Json header = Json::parse(text.begin(), text.end(), refuse_twice);
      if (!header.is_object()) fail("the header must be a JSON object, got {}", header.type_name());
      return header;
    } catch (const Json::exception& error) {
      fail("the header must be JSON: {}", error.what());
    }
  }

  Metadata metadata(const Json& value) const {
    if (!value.is_object()) fail("{} must be an object of strings, got {}", kMetadataKey, value.type_name());
    Metadata metadata;
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) fail("{} '{}' must be a string, got {}", kMetadataKey, key, text.type_name());
      metadata[key] = text.get<std::string>();
    }
    return metadata;
  }

  Entry entry(const std::string& tensor, const Json& value) const {
    if (!value.is_object()) fail("tensor '{}' must be described by an object, got {}", tensor, value.type_name());
    for (const auto& [key, part] : value.items())
      if (key != "dtype" && key != "shape" && key != "data_offsets")
        fail("tensor '{}' must have dtype, shape and data_offsets alone, got '{}' too", tensor, key);
    Entry entry{.view = {.name = tensor}};
    const Json& type_name = part(tensor, value, "dtype");
    const auto type = type_name.is_string() ? data_type_of(type_name.get<std::string>()) : std::nullopt;
    if (!type) fail("tensor '{}' must have a dtype among {}, got {}", tensor, known_data_types(), type_name.dump());
    entry.view.type = *type;
    for (const std::uint64_t side : whole_numbers(tensor, value, "shape"))
      entry.view.shape.push_back(static_cast<std::int64_t>(side));
    const auto offsets = whole_numbers(tensor, value, "data_offsets");
    if (offsets.size() != 2 || offsets[0] > offsets[1])
      fail("tensor '{}' must have two rising data_offsets, got {}", tensor, value.at("data_offsets").dump());
    entry.begin = offsets[0];
    entry.end = offsets[1];
    const auto needed = tensor_bytes(entry.view.type, entry.view.shape);
    if (!needed)
      fail("tensor '{}' must have fewer than 2^63 bytes, got the shape {}", tensor, value.at("shape").dump());
    if (*needed != entry.end - entry.begin)
      fail("tensor '{}' of type {} and shape {} must have {} bytes, got data_offsets over {}", tensor,
           name(entry.view.type), value.at("shape").dump(), *needed, entry.end - entry.begin);
    return entry;
  }

  /// The arrays must lie end to end and fill the data exactly. Takes them in the order of their bytes.
  void check_layout(const std::vector<Entry>& entries, std::uint64_t data_bytes) const {
    std::uint64_t filled = 0;
    const Entry* before = nullptr;
    for (const Entry& entry : entries) {
      if (entry.begin < filled)
        fail("tensor '{}' must begin at byte {}, where '{}' ends, got {}: they overlap", entry.view.name, filled,
             before->view.name, entry.begin);
      if (entry.begin > filled)
        fail("tensor '{}' must begin at byte {}, got {}: {} bytes belong to no tensor", entry.view.name, filled,
             entry.begin, entry.begin - filled);
      if (entry.end > data_bytes)
        fail("the file is cut short: tensor '{}' must end at byte {} of the data, got {} bytes", entry.view.name,
             entry.end, data_bytes);
      filled = entry.end;
      before = &entry;
    }
    if (filled != data_bytes) fail("the data must be {} bytes long, as the tensors are, got {}", filled, data_bytes);
  }

 private:
  const Json& part(const std::string& tensor, const Json& value, const char* key) const {
    const auto found = value.find(key);
    if (found == value.end()) fail("tensor '{}' must have a {}, got none", tensor, key);
    return *found;
  }

  std::vector<std::uint64_t> whole_numbers(const std::string& tensor, const Json& value, const char* key) const {
    const Json& list = part(tensor, value, key);
    std::vector<std::uint64_t> numbers;
    if (list.is_array()) {
      for (const Json& item : list) {
        const bool fits =
            item.is_number_unsigned() && item.get<std::uint64_t>() <= std::numeric_limits<std::int64_t>::max();
        if (!fits) break;
        numbers.push_back(item.get<std::uint64_t>());
      }
    }
    if (!list.is_array() || numbers.size() != list.size())
      fail("tensor '{}' must have a {} of whole numbers of at least 0, got {}", tensor, key, list.dump());
    return numbers;
  }

  const std::filesystem::path& path_;
};

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : path_(path), file_(std::make_unique<MappedFile>(path)) {
  const HeaderReader reader(path_);
  const std::string_view text = reader.header_text(file_->bytes());
  const Json header = reader.parse(text);
  std::vector<Entry> entries;
  for (const auto& [key, value] : header.items())
    if (key == kMetadataKey)
      metadata_ = reader.metadata(value);
    else
      entries.push_back(reader.entry(key, value));
  std::sort(entries.begin(), entries.end(), [](const Entry& first, const Entry& second) {
    return std::tie(first.begin, first.end, first.view.name) < std::tie(second.begin, second.end, second.view.name);
  });
  const auto data = file_->bytes().subspan(kLengthBytes + text.size());
  reader.check_layout(entries, data.size());
  for (Entry& entry : entries) {
    entry.view.bytes = data.subspan(entry.begin, entry.end - entry.begin);
    index_[entry.view.name] = tensors_.size();
    tensors_.push_back(std::move(entry.view));
  }
}

const TensorView* SafetensorsFile::find(std::string_view tensor_name) const {
  const auto found = index_.find(tensor_name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

const TensorView& SafetensorsFile::at(std::string_view tensor_name) const {
  const TensorView* tensor = find(tensor_name);
  if (tensor == nullptr)
    throw std::runtime_error(fmt::format("[safetensors] {}: the file must hold the tensor '{}', got {} others",
                                         path_.string(), tensor_name, tensors_.size()));
  return *tensor;
}

}  // namespace camber::storage
