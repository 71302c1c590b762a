#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <camber/storage/safetensors.h>

namespace camber::weights {

/// A sum that any single damaged word changes: every step maps the state one to one.
std::uint64_t checksum(std::span<const std::byte> bytes);

/// Adds one sum a tensor, and one over all other metadata, under the key "checksums".
void add_checksums(const std::vector<storage::TensorView>& tensors, storage::Metadata& metadata);

/// The sum as it is written: 16 hexadecimal digits.
std::string checksum_text(std::uint64_t sum);

/// Throws std::runtime_error that names the first tensor whose bytes are not those that were written. A file without
/// sums (written by others) is taken as it is.
void verify_checksums(const std::filesystem::path& path, const storage::SafetensorsFile& file);

}  // namespace camber::weights
