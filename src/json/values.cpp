#include "camber/json/values.h"

#include <cmath>
#include <cstdlib>
#include <limits>

namespace camber::json {
namespace {

constexpr int kDeepest = 64;

// The value's own text without the white space after it; for messages and for what simdjson does not take.
std::string_view token_of(Value& value) {
  std::string_view token = value.raw_json_token();
  const std::size_t last = token.find_last_not_of(" \n\t\r");
  return token.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

std::string shown(Value& value) {
  const std::string_view token = token_of(value);
  if (token.empty()) return "nothing";
  if (token.front() == '{') return "an object";
  if (token.front() == '[') return "a list";
  return shown_text(token);
}

[[noreturn]] void refuse(std::string_view field, std::string_view wanted, Value& value) {
  throw ValueError(std::string(field) + " must be " + std::string(wanted) + ", got " + shown(value));
}

bool is_json_number(std::string_view text) {
  std::size_t i = 0;
  const auto digits = [&] {
    const std::size_t first = i;
    while (i < text.size() && text[i] >= '0' && text[i] <= '9') ++i;
    return i - first;
  };
  if (i < text.size() && text[i] == '-') ++i;
  const bool zero = i < text.size() && text[i] == '0';
  const std::size_t whole = digits();
  if (whole == 0 || (zero && whole > 1)) return false;
  if (i < text.size() && text[i] == '.') {
    ++i;
    if (digits() == 0) return false;
  }
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    if (i < text.size() && (text[i] == '+' || text[i] == '-')) ++i;
    if (digits() == 0) return false;
  }
  return i == text.size();
}

template <class Read>
void read_all(Value value, std::string_view field, std::span<double> numbers, Read&& read) {
  std::size_t count = 0;
  for_each_element(value, field, [&](Value item) {
    if (count < numbers.size())
      numbers[count] = read(item, field);
    else
      skip(item);
    ++count;
  });
  if (count != numbers.size())
    throw ValueError(std::string(field) + " must be " + std::to_string(numbers.size()) + " numbers, got " +
                     std::to_string(count));
}

}  // namespace

std::string shown_text(std::string_view text) {
  constexpr std::size_t kLongest = 120;
  std::string shown(text.substr(0, kLongest));
  const bool readable = simdjson::validate_utf8(shown);
  for (char& c : shown) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < ' ' || byte == 0x7F || (byte > 0x7F && !readable)) c = '?';
  }
  return text.size() > kLongest ? shown + "..." : shown;
}

std::optional<double> read_number(std::string_view text) {
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (!is_json_number(text)) return std::nullopt;
  // Only what is too large or too small for simdjson comes here: strtod rounds it to infinity or zero, as Python does.
  return std::strtod(std::string(text).c_str(), nullptr);
}

double any_number(Value value, std::string_view field) {
  double result = 0;
  if (!value.get_double().get(result)) return result;
  const auto read = read_number(token_of(value));
  if (!read) refuse(field, "a number", value);
  return *read;
}

double number(Value value, std::string_view field) {
  const double result = any_number(value, field);
  if (!std::isfinite(result)) refuse(field, "a finite number", value);
  return result;
}

std::int64_t integer(Value value, std::string_view field) {
  std::int64_t result = 0;
  if (value.get_int64().get(result)) refuse(field, "a whole number", value);
  return result;
}

bool boolean(Value value, std::string_view field) {
  bool result = false;
  if (value.get_bool().get(result)) refuse(field, "true or false", value);
  return result;
}

std::string_view text(Value value, std::string_view field) {
  std::string_view result;
  if (value.get_string().get(result)) refuse(field, "a string", value);
  return result;
}

void any_numbers(Value value, std::string_view field, std::span<double> numbers) {
  read_all(value, field, numbers, any_number);
}

void numbers(Value value, std::string_view field, std::span<double> numbers) {
  read_all(value, field, numbers, number);
}

void skip(Value value, int depth) {
  if (depth > kDeepest) throw ValueError("a value must not be nested deeper than 64 levels");
  const std::string_view token = token_of(value);
  if (token.empty()) throw ValueError("a value is missing");
  switch (token.front()) {
    case '{':
      return for_each_field(value, "a value", [depth](std::string_view, Value item) { skip(item, depth + 1); });
    case '[':
      return for_each_element(value, "a value", [depth](Value item) { skip(item, depth + 1); });
    case '"':
      text(value, "a value");
      return;
    default:
      if (token != "true" && token != "false" && token != "null" && !read_number(token))
        refuse("a value", "JSON", value);
  }
}

}  // namespace camber::json
