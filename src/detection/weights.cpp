#include "camber/detection/weights.h"

#include <algorithm>
#include <map>
#include <stdexcept>

#include "camber/config/options.h"

namespace camber::detection {
namespace {

// Types that modules hold; the names are the file's.
constexpr std::array kTypes = {
    std::pair{torch::kFloat, storage::DataType::kF32}, std::pair{torch::kDouble, storage::DataType::kF64},
    std::pair{torch::kLong, storage::DataType::kI64},  std::pair{torch::kInt, storage::DataType::kI32},
    std::pair{torch::kByte, storage::DataType::kU8},   std::pair{torch::kBool, storage::DataType::kBool},
    std::pair{torch::kHalf, storage::DataType::kF16},  std::pair{torch::kBFloat16, storage::DataType::kBF16}};

bool starts_with(const std::string& text, const std::string& start) {
  return text.compare(0, start.size(), start) == 0;
}

// Parameters and buffers as they stand in the module, by name without the prefix.
std::vector<std::pair<std::string, torch::Tensor>> tensors_of(const DetectorImpl& detector) {
  std::vector<std::pair<std::string, torch::Tensor>> result;
  for (const auto& item : detector.named_parameters()) result.emplace_back(item.key(), item.value());
  for (const auto& item : detector.named_buffers()) result.emplace_back(item.key(), item.value());
  return result;
}

}  // namespace

std::vector<std::pair<std::string, torch::Tensor>> state_of(const DetectorImpl& detector) {
  auto state = tensors_of(detector);
  for (auto& [name, tensor] : state) {
    name.insert(0, kWeightPrefix);
    tensor = tensor.detach().to(torch::kCPU).contiguous();
  }
  return state;
}

storage::TensorView view_of(const std::string& name, const torch::Tensor& tensor) {
  TORCH_CHECK_VALUE(tensor.is_contiguous() && tensor.is_cpu(), "[view_of] ", name,
                    " must be contiguous and on the CPU");
  for (const auto& [ours, theirs] : kTypes)
    if (tensor.scalar_type() == ours)
      return {.name = name,
              .type = theirs,
              .shape = tensor.sizes().vec(),
              .bytes = {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()}};
  TORCH_CHECK_VALUE(false, "[view_of] ", name, " must have a type that files know, got ", tensor.scalar_type());
}

torch::Tensor tensor_of(const storage::TensorView& view) {
  for (const auto& [ours, theirs] : kTypes) {
    if (view.type != theirs) continue;
    auto tensor = torch::empty(view.shape, ours);
    if (!view.bytes.empty()) std::memcpy(tensor.data_ptr(), view.bytes.data(), view.bytes.size());
    return tensor;
  }
  throw std::runtime_error("[tensor_of] tensor \"" + view.name + "\" must have a type that tensors know, got " +
                           std::string(storage::name(view.type)));
}

LoadReport load_weights(DetectorImpl& detector, const storage::SafetensorsFile& file) {
  LoadReport report;
  std::map<std::string, torch::Tensor> wanted;
  for (const auto& [name, tensor] : tensors_of(detector)) wanted.emplace(kWeightPrefix + name, tensor);
  const torch::NoGradGuard guard;
  for (const auto& view : file.tensors()) {
    if (!starts_with(view.name, kWeightPrefix)) continue;
    const auto at = wanted.find(view.name);
    if (at == wanted.end()) {
      report.unexpected.push_back(view.name);
      continue;
    }
    if (at->second.sizes() == torch::IntArrayRef(view.shape))
      at->second.copy_(tensor_of(view));
    else
      report.other_shape.push_back(view.name);
    wanted.erase(at);
  }
  detector.train(detector.is_training());  // forgets what was computed with the old weights
  for (const auto& [name, tensor] : wanted) report.missing.push_back(name);
  return report;
}

DetectorOptions options_in(const storage::SafetensorsFile& file, const std::string& name) {
  const auto at = file.metadata().find(kOptionsKey);
  if (at == file.metadata().end())
    throw std::runtime_error("[Detector] " + name + " must hold a detector's options under \"" + kOptionsKey +
                             "\" in its metadata: it was not written as a detector");
  return config::parse<DetectorOptions>(at->second, name);
}

void save(const DetectorImpl& detector, const std::filesystem::path& file, storage::Metadata metadata) {
  const auto state = state_of(detector);
  std::vector<storage::TensorView> views;
  views.reserve(state.size());
  for (const auto& [name, tensor] : state) views.push_back(view_of(name, tensor));
  metadata[kOptionsKey] = config::to_toml(detector.options());
  storage::write_safetensors(file, views, metadata);
}

}  // namespace camber::detection
