#pragma once
#include <algorithm>
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "camber/config/description.h"
#include "camber/config/field.h"
#include "camber/config/renamed.h"
#include "camber/config/value.h"

/// Option structs from files and command lines, and back. field.h says what a struct must offer.
///
///   TrainOptions options = config::load<TrainOptions>({.file = "demo.toml", .arguments = {"--scale.init=3"}});
///   std::string complete = config::to_toml(options);           // what --print-config shows
///   assert(config::parse<TrainOptions>(complete, "x") == ...)  // the same values, bit for bit
namespace camber::config {

namespace detail {

struct FieldProbe {
  template <class Type>
  void operator()(std::string_view name, Type& field, std::string_view meaning, Range range = {});
};

template <class Type>
struct ListElement {
  static constexpr bool is_list = false;
};
template <class Element>
struct ListElement<std::vector<Element>> {
  static constexpr bool is_list = true;
  using Type = Element;
};

template <class Type>
inline constexpr bool is_unsupported = false;

}  // namespace detail

/// A struct that lists its fields in visit().
template <class Type>
concept OptionStruct = requires(Type& options, detail::FieldProbe& probe) {
  options.visit(probe);
};

/// The word of an enum's value in options, files and messages, from its enum_names.
template <class Enum>
std::string choice_name(Enum value) {
  for (const auto& [known, name] : enum_names<Enum>)
    if (known == value) return std::string(name);
  throw std::logic_error("[config] an enum value must stand in its enum_names");
}

namespace detail {

template <class Type>
Description describe_field(const Type& field, Range range);

/// Of every preset the fields in which any of them differs from the defaults.
std::vector<Preset> differing_fields(const std::vector<std::pair<std::string, std::vector<Description>>>& presets,
                                     const std::vector<Description>& defaults);

class Describer {
 public:
  template <class Type>
  void operator()(std::string_view name, Type& field, std::string_view meaning, Range range = {}) {
    Description description = describe_field(field, range);
    description.name = name;
    description.meaning = meaning;
    fields.push_back(std::move(description));
  }

  std::vector<Description> fields{};
};

template <std::integral Integer>
std::int64_t stored_integer(Integer value) {
  if (std::cmp_greater(value, std::numeric_limits<std::int64_t>::max()))
    throw std::invalid_argument("[config] a whole number must be at most 9223372036854775807");
  return static_cast<std::int64_t>(value);
}

template <class Type>
std::vector<Description> fields_of(Type options) {  // a copy: visit is no const member, one list reads and writes
  Describer describer;
  options.visit(describer);
  return std::move(describer.fields);
}

template <class Type>
std::vector<Preset> presets_of() {
  std::vector<std::pair<std::string, std::vector<Description>>> all;
  for (const auto& [name, options] : Type::presets()) all.emplace_back(name, fields_of(options));
  return differing_fields(all, fields_of(Type{}));
}

template <class Type>
Description describe_field(const Type& field, Range range) {
  using Kind = Description::Kind;
  Description description{.range = range};
  if constexpr (OptionStruct<Type>) {
    description.fields = fields_of(field);
    if constexpr (requires { Type::presets(); }) description.presets = presets_of<Type>();
  } else if constexpr (ListElement<Type>::is_list) {
    using Element = typename ListElement<Type>::Type;
    description.kind = Kind::kList;
    description.element.push_back(describe_field(Element{}, range));
    for (const Element& element : field) description.fields.push_back(describe_field(element, range));
  } else if constexpr (std::is_enum_v<Type>) {
    description.kind = Kind::kChoice;
    for (const auto& [value, name] : enum_names<Type>) description.choices.emplace_back(name);
    description.value.data = choice_name(field);
  } else if constexpr (std::is_same_v<Type, bool>) {
    description.kind = Kind::kBoolean;
    description.value.data = field;
  } else if constexpr (std::integral<Type>) {
    description.kind = Kind::kInteger;
    description.limits = {static_cast<double>(std::numeric_limits<Type>::min()),
                          static_cast<double>(std::numeric_limits<Type>::max())};
    description.value.data = stored_integer(field);
  } else if constexpr (std::is_same_v<Type, double>) {
    description.kind = Kind::kNumber;
    description.value.data = field;
  } else if constexpr (std::is_same_v<Type, std::string>) {
    description.kind = Kind::kString;
    description.value.data = field;
  } else if constexpr (std::is_same_v<Type, std::filesystem::path>) {
    description.kind = Kind::kString;
    description.value.data = field.string();
  } else {
    static_assert(
        is_unsupported<Type>,
        "an option must be a bool, an integer, a double, a std::string, a std::filesystem::path, an enum with "
        "enum_names, a struct with visit, or a std::vector of these");
  }
  return description;
}

/// Runs a struct's own validate() and puts the source and the path before its message.
void validate_at(const Value& value, const std::string& path, void (*validate)(const void*), const void* options);

template <class Type>
void assign_field(Type& field, const Value& value, const std::string& path);

class Assigner {
 public:
  Assigner(const Table& table, const std::string& path) : table_(table), path_(path) {}

  template <class Type>
  void operator()(std::string_view name, Type& field, std::string_view /*meaning*/, Range /*range*/ = {}) {
    const Entry* entry = find(table_, name);
    if (entry != nullptr) assign_field(field, entry->value, path_.empty() ? entry->key : path_ + "." + entry->key);
  }

 private:
  const Table& table_;
  const std::string& path_;
};

// The tree was checked: every value has its field's type.
template <class Type>
void assign_field(Type& field, const Value& value, const std::string& path) {
  if constexpr (OptionStruct<Type>) {
    Assigner assigner(std::get<Table>(value.data), path);
    field.visit(assigner);
    if constexpr (requires { std::as_const(field).validate(); })
      validate_at(
          value, path, [](const void* options) { static_cast<const Type*>(options)->validate(); }, &field);
  } else if constexpr (ListElement<Type>::is_list) {
    using Element = typename ListElement<Type>::Type;
    field.clear();
    for (const Value& item : std::get<List>(value.data)) {
      Element element{};
      assign_field(element, item, path + "[" + std::to_string(field.size()) + "]");
      field.push_back(std::move(element));
    }
  } else if constexpr (std::is_enum_v<Type>) {
    for (const auto& [known, name] : enum_names<Type>)
      if (name == std::get<std::string>(value.data)) field = known;
  } else if constexpr (std::is_same_v<Type, std::filesystem::path>) {
    field = file_at(std::get<std::string>(value.data), value.source);
  } else if constexpr (std::integral<Type> && !std::is_same_v<Type, bool>) {
    field = static_cast<Type>(std::get<std::int64_t>(value.data));
  } else {
    field = std::get<Type>(value.data);
  }
}

}  // namespace detail

/// The struct as data: names, values, meanings, what is allowed.
template <OptionStruct Options>
Description describe(const Options& options = {}) {
  return detail::describe_field(options, Range{});
}

/// What load() reads, the later over the earlier: the struct's defaults, a TOML file, arguments such as `--a.b=value`.
struct Origin {
  std::string file{};  ///< empty: none
  std::vector<std::string> arguments{};
};

/// Fills a struct from a checked tree and calls validate() of every struct in it.
template <OptionStruct Options>
Options from_value(const Value& tree, const Options& defaults = {}) {
  const Description described = describe(defaults);
  Value complete = to_value(described);
  overlay(complete, tree);
  apply_presets(complete, described);
  check(complete, described);
  Options options = defaults;
  detail::assign_field(options, complete, "");
  return options;
}

/// Reads TOML text; `name` is the file's, for messages.
template <OptionStruct Options>
Options parse(std::string_view text, const std::string& name, const Options& defaults = {}) {
  return from_value(parse_toml(text, name), defaults);
}

/// The same for text and files that the program wrote, perhaps an earlier version: renamed options are translated.
template <OptionStruct Options>
Options parse_stored(std::string_view text, const std::string& name, const Options& defaults = {}) {
  Value tree = parse_toml(text, name);
  translate_stored(tree);
  return from_value(tree, defaults);
}
template <OptionStruct Options>
Options load_stored(const std::string& file, const Options& defaults = {}) {
  Value tree = read_toml_file(file);
  translate_stored(tree);
  return from_value(tree, defaults);
}

/// Throws std::invalid_argument with one sentence for anything that is not right, std::runtime_error for a file that
/// cannot be read.
template <OptionStruct Options>
Options load(const Origin& origin, const Options& defaults = {}) {
  Value tree = to_value(describe(defaults));
  if (!origin.file.empty()) overlay(tree, read_toml_file(origin.file));
  for (const std::string& argument : origin.arguments) overlay_argument(tree, argument);
  return from_value(tree, defaults);
}

/// A complete, commented TOML file that reads back to the same struct.
template <OptionStruct Options>
std::string to_toml(const Options& options) {
  return write_toml(describe(options));
}

/// Every option whose value differs.
template <OptionStruct Options>
std::vector<Difference> differences(const Options& first, const Options& second) {
  return differences(describe(first), describe(second));
}

}  // namespace camber::config
