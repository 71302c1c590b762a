#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

/// A small tree of values that remember where they came from: what stands between a file or a command line and an
/// option struct.
namespace camber::config {

/// Where a value was written.
struct Source {
  enum class Kind { kDefaults, kFile, kCommandLine };
  Kind kind = Kind::kDefaults;
  std::string file{};
  std::uint32_t line = 0;  ///< from 1; 0: not known
  std::uint32_t column = 0;

  /// "demo.toml:3:7", "command line" or "defaults".
  std::string text() const;
};

struct Value;

/// What stands after `--a.b=`: its type is the option's, so it is read when that is known.
struct Unparsed {
  std::string text{};
};

using List = std::vector<Value>;

struct Entry;
/// Keys in the order in which they were written.
using Table = std::vector<Entry>;

struct Value {
  // Not initialised here: an Entry is not known yet, and clang would need it.
  std::variant<bool, std::int64_t, double, std::string, Unparsed, List, Table> data;
  Source source{};

  /// As a sentence quotes it: `2.5`, `"text"`, `a list`, `a table`.
  std::string quoted() const;
};

struct Entry {
  std::string key{};
  Source source{};  ///< of the key
  Value value{};
};

/// The entry of this key, or nullptr.
Entry* find(Table& table, std::string_view key);
const Entry* find(const Table& table, std::string_view key);

/// The file that a value names, as an absolute path: one that was written in a file lies beside that file, or, where
/// there is none of that name, in the working folder, as one from the command line does. Defaults stay as they are.
std::filesystem::path file_at(const std::string& name, const Source& source);

/// Reads TOML text; `name` is the file's, for messages. Throws std::invalid_argument with file, line and column.
Value parse_toml(std::string_view text, const std::string& name);

/// Reads a TOML file; throws std::runtime_error when it cannot be read.
Value read_toml_file(const std::string& path);

/// Reads one value in TOML's notation, as in `[1, 2]`; nothing when it is none.
std::optional<Value> parse_toml_value(std::string_view text, const Source& source);

/// One value in TOML's notation on one line; numbers and strings read back exactly.
std::string write_toml_value(const Value& value);

/// Puts `above` over `base`: tables are merged key by key, everything else is replaced.
void overlay(Value& base, const Value& above);

/// Puts `--a.b=value`, without its dashes or with them, over the tree. A number in the path is the index of a list's
/// element, from 0. Throws std::invalid_argument when the text has no `=` or leads through something without parts.
void overlay_argument(Value& base, std::string_view argument);

}  // namespace camber::config
