#pragma once
#include <array>

namespace camber::drawing {

inline constexpr int kGlyphWidth = 5;
/// Seven rows of five dots, '#' where there is ink.
using Glyph = std::array<const char*, 7>;

/// The letter's image; a box for what is not printable ASCII.
const Glyph& glyph_of(char letter);

}  // namespace camber::drawing
