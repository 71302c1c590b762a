#include "train/tensor_state.h"

#include <array>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <unordered_set>

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

namespace camber::train {
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
  for (const auto& [torch_type, stored] : kTypes) {
    if (torch_type == type) {
      return stored;
    }
  }
  throw std::invalid_argument(std::string("[checkpoint] a tensor must have a type that safetensors knows, got ") +
                              c10::toString(type));
}

torch::ScalarType torch_type(const storage::TensorView& view) {
  for (const auto& [type, stored] : kTypes) {
    if (stored == view.type) {
      return type;
    }
  }
  throw std::runtime_error("[checkpoint] tensor '" + view.name + "' must have a type that torch knows, got " +
                           std::string(storage::name(view.type)));
}

template <class Shape>
std::string written(DataType type, const Shape& shape) {
  std::ostringstream text;
  text << storage::name(type) << " [";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text << (i == 0 ? "" : ", ") << shape[i];
  }
  text << "]";
  return text.str();
}

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
  if (dynamic_cast<const torch::optim::AdamW*>(&optimizer) != nullptr) {
    return adam_slots(static_cast<torch::optim::AdamWParamState&>(state));
  }
  if (dynamic_cast<const torch::optim::Adam*>(&optimizer) != nullptr) {
    return adam_slots(static_cast<torch::optim::AdamParamState&>(state));
  }
  if (dynamic_cast<const torch::optim::SGD*>(&optimizer) != nullptr) {
    auto& sgd = static_cast<torch::optim::SGDParamState&>(state);
    return {{"momentum_buffer", [&sgd] { return sgd.momentum_buffer(); },
             [&sgd](const torch::Tensor& value) { sgd.momentum_buffer(value); }}};
  }
  throw std::invalid_argument("[checkpoint] optimizer must be torch::optim::SGD, Adam or AdamW");
}

std::unique_ptr<torch::optim::OptimizerParamState> fresh_state(const torch::optim::Optimizer& optimizer) {
  if (dynamic_cast<const torch::optim::AdamW*>(&optimizer) != nullptr) {
    return std::make_unique<torch::optim::AdamWParamState>();
  }
  if (dynamic_cast<const torch::optim::Adam*>(&optimizer) != nullptr) {
    return std::make_unique<torch::optim::AdamParamState>();
  }
  return std::make_unique<torch::optim::SGDParamState>();
}

template <class Action>
void for_each_parameter(const OptimizerGroups& groups, const Action& action) {
  for (const ParameterGroup& group : groups.groups()) {
    for (std::size_t i = 0; i < group.parameters.size(); ++i) {
      action(kOptimizerPrefix + group.parameter_names[i] + ".", group.parameters[i]);
    }
  }
}

}  // namespace

std::vector<NamedTensor> model_tensors(const torch::nn::Module& model) {
  std::vector<NamedTensor> tensors;
  std::unordered_set<const void*> taken;
  const auto add = [&](const std::string& name, const torch::Tensor& value) {
    if (value.defined() && taken.insert(value.unsafeGetTensorImpl()).second) {
      tensors.push_back({kModelPrefix + name, value.detach()});
    }
  };
  for (const auto& entry : model.named_parameters()) {
    add(entry.key(), entry.value());
  }
  for (const auto& entry : model.named_buffers()) {
    add(entry.key(), entry.value());
  }
  return tensors;
}

std::vector<NamedTensor> average_tensors(const ExponentialAverage& average, const char* prefix) {
  std::vector<NamedTensor> tensors;
  for (const ExponentialAverage::Entry& entry : average.entries()) {
    tensors.push_back({prefix + entry.name, entry.average});
  }
  return tensors;
}

std::vector<NamedTensor> optimizer_tensors(torch::optim::Optimizer& optimizer, const OptimizerGroups& groups) {
  std::vector<NamedTensor> tensors;
  for_each_parameter(groups, [&](const std::string& name, const torch::Tensor& parameter) {
    const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
    if (found == optimizer.state().end()) {
      return;
    }
    for (const Slot& slot : slots_of(optimizer, *found->second)) {
      if (const torch::Tensor value = slot.get(); value.defined()) {
        tensors.push_back({name + slot.name, value.detach()});
      }
    }
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
      if (view != nullptr && !fits(*view, like) && wrong.empty()) {
        wrong = "tensor '" + view->name + "' must be " + shape_text(like) + ", got " + shape_text(*view);
      }
    }
    if (present != 0 && present != slots.size() && wrong.empty()) {
      wrong = "the tensors '" + name + "*' must be there all or none, got " + std::to_string(present) + " of " +
              std::to_string(slots.size());
    }
  });
  for (const storage::TensorView& view : file.tensors()) {
    if (view.name.starts_with(kOptimizerPrefix) && !known.contains(view.name) && wrong.empty()) {
      wrong = "tensor '" + view.name + "' belongs to no parameter of this optimiser";
    }
  }
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
    if (any) {
      optimizer.state()[parameter.unsafeGetTensorImpl()] = std::move(state);
    }
  });
}

storage::TensorView view_of(const NamedTensor& entry) {
  const torch::Tensor& tensor = entry.tensor;
  return {.name = entry.name,
          .type = file_type(tensor.scalar_type()),
          .shape = tensor.sizes().vec(),
          .bytes = {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()}};
}

torch::Tensor tensor_of(const storage::TensorView& view) {
  torch::Tensor tensor = torch::empty(view.shape, torch_type(view));
  if (!view.bytes.empty()) {
    std::memcpy(tensor.mutable_data_ptr(), view.bytes.data(), view.bytes.size());
  }
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

}  // namespace camber::train
