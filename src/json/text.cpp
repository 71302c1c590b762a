#include "camber/json/text.h"

#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

namespace camber::json {

std::string number_text(double value, bool whole) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  if (whole && value == std::trunc(value) && std::abs(value) < 1e15) return fmt::format("{:.0f}", value);
  std::array<char, 32> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  std::string text(buffer.data(), result.ptr);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char letter : text)
    if (letter == '"' || letter == '\\')
      (result += '\\') += letter;
    else if (static_cast<unsigned char>(letter) < 0x20)
      result += fmt::format("\\u{:04x}", static_cast<unsigned>(letter));
    else
      result += letter;
  return result += '"';
}

}  // namespace camber::json
