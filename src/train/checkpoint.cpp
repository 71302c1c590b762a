#include <set>
#include <stdexcept>

#include <camber/config/sentence.h>
#include <camber/train/checkpoint.h>
#include <camber/weights/load.h>

#include "train/checkpoint_info.h"
#include "train/optimizer_state.h"

namespace camber::train {
namespace {

using storage::SafetensorsFile;
using storage::TensorView;
using weights::fits;
using weights::kAveragePrefix;
using weights::kModelPrefix;
using weights::NamedTensor;
using weights::shape_text;
using weights::StateFile;

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& what) {
  throw std::runtime_error(config::sentence("[checkpoint] ", path.string(), ": ", what));
}

void append(std::vector<NamedTensor>& all, std::vector<NamedTensor> more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

std::vector<NamedTensor> average_tensors(const ExponentialAverage& average, const std::string& prefix) {
  std::vector<NamedTensor> tensors;
  for (const ExponentialAverage::Entry& entry : average.entries())
    tensors.push_back({prefix + entry.name, entry.average});
  return tensors;
}

// Every tensor must be there with its shape and type, and none beside them under the prefix. Settings that older files
// lack are left out of `wanted`: they stay as they are.
void check_all(const StateFile& file, std::vector<NamedTensor>& wanted, const std::string& prefix,
               const weights::SettingNames& settings) {
  const std::filesystem::path& path = file.path();
  std::erase_if(wanted, [&](const NamedTensor& entry) {
    return file.find(entry.name) == nullptr && settings.is_later(entry.name.substr(prefix.size()));
  });
  std::set<std::string_view> names;
  for (const NamedTensor& entry : wanted) {
    names.insert(entry.name);
    const TensorView* view = file.find(entry.name);
    if (view == nullptr) refuse(path, config::sentence("tensor '", entry.name, "' of the model is missing"));
    if (!fits(*view, entry.tensor))
      refuse(path, config::sentence("tensor '", entry.name, "' must be ", shape_text(entry.tensor),
                                    " as in the model, got ", shape_text(*view)));
  }
  for (const TensorView& view : file.tensors())
    if (view.name.starts_with(prefix) && !names.contains(view.name))
      refuse(path, config::sentence("tensor '", view.name, "' belongs to nothing in this model"));
}

void copy_all(const SafetensorsFile& file, const std::vector<NamedTensor>& into) {
  torch::NoGradGuard no_grad;
  for (const NamedTensor& entry : into) torch::Tensor(entry.tensor).copy_(weights::tensor_of(file.at(entry.name)));
}

}  // namespace

void save_checkpoint(const std::filesystem::path& path, const TrainingState& state, const CheckpointInfo& info) {
  std::vector<NamedTensor> tensors = weights::tensors_of(state.model);
  if (state.optimizer != nullptr) append(tensors, optimizer_tensors(*state.optimizer, *state.groups));
  if (state.average != nullptr) append(tensors, average_tensors(*state.average, kAveragePrefix));
  weights::write_state(path, std::move(tensors), metadata_of(info));
}

CheckpointInfo load_checkpoint(const std::filesystem::path& path, const TrainingState& state) {
  const StateFile file(path);
  CheckpointInfo info = info_of(path, file);
  const weights::SettingNames settings = weights::settings_of(state.model);
  std::vector<NamedTensor> model = weights::tensors_of(state.model);
  check_all(file, model, kModelPrefix, settings);
  std::vector<NamedTensor> average;
  if (state.average != nullptr) {
    average = average_tensors(*state.average, kAveragePrefix);
    check_all(file, average, kAveragePrefix, settings);
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

void save_weights(const std::filesystem::path& path, const TrainingState& state, const CheckpointInfo& info) {
  weights::write_state(
      path, state.average == nullptr ? weights::tensors_of(state.model) : average_tensors(*state.average, kModelPrefix),
      metadata_of(info));
}

}  // namespace camber::train
