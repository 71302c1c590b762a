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
  return std::any_of(parts.begin(), parts.end(),
                     [&name](const std::string& part) { return name.find(part) != std::string::npos; });
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
  return std::any_of(file.tensors().begin(), file.tensors().end(),
                     [](const TensorView& view) { return view.name.starts_with(kAveragePrefix); });
}

void check_exclude(const std::vector<std::string>& exclude, const std::set<std::string>& names,
                   const LoadReport& report) {
  for (const std::string& part : exclude) {
    const auto holds = [&part](const std::string& name) { return name.find(part) != std::string::npos; };
    if (std::none_of(names.begin(), names.end(), holds) &&
        std::none_of(report.unknown.begin(), report.unknown.end(), holds))
      throw std::invalid_argument("[weights] exclude must hold parts of tensors' names, got '" + part +
                                  "', which no name of the model or the file contains");
  }
}

}  // namespace

LoadReport load(const StateFile& file, torch::nn::Module& model, const LoadOptions& options) {
  const std::string prefix = options.use_average && has_average(file) ? kAveragePrefix : kModelPrefix;
  const SettingNames settings = settings_of(model);
  LoadReport report;
  std::set<std::string> names;
  std::vector<Copy> copies;
  for (const NamedTensor& entry : tensors_of(model, "")) {
    const std::string& name = entry.name;
    const TensorView* view = file.find(prefix + name);
    names.insert(name);
    const bool own_setting = options.settings == Settings::kOfModel && settings.contains(name);
    if (contains_one(name, options.exclude)) {
      report.excluded.push_back(name);
    } else if (own_setting || (view == nullptr && settings.is_later(name))) {
      continue;
    } else if (view == nullptr) {
      report.missing.push_back(name);
    } else if (!can_take(entry.tensor, *view)) {
      report.mismatched.push_back({name, shape_text(*view), shape_text(entry.tensor)});
    } else {
      report.loaded.push_back(name);
      copies.push_back({name, entry.tensor, view});
    }
  }
  for (const TensorView& view : file.tensors())
    if (view.name.starts_with(prefix) && !names.contains(view.name.substr(prefix.size())))
      report.unknown.push_back(view.name.substr(prefix.size()));
  check_exclude(options.exclude, names, report);
  if (copies.empty())
    throw std::runtime_error("[weights] " + file.path().string() + ": no tensor of its " +
                             std::to_string(file.tensors().size()) + " fits this model; it begins with '" +
                             (file.tensors().empty() ? "" : file.tensors().front().name) + "', the model with '" +
                             (names.empty() ? "" : *names.begin()) + "'");
  const torch::NoGradGuard no_grad;
  if (options.settings == Settings::kOfModel) {
    ScaleTransfer transfer(file, prefix, model, options);
    std::erase_if(copies, [&transfer](const Copy& copy) { return transfer.takes(copy.name); });
    report.notes = transfer.carry_out();
  }
  for (Copy& copy : copies) copy.to.copy_(tensor_of(*copy.from));
  model.train(model.is_training());
  return report;
}

void load_whole(const StateFile& file, torch::nn::Module& model) {
  const LoadReport report = load(file, model);
  if (!report.complete())
    throw std::runtime_error("[weights] " + file.path().string() + " must hold the whole state of its model, got " +
                             report.text());
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
