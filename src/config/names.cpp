#include "camber/config/names.h"

#include <algorithm>
#include <cctype>
#include <limits>

namespace camber::config {
namespace {

bool same_letter(char first, char second) {
  return std::tolower(static_cast<unsigned char>(first)) == std::tolower(static_cast<unsigned char>(second));
}

}  // namespace

std::size_t edit_distance(std::string_view first, std::string_view second) {
  // Three rows of the table are enough: a swap of neighbours looks two rows back.
  const std::size_t columns = second.size() + 1;
  std::vector<std::size_t> two_back(columns), back(columns), row(columns);
  for (std::size_t j = 0; j < columns; ++j) back[j] = j;
  for (std::size_t i = 1; i <= first.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j < columns; ++j) {
      const bool same = same_letter(first[i - 1], second[j - 1]);
      row[j] = std::min({back[j] + 1, row[j - 1] + 1, back[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && same_letter(first[i - 1], second[j - 2]) && same_letter(first[i - 2], second[j - 1]))
        row[j] = std::min(row[j], two_back[j - 2] + 1);
    }
    std::swap(two_back, back);
    std::swap(back, row);
  }
  return back[second.size()];
}

std::string nearest_name(std::string_view given, const std::vector<std::string>& known) {
  std::string nearest;
  std::size_t smallest = std::numeric_limits<std::size_t>::max();
  for (const std::string& name : known) {
    const std::size_t distance = edit_distance(given, name);
    if (distance < smallest) {
      smallest = distance;
      nearest = name;
    }
  }
  return nearest;
}

std::string join_names(const std::vector<std::string>& names, std::string_view last_separator) {
  std::string sentence;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) sentence += i + 1 == names.size() ? last_separator : std::string_view(", ");
    sentence += names[i];
  }
  return sentence;
}

std::string child_path(const std::string& path, const std::string& key) {
  return path.empty() ? key : path + "." + key;
}

}  // namespace camber::config
