#include "detection/cmt/weight_files.h"

#include <stdexcept>

#include "camber/detection/cmt_weights.h"
#include "camber/weights/torch_file.h"

namespace camber::detection {
namespace {

std::vector<weights::NamedTensor> from_safetensors(const std::filesystem::path& path) {
  const weights::StateFile file(path);
  std::vector<weights::NamedTensor> tensors;
  for (const auto& view : file.tensors()) tensors.push_back({view.name, weights::tensor_of(view)});
  return tensors;
}

std::vector<weights::NamedTensor> from_torch(const std::filesystem::path& path) {
  const weights::TorchFile file(path);
  std::vector<weights::NamedTensor> tensors;
  for (const auto& name : file.names())
    if (!name.starts_with("optimizer.") && !name.starts_with("meta.")) tensors.push_back({name, file.tensor(name)});
  return tensors;
}

// The version of each module as torch and mmdetection3d count them: norms and sparse convolutions 2, others 1.
std::map<std::string, std::int64_t> versions_of(const std::vector<weights::NamedTensor>& state) {
  std::map<std::string, std::int64_t> versions;
  for (const auto& [name, tensor] : state) {
    const auto dot = name.rfind('.');
    auto& version = versions.try_emplace(name.substr(0, dot), 1).first->second;
    if (name.ends_with(".running_mean") || cmt::is_sparse_weight(name, tensor.dim())) version = 2;
  }
  return versions;
}

}  // namespace

bool cmt::is_sparse_weight(const std::string& name, std::int64_t dimensions) {
  return dimensions == 5 && name.starts_with("pts_middle_encoder.") && name.ends_with(".weight");
}

std::vector<weights::NamedTensor> read_cmt_file(const std::filesystem::path& file) {
  return file.extension() == ".safetensors" ? from_safetensors(file) : from_torch(file);
}

void write_cmt_file(const DetectorImpl& detector, const std::filesystem::path& file,
                    std::optional<SpconvLayout> layout) {
  if (file.extension() == ".safetensors") {
    auto state = export_cmt(detector, layout.value_or(SpconvLayout::kOne));
    weights::write_state(file, std::move(state), {});
  } else if (file.extension() == ".pth" || file.extension() == ".pt") {
    if (layout == SpconvLayout::kOne)
      throw std::invalid_argument("[cmt] spconv must be 2 for " + file.string() +
                                  ": its _metadata tells mmdetection3d that the weights lie so");
    const auto state = export_cmt(detector, SpconvLayout::kTwo);
    weights::write_torch_file(file, state, versions_of(state), {{"made_by", "camber export cmt"}});
  } else {
    throw std::invalid_argument("[cmt] the file to write must end in .pth or .safetensors, got " + file.string());
  }
}

}  // namespace camber::detection
