#pragma once
#include <sstream>
#include <string>

namespace camber::train {

/// The parts written one after the other.
template <class... Parts>
std::string sentence(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

}  // namespace camber::train
