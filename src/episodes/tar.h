#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace camber::episodes {

constexpr std::size_t kTarBlock = 512;

/// One regular file of a tar: where its bytes lie.
struct TarFile {
  std::string name{};
  std::uint64_t offset = 0, size = 0;
};

/// Whether the bytes begin like a tar of the ustar, GNU or PAX form.
bool looks_like_tar(std::span<const std::byte> bytes);

/// The regular files whose names `wanted` takes, in the order in which they stand, links as what they lead to. Reads
/// PAX records (path, linkpath and size; of one entry and of all that follow) and GNU's long names and sizes. Calls
/// `refuse`, which throws, with half a sentence for what is damaged, cut off, sparse, of an unknown type, or a link
/// that leads to no file of the archive.
std::vector<TarFile> list_tar(std::span<const std::byte> bytes, const std::function<bool(const std::string&)>& wanted,
                              const std::function<void(const std::string&)>& refuse);

}  // namespace camber::episodes
