#include <set>
#include <stdexcept>

#include <camber/config/numbers.h>
#include <camber/storage/safetensors.h>
#include <camber/train/checkpoint.h>
#include <nlohmann/json.hpp>

#include "train/checksums.h"
#include "train/sentence.h"
#include "train/tensor_state.h"

namespace camber::train {
namespace {

using storage::SafetensorsFile;
using storage::TensorView;

constexpr const char* kCountersKey = "counters";
constexpr const char* kNumbersKey = "numbers";
constexpr const char* kChecksumsKey = "checksums";

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& what) {
  throw std::runtime_error(sentence("[checkpoint] ", path.string(), ": ", what));
}

storage::Metadata metadata_of(const CheckpointInfo& info) {
  storage::Metadata metadata = info.metadata;
  metadata[kCountersKey] = nlohmann::json(info.counters).dump();
  std::map<std::string, std::string> numbers;
  for (const auto& [name, value] : info.numbers) numbers[name] = config::write_number(value);
  metadata[kNumbersKey] = nlohmann::json(numbers).dump();
  return metadata;
}

CheckpointInfo info_of(const std::filesystem::path& path, const SafetensorsFile& file) {
  CheckpointInfo info{.metadata = file.metadata()};
  try {
    if (const auto found = info.metadata.find(kCountersKey); found != info.metadata.end())
      info.counters = nlohmann::json::parse(found->second).get<Counters>();
    if (const auto found = info.metadata.find(kNumbersKey); found != info.metadata.end())
      for (const auto& [name, text] : nlohmann::json::parse(found->second).get<std::map<std::string, std::string>>())
        info.numbers[name] = config::read_number(text).value();
  } catch (const std::exception& error) {
    refuse(path, sentence("the counters in the metadata must be JSON objects of numbers: ", error.what()));
  }
  for (const char* key : {kCountersKey, kNumbersKey, kChecksumsKey}) info.metadata.erase(key);
  return info;
}

void write(const std::filesystem::path& path, std::vector<NamedTensor> tensors, const CheckpointInfo& info) {
  std::vector<TensorView> views;
  for (NamedTensor& entry : tensors) {
    entry.tensor = entry.tensor.cpu().contiguous();  // weights of convolutions may lie channels last
    views.push_back(view_of(entry));
  }
  storage::Metadata metadata = metadata_of(info);
  add_checksums(views, metadata);
  std::filesystem::create_directories(path.parent_path());
  storage::write_safetensors(path, views, metadata);
}

void append(std::vector<NamedTensor>& all, std::vector<NamedTensor> more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

// Every tensor must be there with its shape and type, and none beside them under the prefix.
void check_all(const std::filesystem::path& path, const SafetensorsFile& file, const std::vector<NamedTensor>& wanted,
               std::string_view prefix) {
  std::set<std::string_view> names;
  for (const NamedTensor& entry : wanted) {
    names.insert(entry.name);
    const TensorView* view = file.find(entry.name);
    if (view == nullptr) refuse(path, sentence("tensor '", entry.name, "' of the model is missing"));
    if (!fits(*view, entry.tensor))
      refuse(path, sentence("tensor '", entry.name, "' must be ", shape_text(entry.tensor), " as in the model, got ",
                            shape_text(*view)));
  }
  for (const TensorView& view : file.tensors())
    if (view.name.starts_with(prefix) && !names.contains(view.name))
      refuse(path, sentence("tensor '", view.name, "' belongs to nothing in this model"));
}

void copy_all(const SafetensorsFile& file, const std::vector<NamedTensor>& into) {
  torch::NoGradGuard no_grad;
  for (const NamedTensor& entry : into) torch::Tensor(entry.tensor).copy_(tensor_of(file.at(entry.name)));
}

bool contains_one(const std::string& name, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    if (name.find(part) != std::string::npos) return true;
  return false;
}

}  // namespace

void save_checkpoint(const std::filesystem::path& path, const TrainingState& state, const CheckpointInfo& info) {
  std::vector<NamedTensor> tensors = model_tensors(state.model);
  if (state.optimizer != nullptr) append(tensors, optimizer_tensors(*state.optimizer, *state.groups));
  if (state.average != nullptr) append(tensors, average_tensors(*state.average, kAveragePrefix));
  write(path, std::move(tensors), info);
}

CheckpointInfo load_checkpoint(const std::filesystem::path& path, const TrainingState& state) {
  const SafetensorsFile file(path);
  verify_checksums(path, file);
  CheckpointInfo info = info_of(path, file);
  const std::vector<NamedTensor> model = model_tensors(state.model);
  check_all(path, file, model, kModelPrefix);
  std::vector<NamedTensor> average;
  if (state.average != nullptr) {
    average = average_tensors(*state.average, kAveragePrefix);
    check_all(path, file, average, kAveragePrefix);
  }
  if (state.optimizer != nullptr) {
    const std::string wrong = check_optimizer_tensors(file, *state.optimizer, *state.groups);
    if (!wrong.empty()) refuse(path, wrong);
    restore_optimizer(file, *state.optimizer, *state.groups);
  }
  copy_all(file, model);
  copy_all(file, average);
  return info;
}

CheckpointInfo read_checkpoint_info(const std::filesystem::path& path) {
  return info_of(path, SafetensorsFile(path));
}

void save_weights(const std::filesystem::path& path, const TrainingState& state, const CheckpointInfo& info) {
  write(path, state.average == nullptr ? model_tensors(state.model) : average_tensors(*state.average, kModelPrefix),
        info);
}

LoadReport load_weights(const std::filesystem::path& path, torch::nn::Module& model,
                        const LoadWeightsOptions& options) {
  const SafetensorsFile file(path);
  verify_checksums(path, file);
  const auto has_average = [&file] {
    for (const TensorView& view : file.tensors())
      if (view.name.starts_with(kAveragePrefix)) return true;
    return false;
  };
  const std::string_view prefix = options.use_average && has_average() ? kAveragePrefix : kModelPrefix;
  LoadReport report;
  std::set<std::string, std::less<>> names;
  std::vector<std::pair<torch::Tensor, const TensorView*>> copies;
  for (const NamedTensor& entry : model_tensors(model)) {
    const std::string name = entry.name.substr(std::string_view(kModelPrefix).size());
    names.insert(name);
    const TensorView* view = file.find(std::string(prefix) + name);
    if (contains_one(name, options.exclude)) {
      report.excluded.push_back(name);
    } else if (view == nullptr) {
      report.missing.push_back(name);
    } else if (!fits(*view, entry.tensor)) {
      report.mismatched.push_back({name, shape_text(*view), shape_text(entry.tensor)});
    } else {
      report.loaded.push_back(name);
      copies.emplace_back(entry.tensor, view);
    }
  }
  for (const TensorView& view : file.tensors())
    if (view.name.starts_with(prefix) && !names.contains(view.name.substr(prefix.size())))
      report.unknown.push_back(view.name.substr(prefix.size()));
  if (copies.empty())
    refuse(path, sentence("no tensor of its ", file.tensors().size(), " fits this model; it begins with '",
                          file.tensors().empty() ? "" : file.tensors().front().name, "', the model with '",
                          names.empty() ? "" : *names.begin(), "'"));
  torch::NoGradGuard no_grad;
  for (auto& [tensor, view] : copies) tensor.copy_(tensor_of(*view));
  return report;
}

std::string LoadReport::text() const {
  std::string text =
      sentence(loaded.size(), " tensors loaded, ", missing.size(), " missing in the file, ", unknown.size(),
               " unknown to the model, ", mismatched.size(), " of another shape, ", excluded.size(), " left out\n");
  for (const std::string& name : missing) text += sentence("  missing: ", name, "\n");
  for (const std::string& name : unknown) text += sentence("  unknown: ", name, "\n");
  for (const Mismatch& entry : mismatched)
    text +=
        sentence("  shape:   ", entry.name, " is ", entry.file, " in the file and ", entry.model, " in the model\n");
  for (const std::string& name : excluded) text += sentence("  left out: ", name, "\n");
  return text;
}

}  // namespace camber::train
