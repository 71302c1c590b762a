#include "camber/weights/state_file.h"

#include <array>
#include <charconv>
#include <cstring>
#include <stdexcept>
#include <unordered_set>

#include "camber/json/values.h"
#include "camber/ops/numerics.h"
#include "camber/weights/checksums.h"

namespace camber::weights {
namespace {

using storage::DataType;

constexpr std::array kTypes = {
    std::pair{torch::kBool, DataType::kBool},   std::pair{torch::kUInt8, DataType::kU8},
    std::pair{torch::kInt8, DataType::kI8},     std::pair{torch::kInt16, DataType::kI16},
    std::pair{torch::kFloat16, DataType::kF16}, std::pair{torch::kBFloat16, DataType::kBF16},
    std::pair{torch::kInt32, DataType::kI32},   std::pair{torch::kFloat32, DataType::kF32},
    std::pair{torch::kInt64, DataType::kI64},   std::pair{torch::kFloat64, DataType::kF64},
};

DataType file_type(torch::ScalarType type) {
  for (const auto& [torch_type, stored] : kTypes)
    if (torch_type == type) return stored;
  throw std::invalid_argument(std::string("[weights] a tensor must have a type that safetensors knows, got ") +
                              c10::toString(type));
}

torch::ScalarType torch_type(const storage::TensorView& view) {
  for (const auto& [type, stored] : kTypes)
    if (stored == view.type) return type;
  throw std::runtime_error("[weights] tensor '" + json::shown_text(view.name) +
                           "' must have a type that torch knows, got " + std::string(storage::name(view.type)));
}

template <class Shape>
std::string written(DataType type, const Shape& shape) {
  std::string text = std::string(storage::name(type)) + " [";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

}  // namespace

std::vector<NamedTensor> tensors_of(const torch::nn::Module& model, const std::string& prefix) {
  std::vector<NamedTensor> tensors;
  std::unordered_set<const void*> taken;
  const auto add = [&](const std::string& name, const torch::Tensor& value) {
    if (value.defined() && taken.insert(value.unsafeGetTensorImpl()).second)
      tensors.push_back({prefix + name, value.detach()});
  };
  for (const auto& entry : model.named_parameters()) add(entry.key(), entry.value());
  for (const auto& entry : model.named_buffers()) add(entry.key(), entry.value());
  return tensors;
}

storage::TensorView view_of(const NamedTensor& entry) {
  const torch::Tensor& tensor = entry.tensor;
  TORCH_CHECK_VALUE(tensor.is_contiguous() && tensor.is_cpu(), "[weights] tensor '", entry.name,
                    "' must be contiguous and on the CPU");
  return {.name = entry.name,
          .type = file_type(tensor.scalar_type()),
          .shape = tensor.sizes().vec(),
          .bytes = {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()}};
}

torch::Tensor tensor_of(const storage::TensorView& view) {
  torch::Tensor tensor = torch::empty(view.shape, torch_type(view));
  if (!view.bytes.empty()) std::memcpy(tensor.mutable_data_ptr(), view.bytes.data(), view.bytes.size());
  return tensor;
}

std::string shape_text(const storage::TensorView& view) {
  return written(view.type, view.shape);
}

std::string shape_text(const torch::Tensor& tensor) {
  return written(file_type(tensor.scalar_type()), tensor.sizes());
}

bool fits(const storage::TensorView& view, const torch::Tensor& tensor) {
  return view.type == file_type(tensor.scalar_type()) && torch::IntArrayRef(view.shape) == tensor.sizes();
}

void write_state(const std::filesystem::path& path, std::vector<NamedTensor> tensors, storage::Metadata metadata) {
  std::vector<storage::TensorView> views;
  views.reserve(tensors.size());
  for (NamedTensor& entry : tensors) {
    entry.tensor = entry.tensor.cpu().contiguous();  // weights of convolutions may lie channels last
    views.push_back(view_of(entry));
  }
  metadata[kNumericsKey] = std::to_string(ops::kNumerics);
  add_checksums(views, metadata);
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path());
  storage::write_safetensors(path, views, metadata);
}

std::int64_t numerics_of(const storage::Metadata& metadata) {
  const auto found = metadata.find(kNumericsKey);
  if (found == metadata.end()) return 1;
  std::int64_t version = 0;
  const std::string& text = found->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  if (error != std::errc() || end != text.data() + text.size() || version < 1)
    throw std::runtime_error("[weights] numerics in the metadata must be a whole number from 1, got '" +
                             json::shown_text(text) + "'");
  return version;
}

std::string numerics_sentence(const std::string& what, std::int64_t made_with) {
  if (made_with == ops::kNumerics) return "";
  return what + " was made with numerics " + std::to_string(made_with) + ", this program computes with " +
         std::to_string(ops::kNumerics) + ": what it makes from there is as good, but not the same to the bit";
}

StateFile::StateFile(const std::filesystem::path& path) : SafetensorsFile(path), path_(path) {
  verify_checksums(path, *this);
}

}  // namespace camber::weights
