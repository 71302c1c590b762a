#include "camber/weights/torch_file.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>
#include <stdexcept>

#include <caffe2/serialize/inline_container.h>

#include "camber/json/values.h"
#include "camber/storage/file.h"
#include "weights/pickle_reader.h"
#include "weights/torch_archive.h"

namespace camber::weights {
namespace {

constexpr int kDeepest = 16;
constexpr std::size_t kMostValues = 1'000'000, kLongestName = 1000;

// The bytes of a record. torch.save does not compress, so that one that says to be larger than its file is a bomb.
std::string record_of(caffe2::serialize::PyTorchStreamReader& reader, const std::string& name, std::uint64_t most) {
  if (!reader.hasRecord(name)) throw std::runtime_error("it holds no '" + json::shown_text(name) + "'");
  if (reader.getRecordSize(name) > most)
    throw std::runtime_error("its '" + json::shown_text(name) + "' says to be larger than the file");
  const auto [data, size] = reader.getRecord(name);
  return {static_cast<const char*>(data.get()), size};
}

std::string key_text(const PickledValue& key) {
  return key.kind == PickledValue::Kind::kInteger ? std::to_string(key.integer) : key.text;
}

// All tensors below a value. Dictionaries that hold themselves, or each other many times over, end at a depth and a
// number that no checkpoint has.
struct Entries {
  std::vector<std::pair<std::string, PickledTensor>> all{};
  std::size_t visited = 0;
};

void collect(const PickledValue& value, const std::string& name, int depth, Entries& to) {
  if (depth > kDeepest || ++to.visited > kMostValues || name.size() > kLongestName)
    throw std::runtime_error("its dictionaries are nested beyond what a checkpoint holds");
  if (value.kind == PickledValue::Kind::kTensor) {
    to.all.emplace_back(name, *value.tensor);
  } else if (value.kind == PickledValue::Kind::kDict) {
    for (std::size_t i = 0; i + 1 < value.items.size(); i += 2) {
      const std::string key = key_text(*value.items[i]);
      collect(*value.items[i + 1], name.empty() ? key : std::string(name).append(".").append(key), depth + 1, to);
    }
  }
}

// How many elements a tensor has, and how many of its storage it reaches; nothing for what cannot be counted.
struct Reach {
  std::int64_t elements = 0, storage = 0;
};

std::optional<Reach> reach_of(const PickledTensor& tensor) {
  if (tensor.sizes.size() != tensor.strides.size() || tensor.offset < 0) return std::nullopt;
  std::int64_t last = tensor.offset, count = 1;
  for (std::size_t i = 0; i < tensor.sizes.size(); ++i) {
    const std::int64_t size = tensor.sizes[i], stride = tensor.strides[i];
    if (size < 0 || stride < 0 || __builtin_mul_overflow(count, size, &count)) return std::nullopt;
    std::int64_t extent = 0;
    if (__builtin_mul_overflow(std::max<std::int64_t>(size - 1, 0), stride, &extent) ||
        __builtin_add_overflow(last, extent, &last))
      return std::nullopt;
  }
  if (count == 0) return Reach{};
  if (last == std::numeric_limits<std::int64_t>::max()) return std::nullopt;
  return Reach{count, last + 1};
}

}  // namespace

struct TorchFile::Content {
  std::filesystem::path path{};
  std::uint64_t bytes = 0;
  std::unique_ptr<caffe2::serialize::PyTorchStreamReader> reader{};
  std::vector<std::string> names{};
  std::map<std::string, PickledTensor> tensors{};

  [[noreturn]] void refuse(std::string_view what) const {
    // LibTorch appends to its sentences where they were raised.
    throw std::runtime_error("[weights] " + path.string() + " must be a file of torch.save, but " +
                             std::string(what.substr(0, what.find('\n'))));
  }

  // Before LibTorch opens it, and believes what it says.
  void check_archive() const {
    const storage::MappedFile file(path);
    const auto archive = file.bytes();
    if (archive.size() < 2 || archive[0] != std::byte{'P'} || archive[1] != std::byte{'K'})
      refuse("it is no zip archive: torch before 1.6 wrote others, which torch.load and torch.save renew");
    const auto largest = largest_stated_size(archive);
    if (!largest) refuse("its archive is cut short or damaged");
    if (*largest > bytes) refuse("a file in its archive says to be larger than the archive");
  }

  void open() {
    check_archive();
    try {
      reader = std::make_unique<caffe2::serialize::PyTorchStreamReader>(path.string());
    } catch (const std::exception&) {
      refuse("its archive is cut short or damaged");
    }
    try {
      if (reader->hasRecord("byteorder") && record_of(*reader, "byteorder", bytes) != "little")
        refuse("its bytes are not in little-endian order");
      const std::string pickle = record_of(*reader, "data.pkl", bytes);
      PickleReader values(pickle);
      Entries entries;
      collect(values.read(), "", 0, entries);
      for (auto& [name, tensor] : entries.all)
        if (tensors.emplace(name, tensor).second) names.push_back(name);
    } catch (const c10::Error&) {
      refuse("its archive is cut short or damaged");
    }
  }
};

TorchFile::TorchFile(const std::filesystem::path& path) : content_(std::make_unique<Content>()) {
  content_->path = path;
  if (!std::filesystem::is_regular_file(path))
    throw std::runtime_error("[weights] " + path.string() + " must be a file that can be read");
  content_->bytes = std::filesystem::file_size(path);
  try {
    content_->open();
  } catch (const std::runtime_error& error) {
    const std::string_view text = error.what();
    if (text.starts_with("[weights]")) throw;
    content_->refuse(text);
  }
}

TorchFile::~TorchFile() = default;
TorchFile::TorchFile(TorchFile&&) noexcept = default;
TorchFile& TorchFile::operator=(TorchFile&&) noexcept = default;

const std::vector<std::string>& TorchFile::names() const {
  return content_->names;
}

torch::Tensor TorchFile::tensor(const std::string& name) const {
  const auto found = content_->tensors.find(name);
  if (found == content_->tensors.end())
    throw std::runtime_error("[weights] " + content_->path.string() + " must hold a tensor '" + json::shown_text(name) +
                             "'");
  const PickledTensor& described = found->second;
  const auto reach = reach_of(described);
  const auto element = static_cast<std::uint64_t>(torch::elementSize(described.type));
  std::string bytes;
  try {
    bytes = record_of(*content_->reader, "data/" + described.storage, content_->bytes);
  } catch (const c10::Error&) {
    content_->refuse("the bytes of '" + json::shown_text(name) + "' are cut short or damaged");
  } catch (const std::runtime_error& error) {
    content_->refuse(error.what());
  }
  if (!reach || static_cast<std::uint64_t>(reach->storage) > bytes.size() / element)
    content_->refuse("tensor '" + json::shown_text(name) + "' reaches beyond its storage");
  if (static_cast<std::uint64_t>(reach->elements) > content_->bytes)  // one element repeated by a stride of 0
    content_->refuse("tensor '" + json::shown_text(name) + "' says to be larger than the file");
  auto storage = torch::empty({static_cast<std::int64_t>(bytes.size() / element)}, described.type);
  if (!bytes.empty()) std::memcpy(storage.mutable_data_ptr(), bytes.data(), storage.nbytes());
  return torch::as_strided(storage, described.sizes, described.strides, described.offset).clone();
}

}  // namespace camber::weights
