#pragma once
#include <string>

namespace camber::eval {

/// A number as Python writes it into JSON: the shortest text that reads back to the same bits, NaN and Infinity by
/// their names, with a fraction unless `whole` is set and it has none.
std::string json_number(double value, bool whole = false);

}  // namespace camber::eval
