#pragma once
#include <array>
#include <string>
#include <string_view>

#include "camber/json/values.h"

namespace camber::json {

/// A field of an object and what to do with its value.
template <class Read>
struct Field {
  std::string_view name;
  bool required;
  Read read;
};

template <class Read>
Field<Read> required(std::string_view name, Read read) {
  return {name, true, read};
}
template <class Read>
Field<Read> optional(std::string_view name, Read read) {
  return {name, false, read};
}

/// Gives every field of an object to the reader of its name; unknown ones are checked and left, a required one that is
/// missing is refused.
///
///   read_fields(value, "a row", required("token", [&](Value v) { ... }), optional("width", [&](Value v) { ... }));
template <class... Reads>
void read_fields(Value value, std::string_view what, Field<Reads>... fields) {
  std::array<bool, sizeof...(fields)> seen{};
  for_each_field(value, what, [&](std::string_view name, Value item) {
    std::size_t i = 0;
    const bool known = ((fields.name == name ? (fields.read(item), seen[i] = true) : (++i, false)) || ...);
    if (!known) skip(item);
  });
  std::size_t i = 0;
  const auto check = [&](std::string_view name, bool is_required) {
    if (is_required && !seen[i]) throw ValueError("field '" + std::string(name) + "' is missing");
    ++i;
  };
  (check(fields.name, fields.required), ...);
}

}  // namespace camber::json
