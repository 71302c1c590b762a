#include "camber/nuscenes/paths.h"

#include <algorithm>

namespace camber::nuscenes {

bool stays_inside(std::string_view filename) {
  constexpr std::size_t kLongest = 1024;     // a sentence that names the file has an end
  constexpr std::size_t kLongestName = 255;  // that file systems take
  if (filename.size() > kLongest) return false;
  if (filename.empty() || filename.front() == '/') return false;
  const auto is_control = [](unsigned char letter) { return letter < 0x20 || letter == 0x7F; };
  if (std::any_of(filename.begin(), filename.end(), is_control)) return false;
  while (!filename.empty()) {
    const std::size_t slash = filename.find('/');
    const std::string_view name = filename.substr(0, slash);
    if (name == ".." || name.size() > kLongestName) return false;
    if (slash == std::string_view::npos) break;
    filename.remove_prefix(slash + 1);
  }
  return true;
}

}  // namespace camber::nuscenes
