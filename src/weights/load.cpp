#include "camber/weights/load.h"

#include <algorithm>
#include <set>
#include <stdexcept>

#include "weights/scale_transfer.h"

namespace camber::weights {
namespace {

using storage::TensorView;

struct Copy {
  std::string name;
  torch::Tensor to;
  const TensorView* from;
};

bool contains_one(const std::string& name, const std::vector<std::string>& parts) {
  return std::any_of(
      parts.begin(), parts.end(), [&name](const std::string& part) { return name.find(part) != std::string::npos; });
}

// Floating-point types convert into each other; anything else is a count or a mark, and must be what it was.
bool can_take(const torch::Tensor& tensor, const TensorView& view) {
  using storage::DataType;
  const bool floating = view.type == DataType::kF16 || view.type == DataType::kBF16 || view.type == DataType::kF32 ||
                        view.type == DataType::kF64;
  return fits(view, tensor) ||
         (floating && tensor.is_floating_point() && torch::IntArrayRef(view.shape) == tensor.sizes());
}

bool has_average(const StateFile& file) {
  return std::any_of(
      file.tensors().begin(), file.tensors().end(),
      [](const TensorView& view) { return view.name.starts_with(kAveragePrefix); });
}

void check_exclude(const std::vector<std::string>& exclude, const std::vector<NamedTensor>& tensors,
                   const LoadReport& report) {
  for (const std::string& part : exclude) {
    const auto holds = [&part](const std::string& name) { return name.find(part) != std::string::npos; };
    if (std::none_of(tensors.begin(), tensors.end(), [&](const NamedTensor& entry) { return holds(entry.name); }) &&
        std::none_of(report.unknown.begin(), report.unknown.end(), holds))
      throw std::invalid_argument("[weights] exclude must hold parts of tensors' names, got '" + part +
                                  "', which no name of the model or the file contains");
  }
}

// What is to be copied, and the report on it.
struct Plan {
  std::string prefix{};
  LoadReport report{};
  std::vector<Copy> copies{};

  bool copies_to(const std::string& name) const {
    return std::any_of(
        copies.begin(), copies.end(), [&name](const Copy& copy) { return copy.name == name; });
  }
  void drop(const std::string& name) {
    std::erase_if(copies, [&name](const Copy& copy) { return copy.name == name; });
    std::erase(report.loaded, name);
  }
};

Plan make_plan(const StateFile& file, const torch::nn::Module& model, const LoadOptions& options) {
  Plan plan{.prefix = has_average(file) ? kAveragePrefix : kModelPrefix};
  LoadReport& report = plan.report;
  const SettingNames settings = settings_of(model);
  const std::vector<NamedTensor> tensors = tensors_of(model, "");
  std::set<std::string> names;
  for (const auto& [name, tensor] : tensors) {
    const TensorView* view = file.find(plan.prefix + name);
    names.insert(name);
    const bool own_setting = options.settings == Settings::kOfModel && settings.contains(name);
    if (contains_one(name, options.exclude)) {
      report.excluded.push_back(name);
    } else if (own_setting || (view == nullptr && settings.is_later(name))) {
      continue;
    } else if (view == nullptr) {
      report.missing.push_back(name);
    } else if (!can_take(tensor, *view)) {
      report.mismatched.push_back({name, shape_text(*view), shape_text(tensor)});
    } else {
      report.loaded.push_back(name);
      plan.copies.push_back({name, tensor, view});
    }
  }
  for (const TensorView& view : file.tensors())
    if (view.name.starts_with(plan.prefix) && !names.contains(view.name.substr(plan.prefix.size())))
      report.unknown.push_back(view.name.substr(plan.prefix.size()));
  check_exclude(options.exclude, tensors, report);
  // Bounds and mapping without the raw value that they belong to would give the model's own another meaning.
  for (const auto& [prefix, scale] : find_modules<nn::BoundedScaleImpl>(model))
    if (!plan.copies_to(prefix + "raw"))
      for (const char* setting : {"bounds", "mapping"}) plan.drop(prefix + setting);
  if (plan.copies.empty())
    throw std::runtime_error("[weights] " + file.path().string() + ": no tensor of its " +
                             std::to_string(file.tensors().size()) + " fits this model; it begins with '" +
                             (file.tensors().empty() ? "" : file.tensors().front().name) + "', the model with '" +
                             (names.empty() ? "" : *names.begin()) + "'");
  return plan;
}

LoadReport apply_plan(Plan plan, const StateFile& file, torch::nn::Module& model, const LoadOptions& options) {
  const torch::NoGradGuard no_grad;
  if (options.settings == Settings::kOfModel) {
    ScaleTransfer transfer(file, plan.prefix, model, options);
    std::erase_if(plan.copies, [&transfer](const Copy& copy) { return transfer.takes(copy.name); });
    plan.report.notes = transfer.apply();
  }
  for (Copy& copy : plan.copies) copy.to.copy_(tensor_of(*copy.from));
  model.train(model.is_training());  // forgets what was computed with the old weights
  return std::move(plan.report);
}

}  // namespace

LoadReport load(const StateFile& file, torch::nn::Module& model, const LoadOptions& options) {
  return apply_plan(make_plan(file, model, options), file, model, options);
}

void load_whole(const StateFile& file, torch::nn::Module& model) {
  const LoadOptions options;
  Plan plan = make_plan(file, model, options);
  if (!plan.report.complete())
    throw std::runtime_error("[weights] " + file.path().string() + " must hold the whole state of its model, got " +
                             plan.report.text());
  apply_plan(std::move(plan), file, model, options);
}

std::string LoadReport::text() const {
  const auto count = [](const auto& list, const char* what) { return std::to_string(list.size()) + what; };
  std::string text = count(loaded, " tensors loaded, ") + count(missing, " missing in the file, ") +
                     count(unknown, " unknown to the model, ") + count(mismatched, " of another shape, ") +
                     count(excluded, " left out\n");
  for (const std::string& name : missing) text += "  missing: " + name + "\n";
  for (const std::string& name : unknown) text += "  unknown: " + name + "\n";
  for (const Mismatch& entry : mismatched)
    text += "  shape:   " + entry.name + " is " + entry.file + " in the file and " + entry.model + " in the model\n";
  for (const std::string& name : excluded) text += "  left out: " + name + "\n";
  for (const std::string& note : notes) text += "  " + note + "\n";
  return text;
}

}  // namespace camber::weights
