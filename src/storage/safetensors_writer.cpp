#include <algorithm>
#include <cstring>
#include <set>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "camber/storage/atomic_file.h"
#include "camber/storage/safetensors.h"
#include "storage/data_type.h"

namespace camber::storage {
namespace {

constexpr std::size_t kAlignment = 8;

void check(const std::vector<TensorView>& tensors) {
  std::set<std::string_view> names;
  for (const TensorView& tensor : tensors) {
    if (tensor.name == kMetadataKey)
      throw std::invalid_argument(fmt::format("[safetensors] a tensor must not be named {}", kMetadataKey));
    if (!names.insert(tensor.name).second)
      throw std::invalid_argument(
          fmt::format("[safetensors] the name '{}' must be given once, got it twice", tensor.name));
    const auto needed = tensor_bytes(tensor.type, tensor.shape);
    if (!needed || *needed != tensor.bytes.size())
      throw std::invalid_argument(
          fmt::format("[safetensors] tensor '{}' of type {} and shape [{}] must have {} bytes, got {}", tensor.name,
                      name(tensor.type), fmt::join(tensor.shape, ", "),
                      needed ? std::to_string(*needed) : "fewer than 2^63", tensor.bytes.size()));
  }
}

std::string header_text(const std::vector<const TensorView*>& tensors, const Metadata& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[kMetadataKey] = metadata;
  std::size_t offset = 0;
  for (const TensorView* tensor : tensors) {
    header[tensor->name] = {{"dtype", name(tensor->type)},
                            {"shape", tensor->shape},
                            {"data_offsets", {offset, offset + tensor->bytes.size()}}};
    offset += tensor->bytes.size();
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    throw std::invalid_argument("[safetensors] names and metadata must be UTF-8 text, got other bytes");
  }
  // Spaces after the JSON are allowed, and put the data on a multiple of 8.
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  return text;
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, const std::vector<TensorView>& tensors,
                       const Metadata& metadata) {
  check(tensors);
  std::vector<const TensorView*> ordered;
  ordered.reserve(tensors.size());
  for (const TensorView& tensor : tensors) ordered.push_back(&tensor);
  std::sort(ordered.begin(), ordered.end(), [](const TensorView* first, const TensorView* second) {
    const std::size_t first_size = byte_size(first->type), second_size = byte_size(second->type);
    return first_size != second_size ? first_size > second_size : first->name < second->name;
  });
  const std::string header = header_text(ordered, metadata);
  const std::uint64_t length = header.size();
  AtomicFile file(path);
  file.write(&length, sizeof length);
  file.write(header);
  for (const TensorView* tensor : ordered) file.write(tensor->bytes.data(), tensor->bytes.size());
  file.commit();
}

}  // namespace camber::storage
