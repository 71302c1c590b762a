#pragma once
#include <string>
#include <string_view>

namespace camber::json {

/// A number as Python writes it into JSON: the shortest text that reads back to the same bits, NaN and Infinity by
/// their names, with a fraction unless `whole` is set and it has none.
std::string number_text(double value, bool whole = false);

/// A string with its quotes.
std::string quoted(std::string_view text);

}  // namespace camber::json
