#include "camber/storage/one_line.h"

namespace camber::storage {

std::string one_line(std::string text) {
  constexpr std::size_t kLongest = 600;
  if (text.size() > kLongest) {
    std::size_t end = kLongest;
    while ((static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;  // not in the middle of a letter
    text = text.substr(0, end) + "...";
  }
  for (char& letter : text)
    if (static_cast<unsigned char>(letter) < ' ' || letter == 0x7F) letter = '?';
  return text;
}

}  // namespace camber::storage
