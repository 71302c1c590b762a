#include "camber/weights/checksums.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>

#include <nlohmann/json.hpp>

namespace camber::weights {
namespace {

constexpr const char* kKey = "checksums";
constexpr const char* kMetadataSum = "";  // no tensor has an empty name

std::string metadata_sum(const storage::Metadata& metadata) {
  std::string all;
  for (const auto& [key, text] : metadata)
    if (key != kKey) all.append(key).append(1, '\0').append(text).append(1, '\0');
  return checksum_text(checksum(std::as_bytes(std::span(all))));
}

}  // namespace

std::uint64_t checksum(std::span<const std::byte> bytes) {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15;  // odd: multiplication loses nothing
  std::uint64_t sum = bytes.size() * kOdd + 1;
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min(sizeof word, bytes.size() - at));
    sum = std::rotl((sum ^ word) * kOdd, 31);
  }
  return sum;
}

std::string checksum_text(std::uint64_t sum) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(sum));
  return text;
}

void add_checksums(const std::vector<storage::TensorView>& tensors, storage::Metadata& metadata) {
  nlohmann::json sums = {{kMetadataSum, metadata_sum(metadata)}};
  for (const storage::TensorView& tensor : tensors) sums[tensor.name] = checksum_text(checksum(tensor.bytes));
  metadata[kKey] = sums.dump();
}

void verify_checksums(const std::filesystem::path& path, const storage::SafetensorsFile& file) {
  const auto found = file.metadata().find(kKey);
  if (found == file.metadata().end()) return;
  const auto fail = [&path](const std::string& what) {
    throw std::runtime_error("[weights] " + path.string() + ": " + what);
  };
  const auto sums = nlohmann::json::parse(found->second, nullptr, /*allow_exceptions=*/false);
  if (!sums.is_object()) fail("the checksums in the metadata must be a JSON object: the file is damaged");
  if (sums.value(kMetadataSum, "") != metadata_sum(file.metadata()))
    fail("the metadata is not what was written: the file is damaged");
  for (const storage::TensorView& tensor : file.tensors()) {
    const std::string stated = sums.value(tensor.name, "none");
    const std::string seen = checksum_text(checksum(tensor.bytes));
    if (stated != seen)
      fail(std::string("tensor '")
               .append(tensor.name)
               .append("' must have the checksum ")
               .append(stated)
               .append(", got ")
               .append(seen)
               .append(": its bytes are damaged"));
  }
}

}  // namespace camber::weights
