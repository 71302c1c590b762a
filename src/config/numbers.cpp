#include "camber/config/numbers.h"

#include <array>
#include <charconv>
#include <cmath>

namespace camber::config {
namespace {

// std::from_chars takes no leading plus sign, which people write.
std::string_view without_plus(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-' && text[1] != '+') text.remove_prefix(1);
  return text;
}

template <class Number>
std::optional<Number> read_whole(std::string_view text) {
  text = without_plus(text);
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<double> read_number(std::string_view text) {
  return read_whole<double>(text);
}
std::optional<std::int64_t> read_integer(std::string_view text) {
  return read_whole<std::int64_t>(text);
}
std::optional<std::uint64_t> read_unsigned(std::string_view text) {
  return read_whole<std::uint64_t>(text);
}

std::string write_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 32> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  std::string text(buffer.data(), result.ptr);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace camber::config
