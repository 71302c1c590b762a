#pragma once
#include <array>
#include <string_view>
#include <utility>

#include <camber/config/field.h>

namespace camber::train {

/// The optimisers that groups, projector and reach know.
enum class OptimizerKind { kSgd, kAdam, kAdamW };

}  // namespace camber::train

template <>
inline constexpr auto camber::config::enum_names<camber::train::OptimizerKind> =
    std::array{std::pair{camber::train::OptimizerKind::kSgd, std::string_view("sgd")},
               std::pair{camber::train::OptimizerKind::kAdam, std::string_view("adam")},
               std::pair{camber::train::OptimizerKind::kAdamW, std::string_view("adamw")}};

namespace camber::train {

/// An optimiser and its numbers; momentum and nesterov are SGD's, beta1, beta2 and eps Adam's and AdamW's.
struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kAdamW;
  double learning_rate = 1e-3;
  double weight_decay = 1e-2;
  double momentum = 0.9;
  bool nesterov = false;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double clip_norm = 0;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("kind", kind, "which optimiser");
    visitor("learning_rate", learning_rate, "learning rate before any schedule and multiplier",
            config::Range{.min = 0, .max = 1e6});
    visitor("weight_decay", weight_decay, "weight decay; never applied to bounded scales", config::Range{.min = 0});
    visitor("momentum", momentum, "sgd: momentum", config::Range{.min = 0, .max = 1});
    visitor("nesterov", nesterov, "sgd: Nesterov's form of the momentum");
    visitor("beta1", beta1, "adam, adamw: decay of the gradient's running mean", config::Range{.min = 0, .max = 1});
    visitor("beta2", beta2, "adam, adamw: decay of its running square", config::Range{.min = 0, .max = 1});
    visitor("eps", eps, "adam, adamw: added to the root of the running square", config::Range{.min = 0});
    visitor("clip_norm", clip_norm, "largest norm of the gradient of all groups together; 0 for no clipping",
            config::Range{.min = 0});
  }

  /// Throws std::invalid_argument with one sentence.
  void validate() const;

  friend bool operator==(const OptimizerOptions&, const OptimizerOptions&) = default;
};

}  // namespace camber::train
