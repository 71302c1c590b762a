#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <camber/config/field.h>

namespace camber::nn {

/// How a scale is kept inside its bounds; formulas in bounded_scale.h, costs in docs/bounded_scale.md.
enum class Constraint { kClamp, kSigmoid, kLogClamp, kStraightThrough, kProjected, kNone };

/// Where the raw value lives and is clamped or projected: the scale itself, or its natural logarithm.
enum class Space { kLinear, kLog };

/// What turns a router's output into trust weights: tanh gives [-1, 1], sigmoid [0, 1].
enum class WeightActivation { kTanh, kSigmoid };

}  // namespace camber::nn

namespace camber::config {

template <>
inline constexpr auto enum_names<nn::Constraint> = std::array{
    std::pair{nn::Constraint::kClamp, std::string_view("clamp")},
    std::pair{nn::Constraint::kSigmoid, std::string_view("sigmoid")},
    std::pair{nn::Constraint::kLogClamp, std::string_view("log_clamp")},
    std::pair{nn::Constraint::kStraightThrough, std::string_view("straight_through")},
    std::pair{nn::Constraint::kProjected, std::string_view("projected")},
    std::pair{nn::Constraint::kNone, std::string_view("none")},
};

template <>
inline constexpr auto enum_names<nn::Space> = std::array{std::pair{nn::Space::kLinear, std::string_view("linear")},
                                                         std::pair{nn::Space::kLog, std::string_view("log")}};

template <>
inline constexpr auto enum_names<nn::WeightActivation> =
    std::array{std::pair{nn::WeightActivation::kTanh, std::string_view("tanh")},
               std::pair{nn::WeightActivation::kSigmoid, std::string_view("sigmoid")}};

}  // namespace camber::config

namespace camber::nn {

/// One entry of a schedule of bounds: from this epoch, or from this step, [min, max] holds. One of the two is given.
struct BoundsStage {
  std::int64_t from_epoch = -1;
  std::int64_t from_step = -1;
  double min = 0.5;
  double max = 5.0;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("from_epoch", from_epoch, "first epoch of these bounds, counted from 0; -1 when from_step is given",
            config::Range{.min = -1});
    visitor("from_step", from_step, "first step of these bounds, counted from 0; -1 when from_epoch is given",
            config::Range{.min = -1});
    visitor("min", min, "lower bound");
    visitor("max", max, "upper bound");
  }

  friend bool operator==(const BoundsStage&, const BoundsStage&) = default;
};

/// Options of BoundedScale.
///
///   BoundedScaleOptions{.init = 3.5, .min = 1.0, .max = 8.0}                 // one scale, projected
///   BoundedScaleOptions{.init = 25, .min = 1, .max = 100, .space = Space::kLog, .shape = {8}}   // one a head
struct BoundedScaleOptions {
  double init = 2.5;
  bool learnable = true;
  double min = 0.5;
  double max = 5.0;
  Constraint constraint = Constraint::kProjected;
  Space space = Space::kLinear;
  double warn_threshold = 4.0;
  double l2_weight = 0.0;
  std::vector<double> l2_center{};
  std::vector<BoundsStage> bounds_schedule{};
  std::vector<std::int64_t> shape{};

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("init", init, "first value; inside [min, max]");
    visitor("learnable", learnable, "true: a parameter, false: a buffer");
    visitor("min", min, "lower bound");
    visitor("max", max, "upper bound");
    visitor("constraint", constraint, "how the scale is kept inside its bounds");
    visitor("space", space, "space of the raw value; log_clamp always lives in log space");
    visitor("warn_threshold", warn_threshold, "the monitor warns above it");
    visitor("l2_weight", l2_weight, "weight of the pull l2_weight * (scale - l2_center)^2", config::Range{.min = 0});
    visitor("l2_center", l2_center, "where the pull draws to: empty for init, one number, or one an element");
    visitor("bounds_schedule", bounds_schedule, "bounds by epoch or by step; min and max hold before the first stage");
    visitor("shape", shape, "empty for one scale, else sizes: one a modality, layer or head");
  }

  /// Throws std::invalid_argument with one sentence that names the field, what it must be and what came.
  void validate() const;

  /// Throws the same sentences when [low, high] could not be the bounds of this scale.
  void validate_bounds(double low, double high) const;

  /// True where raw is the logarithm of the scale: space log, and log_clamp.
  bool in_log_space() const { return space == Space::kLog || constraint == Constraint::kLogClamp; }

  /// The bounds at a moment of the training: of the last stage that has begun, else min and max.
  std::pair<double, double> bounds_at(std::int64_t epoch, std::int64_t step) const;

  /// The product of the sizes in shape; 1 for one scale.
  std::int64_t num_elements() const;

  /// conservative, aggressive, ultra_conservative, fixed, strong_fixed and logit: what `preset` may name in a file or
  /// on the command line.
  static std::vector<std::pair<std::string, BoundedScaleOptions>> presets();

  friend bool operator==(const BoundedScaleOptions&, const BoundedScaleOptions&) = default;
};

/// The options of a preset by its name; std::invalid_argument for a name that is none.
///
///   BoundedScale scale(scale_preset("logit"));  // 25, projected in log space, 1..100
BoundedScaleOptions scale_preset(std::string_view name);

}  // namespace camber::nn
