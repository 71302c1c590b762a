#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace camber::config {

/// The number of insertions, deletions, substitutions and swaps of neighbours that turn one word into the other
/// (optimal string alignment; upper and lower case count as equal).
///
///   edit_distance("sofmtax", "softmax") == 1
std::size_t edit_distance(std::string_view first, std::string_view second);

/// The known name with the smallest edit distance to what was given; the first of several; empty when none is known.
std::string nearest_name(std::string_view given, const std::vector<std::string>& known);

/// "a, b or c", for sentences that say what is allowed.
std::string join_names(const std::vector<std::string>& names, std::string_view last_separator = " or ");

/// The name of a part inside its whole, as in `world.frames`; the key alone at the top.
std::string child_path(const std::string& path, const std::string& key);

}  // namespace camber::config
