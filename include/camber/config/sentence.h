#pragma once
#include <sstream>
#include <string>

namespace camber::config {

/// The parts written one after the other: sentence("got ", 3, " of ", 4) is "got 3 of 4".
template <class... Parts>
std::string sentence(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

}  // namespace camber::config
