#pragma once
#include <cstddef>
#include <cstdint>

namespace camber::drawing {

/// An opaque colour in sRGB; how much of it covers what lies below is said where it is used.
struct Colour {
  std::uint8_t red = 0;
  std::uint8_t green = 0;
  std::uint8_t blue = 0;

  friend constexpr bool operator==(const Colour&, const Colour&) = default;
};

inline constexpr Colour kWhite{255, 255, 255};
inline constexpr Colour kBlack{0, 0, 0};

/// Eight colours that stay apart for colour-blind eyes and in print (after Okabe and Ito); `index` counts round them.
constexpr Colour series_colour(std::size_t index) {
  constexpr Colour kColours[] = {{0, 114, 178}, {213, 94, 0},   {0, 158, 115}, {204, 121, 167},
                                 {230, 159, 0}, {86, 180, 233}, {120, 94, 60}, {90, 90, 90}};
  return kColours[index % 8];
}

}  // namespace camber::drawing
