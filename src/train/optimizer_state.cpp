#include "train/optimizer_state.h"

#include <functional>
#include <stdexcept>
#include <unordered_set>

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

namespace camber::train {
namespace {

using weights::fits;
using weights::NamedTensor;
using weights::shape_text;
using weights::tensor_of;

// One number or tensor that an optimiser keeps of a parameter: how it is read and written.
struct Slot {
  const char* name;
  std::function<torch::Tensor()> get;
  std::function<void(torch::Tensor)> set;
};

template <class State>
std::vector<Slot> adam_slots(State& state) {
  return {
      {"step", [&state] { return torch::scalar_tensor(state.step(), torch::kInt64); },
       [&state](const torch::Tensor& value) { state.step(value.item<std::int64_t>()); }},
      {"exp_avg", [&state] { return state.exp_avg(); }, [&state](const torch::Tensor& value) { state.exp_avg(value); }},
      {"exp_avg_sq", [&state] { return state.exp_avg_sq(); },
       [&state](const torch::Tensor& value) { state.exp_avg_sq(value); }}};
}

std::vector<Slot> slots_of(const torch::optim::Optimizer& optimizer, torch::optim::OptimizerParamState& state) {
  if (dynamic_cast<const torch::optim::AdamW*>(&optimizer) != nullptr)
    return adam_slots(static_cast<torch::optim::AdamWParamState&>(state));
  if (dynamic_cast<const torch::optim::Adam*>(&optimizer) != nullptr)
    return adam_slots(static_cast<torch::optim::AdamParamState&>(state));
  if (dynamic_cast<const torch::optim::SGD*>(&optimizer) != nullptr) {
    auto& sgd = static_cast<torch::optim::SGDParamState&>(state);
    return {{"momentum_buffer", [&sgd] { return sgd.momentum_buffer(); },
             [&sgd](const torch::Tensor& value) { sgd.momentum_buffer(value); }}};
  }
  throw std::invalid_argument("[checkpoint] optimizer must be torch::optim::SGD, Adam or AdamW");
}

std::unique_ptr<torch::optim::OptimizerParamState> fresh_state(const torch::optim::Optimizer& optimizer) {
  if (dynamic_cast<const torch::optim::AdamW*>(&optimizer) != nullptr)
    return std::make_unique<torch::optim::AdamWParamState>();
  if (dynamic_cast<const torch::optim::Adam*>(&optimizer) != nullptr)
    return std::make_unique<torch::optim::AdamParamState>();
  return std::make_unique<torch::optim::SGDParamState>();
}

template <class Action>
void for_each_parameter(const OptimizerGroups& groups, const Action& action) {
  for (const ParameterGroup& group : groups.groups())
    for (std::size_t i = 0; i < group.parameters.size(); ++i)
      action(kOptimizerPrefix + group.parameter_names[i] + ".", group.parameters[i]);
}

}  // namespace

std::vector<NamedTensor> optimizer_tensors(torch::optim::Optimizer& optimizer, const OptimizerGroups& groups) {
  std::vector<NamedTensor> tensors;
  for_each_parameter(groups, [&](const std::string& name, const torch::Tensor& parameter) {
    const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
    if (found == optimizer.state().end()) return;
    for (const Slot& slot : slots_of(optimizer, *found->second))
      if (const torch::Tensor value = slot.get(); value.defined())
        tensors.push_back({name + slot.name, value.detach()});
  });
  return tensors;
}

std::string check_optimizer_tensors(const storage::SafetensorsFile& file, torch::optim::Optimizer& optimizer,
                                    const OptimizerGroups& groups) {
  std::unordered_set<std::string> known;
  std::string wrong;
  for_each_parameter(groups, [&](const std::string& name, const torch::Tensor& parameter) {
    const auto state = fresh_state(optimizer);
    const torch::Tensor count = torch::scalar_tensor(0, torch::kInt64);
    std::size_t present = 0;
    const auto slots = slots_of(optimizer, *state);
    for (const Slot& slot : slots) {
      known.insert(name + slot.name);
      const storage::TensorView* view = file.find(name + slot.name);
      present += view != nullptr;
      const torch::Tensor& like = std::string_view(slot.name) == "step" ? count : parameter;
      if (view != nullptr && !fits(*view, like) && wrong.empty())
        wrong = "tensor '" + view->name + "' must be " + shape_text(like) + ", got " + shape_text(*view);
    }
    if (present != 0 && present != slots.size() && wrong.empty())
      wrong = "the tensors '" + name + "*' must be there all or none, got " + std::to_string(present) + " of " +
              std::to_string(slots.size());
  });
  for (const storage::TensorView& view : file.tensors())
    if (view.name.starts_with(kOptimizerPrefix) && !known.contains(view.name) && wrong.empty())
      wrong = "tensor '" + view.name + "' belongs to no parameter of this optimiser";
  return wrong;
}

void restore_optimizer(const storage::SafetensorsFile& file, torch::optim::Optimizer& optimizer,
                       const OptimizerGroups& groups) {
  torch::NoGradGuard no_grad;
  optimizer.state().clear();
  for_each_parameter(groups, [&](const std::string& name, const torch::Tensor& parameter) {
    auto state = fresh_state(optimizer);
    bool any = false;
    for (const Slot& slot : slots_of(optimizer, *state)) {
      if (const storage::TensorView* view = file.find(name + slot.name)) {
        const torch::Tensor value = tensor_of(*view);
        // In the parameter's own memory format, as the optimiser made it.
        slot.set(value.sizes() == parameter.sizes() ? torch::empty_like(parameter).copy_(value) : value);
        any = true;
      }
    }
    if (any) optimizer.state()[parameter.unsafeGetTensorImpl()] = std::move(state);
  });
}

}  // namespace camber::train
