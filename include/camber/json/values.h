#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include <simdjson.h>

/// Typed reading of JSON values for tables and results. Everything that is read is checked whole, the fields that
/// nobody asks for included. Python's NaN, Infinity and -Infinity are numbers here, as in the files the devkit writes.
namespace camber::json {

using Value = simdjson::ondemand::value;

/// What is wrong with a value; whoever knows the file and the row puts them in front.
class ValueError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Text of a file as a sentence can show it: control characters replaced, long text cut.
std::string shown_text(std::string_view text);

/// A number, NaN and the infinities included; `field` names it in the sentence when it is none.
double any_number(Value value, std::string_view field);
/// A finite number.
double number(Value value, std::string_view field);
std::int64_t integer(Value value, std::string_view field);
bool boolean(Value value, std::string_view field);
/// The unescaped text; valid until the parser's next document.
std::string_view text(Value value, std::string_view field);
/// Exactly as many numbers as `numbers` has elements.
void any_numbers(Value value, std::string_view field, std::span<double> numbers);
void numbers(Value value, std::string_view field, std::span<double> numbers);
/// Checks a value that is not used.
void skip(Value value, int depth = 0);

/// What the double is that a JSON number, NaN or an infinity stands for; nothing when the text is none of these.
std::optional<double> read_number(std::string_view text);

template <class Action>
void for_each_element(Value value, std::string_view field, Action&& action) {
  simdjson::ondemand::array elements;
  if (value.get_array().get(elements)) throw ValueError(std::string(field) + " must be a list");
  for (auto element : elements) {
    Value item;
    if (const auto error = element.get(item))
      throw ValueError(std::string(field) + " is damaged: " + simdjson::error_message(error));
    action(item);
  }
}

/// Calls action(name, value) for every field of an object in its order.
template <class Action>
void for_each_field(Value value, std::string_view what, Action&& action) {
  simdjson::ondemand::object fields;
  if (value.get_object().get(fields)) throw ValueError(std::string(what) + " must be an object");
  for (auto field : fields) {
    std::string_view name;
    Value item;
    auto error = field.unescaped_key().get(name);
    if (!error) error = field.value().get(item);
    if (error) throw ValueError(std::string(what) + " is damaged: " + simdjson::error_message(error));
    action(name, item);
  }
}

}  // namespace camber::json
