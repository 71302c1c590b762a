#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <camber/config/field.h>
#include <camber/train/optimizer_options.h>

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

namespace camber::train {

/// Multipliers for the parameters whose name contains the pattern; the longest matching pattern wins.
struct GroupRule {
  std::string pattern{};
  double lr_mult = 1;
  double decay_mult = 1;
  bool must_match = true;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("pattern", pattern, "part of a parameter's name, e.g. router.content");
    visitor("lr_mult", lr_mult, "times the learning rate", config::Range{.min = 0});
    visitor("decay_mult", decay_mult, "times the weight decay", config::Range{.min = 0});
    visitor("must_match", must_match, "whether a pattern that matches no parameter is an error");
  }

  friend bool operator==(const GroupRule&, const GroupRule&) = default;
};

/// Options of OptimizerGroups. Bounded scales form a group of their own: scale_lr_mult, and never any decay.
struct OptimizerGroupsOptions {
  std::vector<GroupRule> rules{};
  double scale_lr_mult = 1;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("rules", rules, "groups by name pattern");
    visitor("scale_lr_mult", scale_lr_mult, "times the learning rate of every bounded scale", config::Range{.min = 0});
  }

  /// Throws std::invalid_argument for an empty or repeated pattern and for multipliers that are negative or not finite.
  void validate() const;

  friend bool operator==(const OptimizerGroupsOptions&, const OptimizerGroupsOptions&) = default;
};

/// Parameters that share their multipliers.
struct ParameterGroup {
  std::string name;  ///< the pattern, "scales" or "everything else"
  double lr_mult = 1;
  double decay_mult = 1;
  std::vector<std::string> parameter_names;
  std::vector<torch::Tensor> parameters;
};

/// Sorts the parameters of a model into groups and builds optimisers from them.
///
///   OptimizerGroups groups(*model, {.rules = {{.pattern = "router.content", .lr_mult = 0.1}}, .scale_lr_mult = 3});
///   auto optimizer = groups.make_optimizer({.kind = OptimizerKind::kAdamW, .learning_rate = 1e-4});
///   std::cout << groups.table();
///
/// Every raw parameter of a BoundedScale goes to the group "scales" whatever the patterns say: decay pulls a scale in
/// log space to 1. Parameters that require no gradient are left out and listed as frozen.
class OptimizerGroups {
 public:
  /// Throws std::invalid_argument when a rule matches no parameter although it must, or when two patterns of equal
  /// length match the same parameter.
  explicit OptimizerGroups(torch::nn::Module& model, const OptimizerGroupsOptions& options = {});

  /// Groups with at least one parameter: "everything else", the rules in their order, "scales".
  const std::vector<ParameterGroup>& groups() const { return groups_; }
  const std::vector<std::string>& frozen() const { return frozen_; }

  /// An optimiser with one param group per group, learning rate and decay multiplied as the group says. (LibTorch takes
  /// a group's option that equals the library's default for "not given" and puts the optimiser's in its place, so that
  /// a decay of 0 gets lost; here it holds.)
  std::unique_ptr<torch::optim::Optimizer> make_optimizer(const OptimizerOptions& options) const;

  /// What went where: one line a group with its multipliers, tensors and numbers, and the frozen ones.
  std::string table() const;

 private:
  std::vector<ParameterGroup> groups_;
  std::vector<std::string> frozen_;
  std::int64_t frozen_numbers_ = 0;
};

/// Scales the gradients of the parameters of all groups (Optimizer::parameters() holds the first group's alone) by
/// max_norm / norm where their joint 2-norm exceeds max_norm. Returns the norm before. When it is not finite the
/// gradients stay as they are, and the caller decides.
double clip_grad_norm(torch::optim::Optimizer& optimizer, double max_norm);

}  // namespace camber::train
