#pragma once
#include <camber/config/field.h>

#include <torch/types.h>

namespace camber::fewshot {

/// A temperature in three phases: `start` until the share `hold` of the training, then on a straight line to `end` at
/// the share `until`, and `end` from there on. (The host model's schedules have three phases; their numbers are not
/// known, these are ours.)
struct TemperatureSchedule {
  double start = 0.2;
  double end = 0.07;
  double hold = 0.2;
  double until = 0.7;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("start", start, "temperature of the first phase", config::Range{.min = 1e-3});
    visitor("end", end, "temperature of the last phase", config::Range{.min = 1e-3});
    visitor("hold", hold, "share of the training after which it begins to move", config::Range{.min = 0, .max = 1});
    visitor("until", until, "share of the training at which it arrives", config::Range{.min = 0, .max = 1});
  }
  /// progress from 0 to 1.
  double at(double progress) const;
  void validate() const;
  friend bool operator==(const TemperatureSchedule&, const TemperatureSchedule&) = default;
};

/// Weights of the host model's losses beside the cross-entropy of the queries, and of the baseline's adversary.
struct LossWeights {
  double domain = 0.2;
  double class_contrast = 0.3;
  double domain_contrast = 0.15;
  double orthogonality = 0.1;
  double adversary = 0.1;
  TemperatureSchedule class_temperature{};
  TemperatureSchedule domain_temperature{};

  template <class Visitor>
  void visit(Visitor& visitor) {
    const config::Range positive{.min = 0};
    visitor("domain", domain, "cross-entropy of the domain classifier", positive);
    visitor("class_contrast", class_contrast, "supervised contrast of the intrinsic features by class", positive);
    visitor("domain_contrast", domain_contrast, "supervised contrast of the domain features by domain", positive);
    visitor("orthogonality", orthogonality, "squared cosine between purified and intrinsic features", positive);
    visitor("adversary", adversary, "gradient_reversal: cross-entropy of the class adversary", positive);
    visitor("class_temperature", class_temperature, "temperature of the class contrast");
    visitor("domain_temperature", domain_temperature, "temperature of the domain contrast");
  }
  friend bool operator==(const LossWeights&, const LossWeights&) = default;
};

/// Supervised contrast: rows of unit length, z_ij = f_i f_j / temperature for j != i,
///   L = mean over anchors i that have a partner of  - mean over partners p of (z_ip - logsumexp_j z_ij).
/// 0 when no row has a partner.
torch::Tensor supervised_contrast(const torch::Tensor& features, const torch::Tensor& labels, double temperature);

/// The value itself; its gradient times -strength.
torch::Tensor reverse_gradient(const torch::Tensor& x, double strength = 1);

}  // namespace camber::fewshot
