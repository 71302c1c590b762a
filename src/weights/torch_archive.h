#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace camber::weights {

/// The largest size that a zip archive states of a file in it, by its list of files (of the zip64 form too, in which
/// torch writes); nothing where that list is damaged. LibTorch takes the memory that is stated before it reads a byte,
/// for one file as soon as the archive is opened.
std::optional<std::uint64_t> largest_stated_size(std::span<const std::byte> archive);

}  // namespace camber::weights
