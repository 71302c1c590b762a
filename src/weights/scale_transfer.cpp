#include "weights/scale_transfer.h"

#include <algorithm>
#include <cmath>

#include "camber/config/sentence.h"

namespace camber::weights {
namespace {

template <class Enum>
std::string_view name_of(Enum value) {
  for (const auto& [known, name] : config::enum_names<Enum>)
    if (known == value) return name;
  return "?";
}

// "2.5", or "2.5 to 3.1" for several elements.
std::string value_text(const torch::Tensor& value) {
  const auto low = value.min().item<double>(), high = value.max().item<double>();
  return low == high ? config::sentence(low) : config::sentence(low, " to ", high);
}

// The clip that a new run begins with.
double first_clip(const nn::AttentionBiasImpl& bias) {
  double clip = bias.clip();
  for (const nn::ClipStep& step : bias.options.clip_schedule)
    if (step.from_epoch <= 0) clip = step.clip;
  return clip;
}

std::string without_dot(const std::string& prefix) {
  return prefix.substr(0, prefix.size() - (prefix.empty() ? 0 : 1));
}

}  // namespace

bool SettingNames::contains(const std::string& name) const {
  return std::find(all.begin(), all.end(), name) != all.end();
}

bool SettingNames::is_later(const std::string& name) const {
  return std::find(later.begin(), later.end(), name) != later.end();
}

SettingNames settings_of(const torch::nn::Module& model) {
  SettingNames names;
  for (const auto& [prefix, scale] : find_modules<nn::BoundedScaleImpl>(model)) {
    names.all.push_back(prefix + "bounds");
    names.later.push_back(prefix + "mapping");
  }
  for (const auto& [prefix, bias] : find_modules<nn::AttentionBiasImpl>(model))
    names.later.push_back(prefix + "clip_in_force");
  names.all.insert(names.all.end(), names.later.begin(), names.later.end());
  return names;
}

ScaleTransfer::ScaleTransfer(const StateFile& file, const std::string& prefix, torch::nn::Module& model,
                             const LoadOptions& options)
    : file_(file), prefix_(prefix), model_(model), options_(options) {
  for (const auto& [name, scale] : find_modules<nn::BoundedScaleImpl>(model)) {
    const storage::TensorView* raw = file.find(prefix + name + "raw");
    const auto left_out = [&, raw_name = name + "raw"](const std::string& part) {
      return raw_name.find(part) != std::string::npos;
    };
    if (raw == nullptr || torch::IntArrayRef(raw->shape) != scale->raw().sizes() ||
        std::any_of(options.exclude.begin(), options.exclude.end(), left_out))
      continue;
    Pair pair{.name = name, .to = scale};
    nn::BoundedScaleOptions read_as = scale->options;
    if (options.written_for != nullptr)
      for (const auto& [theirs, written] : find_modules<nn::BoundedScaleImpl>(*options.written_for))
        if (theirs == name) {
          read_as = written->options;
          pair.learnable_known = true;
        }
    read_as.shape = scale->options.shape;
    read_as.l2_center.clear();
    pair.from = scale_in_file(name, read_as);
    pairs_.push_back(std::move(pair));
  }
}

// The scale as the file has it: the options say how to read what it does not say itself.
nn::BoundedScale ScaleTransfer::scale_in_file(const std::string& prefix, const nn::BoundedScaleOptions& options) const {
  nn::BoundedScale scale(options);
  for (const NamedTensor& entry : tensors_of(*scale, ""))
    if (const storage::TensorView* view = file_.find(prefix_ + prefix + entry.name))
      torch::Tensor(entry.tensor).copy_(tensor_of(*view));
  return scale;
}

bool ScaleTransfer::takes(const std::string& name) const {
  return std::any_of(
      pairs_.begin(), pairs_.end(), [&name](const Pair& pair) { return pair.name + "raw" == name; });
}

std::vector<std::string> ScaleTransfer::apply() {
  std::vector<std::string> notes;
  for (Pair& pair : pairs_) {
    const auto note = [&notes, &pair](const auto&... parts) {
      notes.push_back(config::sentence("scale '", without_dot(pair.name), "': ", parts...));
    };
    nn::BoundedScaleImpl &to = *pair.to, &from = *pair.from;
    if (to.min() != from.min() || to.max() != from.max())
      note("bounds ", to.min(), " to ", to.max(), " as configured, ", from.min(), " to ", from.max(), " in the file");
    if (to.constraint() != from.constraint())
      note("constraint ", name_of(to.constraint()), " as configured, ", name_of(from.constraint()), " in the file");
    if (to.space() != from.space())
      note("space ", name_of(to.space()), " as configured, ", name_of(from.space()), " in the file");
    if (pair.learnable_known && to.options.learnable != from.options.learnable)
      note(to.options.learnable ? "learnable as configured, fixed in the file"
                                : "fixed as configured, learnable in the file");
    const torch::Tensor value = from.value();
    to.take_value(from);
    const torch::Tensor taken = to.value();
    if (!torch::allclose(taken.to(torch::kDouble), value.to(torch::kDouble), 1e-5, 0))
      note("its value of ", value_text(value), " lies beyond the bounds and starts at ", value_text(taken));
    else if (!torch::allclose(taken.to(torch::kDouble), torch::full_like(taken, to.options.init, torch::kDouble), 1e-5))
      note("starts at ", value_text(taken), " as in the file, not at its init of ", to.options.init);
  }
  compare_clips(notes);
  return notes;
}

void ScaleTransfer::compare_clips(std::vector<std::string>& notes) const {
  for (const auto& [name, bias] : find_modules<nn::AttentionBiasImpl>(model_)) {
    const storage::TensorView* bounds = file_.find(prefix_ + name + "scale.bounds");
    if (bounds == nullptr) continue;
    double theirs = NAN;
    if (const storage::TensorView* view = file_.find(prefix_ + name + "clip_in_force"))
      theirs = tensor_of(*view).item<double>();
    else if (options_.written_for != nullptr)
      for (const auto& [other, written] : find_modules<nn::AttentionBiasImpl>(*options_.written_for))
        if (other == name) theirs = written->options.clip > 0 ? written->options.clip : -1;
    if (theirs < 0) theirs = tensor_of(*bounds)[1].item<double>();
    const double own = first_clip(*bias);
    if (!std::isnan(theirs) && own != theirs)
      notes.push_back(
          config::sentence("bias '", without_dot(name), "': clip ", own, " as configured, ", theirs, " in the file"));
  }
}

}  // namespace camber::weights
