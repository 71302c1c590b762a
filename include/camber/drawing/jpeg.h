#pragma once
#include <cstdint>
#include <vector>

namespace camber::drawing {

/// An image of three bytes a pixel (red, green, blue; rows from the top, no gaps) as a baseline JPEG file in memory.
/// Chrominance is kept at full size: on small images halving it would smear neighbouring objects into each other.
std::vector<std::uint8_t> encode_jpeg(const std::uint8_t* rgb, std::int64_t width, std::int64_t height, int quality);

}  // namespace camber::drawing
