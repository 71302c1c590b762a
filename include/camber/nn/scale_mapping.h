#pragma once
#include <camber/nn/bounded_scale_options.h>

#include <torch/types.h>

namespace camber::nn {

/// How the raw value of a scale is read: constraint, space and bounds. The bounds of raw are rounded to raw's type
/// first, so that a projected raw compares as equal. Tensors go in and come out in double.
struct ScaleMapping {
  Constraint constraint = Constraint::kProjected;
  bool log = false;  ///< raw is the natural logarithm of the scale
  double min = 0;
  double max = 0;
  double raw_min = 0;
  double raw_max = 0;

  static ScaleMapping make(Constraint constraint, bool log, double min, double max, torch::ScalarType raw_type);

  /// The clamping kinds have values outside the bounds.
  bool clamps() const { return constraint != Constraint::kSigmoid && constraint != Constraint::kNone; }
  /// log_clamp has no lower bound.
  double lowest_raw() const;

  torch::Tensor value(const torch::Tensor& raw) const;
  torch::Tensor slope(const torch::Tensor& raw) const;
  /// The raw value that maps to `value`, which may be one that other bounds allowed: it is put onto these. A sigmoid,
  /// which never touches a bound, stops 1/1000 of its range before it, where its gradient still lives.
  torch::Tensor raw_of(const torch::Tensor& value) const;
  /// What becomes of a raw value when the bounds change from those of `before` to these. sigmoid: derived anew, so that
  /// the value stays where these bounds hold it; projected: put onto these bounds; the others keep raw.
  torch::Tensor carried_over(const torch::Tensor& raw, const ScaleMapping& before) const;

  friend bool operator==(const ScaleMapping&, const ScaleMapping&) = default;
};

}  // namespace camber::nn
