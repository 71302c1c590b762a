#pragma once
#include <string_view>

namespace camber::nuscenes {

/// Whether a file name of the tables stays inside the data set's folder: relative, not empty, at most 1,024 bytes and
/// 255 between slashes, without control characters and without a `..` between its slashes. Where symbolic links lead is
/// asked when the file is opened (storage::check_inside).
bool stays_inside(std::string_view filename);

}  // namespace camber::nuscenes
