#include <algorithm>
#include <cstring>

#include <nlohmann/json.hpp>
#include <zlib.h>

#include "camber/random/stream.h"
#include "fuzz/fuzzing.h"

namespace camber::tests {
namespace {

using random::Stream;
using Json = nlohmann::ordered_json;

std::size_t position_in(Stream& draws, std::size_t size) {
  return static_cast<std::size_t>(draws.integer(size + 1));
}

std::string changed_bytes(std::string text, const std::vector<std::string>& words, Stream& draws) {
  const std::uint64_t changes = 1 + draws.integer(4);
  for (std::uint64_t change = 0; change < changes; ++change) {
    const std::size_t at = position_in(draws, text.size());
    const std::size_t length = position_in(draws, std::min<std::size_t>(text.size() - at, 64));
    switch (draws.integer(8)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << draws.integer(8)));
        break;
      case 1:
        if (at < text.size()) text[at] = static_cast<char>(draws.integer(256));
        break;
      case 2:
        text.erase(at, length);
        break;
      case 3:
        text.insert(position_in(draws, text.size()), text.substr(at, length));
        break;
      case 4:
        text.insert(at, words[draws.integer(words.size())]);
        break;
      case 5:
        text.replace(at, length, words[draws.integer(words.size())]);
        break;
      case 6:
        text.resize(at);
        break;
      default:
        text.insert(at, std::to_string(static_cast<std::int64_t>(draws.bits64())));
        break;
    }
  }
  return text;
}

// ---- JSON

bool is_deep(std::string_view text) {
  std::int64_t depth = 0, deepest = 0;
  for (const char letter : text) {
    depth += letter == '[' || letter == '{' ? 1 : letter == ']' || letter == '}' ? -1 : 0;
    deepest = std::max(deepest, depth);
  }
  return deepest > 100;
}

void collect_nodes(Json& node, std::vector<Json*>& all) {
  all.push_back(&node);
  if (node.is_structured())
    for (Json& child : node) collect_nodes(child, all);
}

Json odd_value(Stream& draws) {
  static const std::vector<Json> values = {nullptr,
                                           true,
                                           0,
                                           -1,
                                           1,
                                           1.5,
                                           -0.0,
                                           1e300,
                                           -1e300,
                                           1e-320,
                                           std::int64_t{1} << 53,
                                           INT64_MAX,
                                           INT64_MIN,
                                           UINT64_MAX,
                                           2147483648,
                                           "",
                                           "a",
                                           "..",
                                           "../../etc/passwd",
                                           "/etc/passwd",
                                           std::string("a\0b", 3),
                                           "\u00e9\n\"\\",
                                           "NaN",
                                           Json::array(),
                                           Json::object(),
                                           Json::array({1, "x", nullptr}),
                                           Json::object({{"x", 1}}),
                                           std::string(300, 'x')};
  return values[draws.integer(values.size())];
}

void change_number(Json& node, Stream& draws) {
  const double value = node.get<double>();
  const double factors[] = {-1, 0, 0.5, 2, 1e3, 1e-3, 1e9, 1e18};
  if (node.is_number_integer() && std::abs(value) < 1e9 && draws.chance(0.5))
    node = node.get<std::int64_t>() + static_cast<std::int64_t>(draws.integer(5)) - 2;
  else
    node = value * factors[draws.integer(std::size(factors))];
}

// One change at one node: another value, a part left out, doubled, exchanged or put one level down.
void change_json(Json& root, Stream& draws) {
  std::vector<Json*> all;
  collect_nodes(root, all);
  Json& node = *all[draws.integer(all.size())];
  const Json other = *all[draws.integer(all.size())];
  switch (draws.integer(6)) {
    case 0:
      node = odd_value(draws);
      break;
    case 1:
      if (node.is_number()) change_number(node, draws);
      break;
    case 2:
      if (node.is_array() && !node.empty())
        node.erase(draws.integer(node.size()));
      else if (node.is_object() && !node.empty())
        node.erase(std::next(node.begin(), static_cast<std::ptrdiff_t>(draws.integer(node.size()))));
      break;
    case 3:
      if (node.is_array()) node.push_back(node.empty() || draws.chance(0.3) ? other : node.back());
      if (node.is_object()) node["new"] = other;
      break;
    case 4:
      if (other.dump(-1, ' ', false, Json::error_handler_t::replace).size() < 4096) node = other;
      break;
    default:
      node = Json::array({node});
      break;
  }
}

std::string changed_json(const std::string& text, const std::vector<std::string>& words, Stream& draws) {
  Json root = is_deep(text) ? Json(Json::value_t::discarded) : Json::parse(text, nullptr, false);
  if (root.is_discarded()) return changed_bytes(text, words, draws);
  for (std::uint64_t change = 1 + draws.integer(3); change > 0; --change) change_json(root, draws);
  return root.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string changed_line(const std::string& text, const std::vector<std::string>& words, Stream& draws) {
  const std::size_t middle = text.empty() ? 0 : draws.integer(text.size());
  const std::size_t before = text.rfind('\n', middle), begin = before == std::string::npos ? 0 : before + 1;
  const std::size_t end = std::min(text.find('\n', begin), text.size());
  const std::string line = changed_json(text.substr(begin, end - begin), words, draws);
  return text.substr(0, begin) + line + text.substr(end);
}

// ---- TOML: another right-hand side, a line left out or doubled, a table moved.

std::string changed_toml(const std::string& text, Stream& draws) {
  std::vector<std::string> lines(1);
  for (const char letter : text)
    if (letter == '\n')
      lines.emplace_back();
    else
      lines.back() += letter;
  static const std::vector<std::string> values = {"nan",     "inf",         "-1",         "0",
                                                  "1",       "1.5",         "1e300",      "9223372036854775807",
                                                  "true",    "\"\"",        "\"a\"",      "[]",
                                                  "[1, 2]",  "[\"a\"]",     "[[1.0]]",    "{}",
                                                  "{x = 1}", "\"../..\"",   "1979-05-27", "\"a\\u0000b\"",
                                                  "''",      "\"\xc3\xa9\""};
  std::string& line = lines[draws.integer(lines.size())];
  const std::size_t equals = line.find('=');
  switch (draws.integer(4)) {
    case 0:
    case 1:
      if (equals != std::string::npos) line = line.substr(0, equals + 1) + " " + values[draws.integer(values.size())];
      break;
    case 2:
      line.clear();
      break;
    default: {
      const std::string copy = line;
      lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(draws.integer(lines.size())), copy);
      break;
    }
  }
  std::string result;
  for (const std::string& one : lines) result += one + "\n";
  return result;
}

// ---- binary files whose lengths and sums must hold

std::string changed_safetensors(const std::string& text, const std::vector<std::string>& words, Stream& draws) {
  std::uint64_t length = 0;
  if (text.size() < 8) return changed_bytes(text, words, draws);
  std::memcpy(&length, text.data(), 8);
  length = std::min<std::uint64_t>(length, text.size() - 8);
  std::string header = text.substr(8, length);
  header = draws.chance(0.7) ? changed_json(header, words, draws) : changed_bytes(header, words, draws);
  length = header.size();
  std::string data = text.substr(8 + std::min<std::size_t>(length, text.size() - 8));
  if (draws.chance(0.2)) data = changed_bytes(data, words, draws);
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + data;
}

std::string with_tar_sums(std::string text) {
  for (std::size_t block = 0; block + 512 <= text.size(); block += 512) {
    if (text.compare(block + 257, 5, "ustar") != 0) continue;
    text.replace(block + 148, 8, "        ");
    unsigned sum = 0;
    for (std::size_t i = block; i < block + 512; ++i) sum += static_cast<unsigned char>(text[i]);
    char digits[8];
    std::snprintf(digits, sizeof digits, "%06o", sum);
    text.replace(block + 148, 7, std::string(digits, 6) + '\0');
  }
  return text;
}

std::uint32_t sum_of(const std::string& text, std::size_t begin, std::size_t size) {
  return static_cast<std::uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(text.data() + begin), static_cast<uInt>(size)));
}

std::string with_png_sums(std::string text) {
  for (std::size_t at = 8; at + 12 <= text.size();) {
    std::size_t size = 0;
    for (std::size_t i = 0; i < 4; ++i) size = size << 8 | static_cast<unsigned char>(text[at + i]);
    if (size > text.size() - at - 12) break;
    const std::uint32_t sum = sum_of(text, at + 4, size + 4);
    for (std::size_t i = 0; i < 4; ++i) text[at + 8 + size + i] = static_cast<char>(sum >> (24 - 8 * i));
    at += size + 12;
  }
  return text;
}

// The sums of stored entries, in their own headers and in the list at the end.
std::string with_zip_sums(std::string text) {
  const auto number = [&text](std::size_t at, std::size_t bytes) {
    std::size_t value = 0;
    for (std::size_t i = bytes; i-- > 0;) value = value << 8 | static_cast<unsigned char>(text[at + i]);
    return value;
  };
  for (std::size_t at = text.find("PK\1\2"); at != std::string::npos; at = text.find("PK\1\2", at + 4)) {
    if (at + 46 > text.size() || number(at + 10, 2) != 0) continue;
    const std::size_t local = number(at + 42, 4), size = number(at + 20, 4);
    if (local + 30 > text.size()) continue;
    const std::size_t begin = local + 30 + number(local + 26, 2) + number(local + 28, 2);
    if (begin > text.size() || size > text.size() - begin) continue;
    const std::uint32_t sum = sum_of(text, begin, size);
    for (const std::size_t field : {at + 16, local + 14})
      for (std::size_t i = 0; i < 4; ++i) text[field + i] = static_cast<char>(sum >> (8 * i));
  }
  return text;
}

std::string changed_files(const std::string& text, const FuzzTarget& target, Stream& draws);

std::string changed(const std::string& text, const FuzzTarget& target, Structure structure, Stream& draws) {
  const std::vector<std::string> words = target.words();
  switch (structure) {
    case Structure::kJson:
      return changed_json(text, words, draws);
    case Structure::kJsonLines:
      return changed_line(text, words, draws);
    case Structure::kTableJson:
      return text.substr(0, 1) + changed_json(text.substr(std::min<std::size_t>(1, text.size())), words, draws);
    case Structure::kToml:
      return changed_toml(text, draws);
    case Structure::kSafetensors:
      return changed_safetensors(text, words, draws);
    case Structure::kTar:
      return with_tar_sums(changed_bytes(text, words, draws));
    case Structure::kPng:
      return with_png_sums(changed_bytes(text, words, draws));
    case Structure::kZip:
      return with_zip_sums(changed_bytes(text, words, draws));
    case Structure::kFiles:
      return changed_files(text, target, draws);
    case Structure::kBytes:
      break;
  }
  return changed_bytes(text, words, draws);
}

std::string changed_files(const std::string& text, const FuzzTarget& target, Stream& draws) {
  auto files = separated_files(text);
  if (files.empty()) return changed_bytes(text, target.words(), draws);
  auto& [path, content] = files[draws.integer(files.size())];
  const Structure structure = path.ends_with(".json")    ? Structure::kJson
                              : path.ends_with(".jsonl") ? Structure::kJsonLines
                              : path.ends_with(".toml")  ? Structure::kToml
                                                         : Structure::kBytes;
  content = changed(content, target, draws.chance(0.8) ? structure : Structure::kBytes, draws);
  std::string result = text.substr(0, text.find('\x1e'));
  for (const auto& [name, bytes] : files) result.append(1, '\x1e').append(name).append(1, '\n').append(bytes);
  return result;
}

}  // namespace

std::string mutate(const std::string& input, const FuzzTarget& target, std::uint64_t seed) {
  Stream draws(seed, "fuzz");
  return changed(input, target, draws.chance(0.7) ? target.structure : Structure::kBytes, draws);
}

}  // namespace camber::tests
