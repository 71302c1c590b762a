#pragma once
#include <string_view>

namespace camber::nuscenes {

/// Whether a file name of the tables stays inside the data set's folder: relative, not empty, without a NUL and without
/// a `..` between its slashes. Links that a user put into the folder are the user's own.
bool stays_inside(std::string_view filename);

}  // namespace camber::nuscenes
