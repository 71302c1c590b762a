#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>
#include <stdexcept>
#include <unordered_set>

#include <camber/config/sentence.h>
#include <camber/nn/bounded_scale.h>
#include <camber/train/optimizer_groups.h>

#include <ATen/Parallel.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

namespace camber::train {
namespace {

template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  throw std::invalid_argument(config::sentence("[optimizer_groups] ", parts...));
}

void check_multiplier(const std::string& field, double value) {
  if (!std::isfinite(value) || value < 0) fail(field, " must be a finite number of at least 0, got ", value);
}

std::unordered_set<const void*> raw_parameters(torch::nn::Module& model) {
  std::unordered_set<const void*> found;
  const auto add = [&found](const torch::nn::Module& module) {
    if (const auto* scale = dynamic_cast<const nn::BoundedScaleImpl*>(&module))
      found.insert(scale->raw().unsafeGetTensorImpl());
  };
  add(model);
  for (const auto& module : model.modules(/*include_self=*/false)) add(*module);
  return found;
}

// The index of the longest rule that matches, rules.size() for none; marks every rule that matches as seen.
std::size_t longest_match(const std::vector<GroupRule>& rules, const std::string& name, std::vector<bool>& seen) {
  std::size_t best = rules.size();
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (name.find(rules[i].pattern) == std::string::npos) continue;
    seen[i] = true;
    if (best < rules.size() && rules[i].pattern.size() == rules[best].pattern.size()) {
      fail("patterns that match a parameter must differ in length, got '", rules[best].pattern, "' and '",
           rules[i].pattern, "' for '", name, "'");
    }
    if (best == rules.size() || rules[i].pattern.size() > rules[best].pattern.size()) best = i;
  }
  return best;
}

std::unique_ptr<torch::optim::OptimizerOptions> group_options(const OptimizerOptions& options,
                                                              const ParameterGroup& group) {
  const double lr = options.learning_rate * group.lr_mult;
  const double decay = options.weight_decay * group.decay_mult;
  const auto adam = [&](auto typed) {
    typed.betas(std::make_tuple(options.beta1, options.beta2)).eps(options.eps).weight_decay(decay);
    return std::make_unique<decltype(typed)>(typed);
  };
  switch (options.kind) {
    case OptimizerKind::kSgd:
      return std::make_unique<torch::optim::SGDOptions>(
          torch::optim::SGDOptions(lr).momentum(options.momentum).nesterov(options.nesterov).weight_decay(decay));
    case OptimizerKind::kAdam:
      return adam(torch::optim::AdamOptions(lr));
    case OptimizerKind::kAdamW:
      return adam(torch::optim::AdamWOptions(lr));
  }
  throw std::logic_error("[optimizer_groups] unknown kind");
}

std::unique_ptr<torch::optim::Optimizer> bare_optimizer(OptimizerKind kind,
                                                        const std::vector<torch::optim::OptimizerParamGroup>& groups,
                                                        const torch::optim::OptimizerOptions& defaults) {
  switch (kind) {
    case OptimizerKind::kSgd:
      return std::make_unique<torch::optim::SGD>(groups, static_cast<const torch::optim::SGDOptions&>(defaults));
    case OptimizerKind::kAdam:
      return std::make_unique<torch::optim::Adam>(groups, static_cast<const torch::optim::AdamOptions&>(defaults));
    case OptimizerKind::kAdamW:
      return std::make_unique<torch::optim::AdamW>(groups, static_cast<const torch::optim::AdamWOptions&>(defaults));
  }
  throw std::logic_error("[optimizer_groups] unknown kind");
}

// Calls action(i) for every tensor: small ones of the host side by side, for torch would take them on one thread one
// after the other; large ones one by one, each on all threads.
template <class Action>
void for_tensors(const std::vector<torch::Tensor>& tensors, const Action& action) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 18;
  std::vector<std::size_t> small;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].is_cpu() && tensors[i].numel() < kLarge)
      small.push_back(i);
    else
      action(i);
  at::parallel_for(0, std::ssize(small), 8, [&](std::int64_t begin, std::int64_t end) {
    const torch::NoGradGuard no_grad;  // of this thread
    for (std::int64_t i = begin; i < end; ++i) action(small[static_cast<std::size_t>(i)]);
  });
}

}  // namespace

void OptimizerGroupsOptions::validate() const {
  check_multiplier("scale_lr_mult", scale_lr_mult);
  std::unordered_set<std::string> patterns;
  for (const GroupRule& rule : rules) {
    if (rule.pattern.empty()) fail("pattern must be part of a parameter's name, got an empty one");
    if (!patterns.insert(rule.pattern).second) fail("pattern must be given once, got '", rule.pattern, "' twice");
    check_multiplier("lr_mult of '" + rule.pattern + "'", rule.lr_mult);
    check_multiplier("decay_mult of '" + rule.pattern + "'", rule.decay_mult);
  }
}

OptimizerGroups::OptimizerGroups(torch::nn::Module& model, const OptimizerGroupsOptions& options) {
  options.validate();
  const auto& rules = options.rules;
  std::vector<ParameterGroup> sorted{{.name = "everything else", .parameter_names = {}, .parameters = {}}};
  for (const GroupRule& rule : rules) sorted.push_back({rule.pattern, rule.lr_mult, rule.decay_mult, {}, {}});
  sorted.push_back({"scales", options.scale_lr_mult, 0, {}, {}});

  const auto scales = raw_parameters(model);
  std::vector<bool> seen(rules.size(), false);
  std::unordered_set<const void*> taken;  // a parameter that two modules share belongs to the first name
  for (const auto& entry : model.named_parameters()) {
    const torch::Tensor& parameter = entry.value();
    if (!taken.insert(parameter.unsafeGetTensorImpl()).second) continue;
    if (!parameter.requires_grad()) {
      frozen_.push_back(entry.key());
      frozen_numbers_ += parameter.numel();
      longest_match(rules, entry.key(), seen);
      continue;
    }
    std::size_t position = rules.size() + 1;
    if (!scales.contains(parameter.unsafeGetTensorImpl())) {
      const std::size_t rule = longest_match(rules, entry.key(), seen);
      position = rule == rules.size() ? 0 : rule + 1;
    }
    sorted[position].parameter_names.push_back(entry.key());
    sorted[position].parameters.push_back(parameter);
  }
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (rules[i].must_match && !seen[i]) {
      fail("pattern must match a parameter, got '", rules[i].pattern,
           "', which matches none (bounded scales follow scale_lr_mult)");
    }
  }
  for (ParameterGroup& group : sorted)
    if (!group.parameters.empty()) groups_.push_back(std::move(group));
}

std::unique_ptr<torch::optim::Optimizer> OptimizerGroups::make_optimizer(const OptimizerOptions& options) const {
  options.validate();
  if (groups_.empty()) fail("model must have a parameter that requires a gradient, got none");
  std::vector<torch::optim::OptimizerParamGroup> param_groups;
  param_groups.reserve(groups_.size());
  for (const ParameterGroup& group : groups_) param_groups.emplace_back(group.parameters);
  auto optimizer = bare_optimizer(options.kind, param_groups, *group_options(options, ParameterGroup{}));
  for (std::size_t i = 0; i < groups_.size(); ++i)
    optimizer->param_groups()[i].set_options(group_options(options, groups_[i]));
  return optimizer;
}

std::string OptimizerGroups::table() const {
  std::size_t width = 20;
  for (const ParameterGroup& group : groups_) width = std::max(width, group.name.size() + 2);
  std::ostringstream text;
  const auto row = [&](const auto& name, const auto& lr, const auto& decay, const auto& tensors, const auto& numbers) {
    text << std::left << std::setw(static_cast<int>(width)) << name << std::right << std::setw(8) << lr << std::setw(10)
         << decay << std::setw(10) << tensors << std::setw(14) << numbers << '\n';
  };
  row("group", "lr x", "decay x", "tensors", "numbers");
  for (const ParameterGroup& group : groups_) {
    std::int64_t numbers = 0;
    for (const torch::Tensor& parameter : group.parameters) numbers += parameter.numel();
    row(group.name, group.lr_mult, group.decay_mult, group.parameters.size(), numbers);
  }
  if (!frozen_.empty()) row("frozen", "-", "-", frozen_.size(), frozen_numbers_);
  return text.str();
}

double clip_grad_norm(torch::optim::Optimizer& optimizer, double max_norm) {
  if (!(max_norm > 0))
    throw std::invalid_argument("[clip_grad_norm] max_norm must be above 0, got " + std::to_string(max_norm));
  torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> gradients;
  for (const auto& group : optimizer.param_groups())
    for (const torch::Tensor& parameter : group.params())
      if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  if (gradients.empty()) return 0;
  std::vector<torch::Tensor> norms(gradients.size());
  for_tensors(gradients, [&](std::size_t i) {
    norms[i] = torch::linalg_vector_norm(gradients[i], 2, std::nullopt, false, torch::kDouble);
  });
  // In order, so that a parameter whose gradient is zero changes no bit of anybody's step.
  double squares = 0;
  const torch::Tensor all = torch::stack(norms).cpu();
  for (std::int64_t i = 0; i < all.size(0); ++i) {
    const double one = all.const_data_ptr<double>()[i];
    squares += one * one;
  }
  const double norm = std::sqrt(squares);
  if (std::isfinite(norm) && norm > max_norm)
    for_tensors(gradients, [&](std::size_t i) { gradients[i].mul_(max_norm / norm); });
  return norm;
}

}  // namespace camber::train
