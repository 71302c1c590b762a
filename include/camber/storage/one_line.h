#pragma once
#include <string>

namespace camber::storage {

/// What a file holds, or another library says of it, as part of a sentence: one line of at most 600 bytes, however long
/// the text is and whatever it holds.
///
///     refuse("the header must be JSON: " + one_line(error.what()));
std::string one_line(std::string text);

}  // namespace camber::storage
