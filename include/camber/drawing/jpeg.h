#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace camber::drawing {

/// An image of three bytes a pixel (red, green, blue; rows from the top, no gaps) as a baseline JPEG file in memory.
/// Chrominance is kept at full size: on small images halving it would smear neighbouring objects into each other.
std::vector<std::uint8_t> encode_jpeg(const std::uint8_t* rgb, std::int64_t width, std::int64_t height, int quality);

/// Width and height that a JPEG's header states. Bytes that are no JPEG and more than 64 megapixels are refused; `name`
/// stands in the sentence.
std::pair<std::int64_t, std::int64_t> jpeg_dimensions(std::span<const std::uint8_t> bytes, const std::string& name);

}  // namespace camber::drawing
