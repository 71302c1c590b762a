#pragma once
#include <cstdint>
#include <iosfwd>

#include <camber/nn/bounded_scale_options.h>
#include <camber/nn/scale_mapping.h>

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

namespace camber::nn {

/// Which elements project() moved: bool masks of the scale's shape. After the move they lie exactly on the bound.
struct ScaleProjection {
  torch::Tensor above;
  torch::Tensor below;
};

/// A learnable number, or one per modality, layer or head, that stays inside [min, max].
///
///   constraint         value of raw r                       d value / d r
///   clamp              clamp(r, min, max)                   1 inside and at the bounds, 0 beyond
///   sigmoid            min + (max - min) * sigmoid(r)       (max - min) * s * (1 - s), never 0, soon tiny
///   log_clamp          exp(min(r, ln max))                  the value up to and at the bound, 0 beyond
///   straight_through   clamp(r, min, max)                   1 everywhere
///   projected          clamp(r, min, max)                   1 everywhere; raw is put back on the bound after each step
///   none               r                                    1
///
/// In log space r is ln(scale): clamp, straight_through, projected and none take exp of the value above with ln min and
/// ln max for bounds, and their gradient is multiplied by the value; sigmoid interpolates between ln min and ln max.
///
/// Numerics: the map is computed in double and rounded once to raw's type. A raw value at or beyond ln max gives max
/// itself, so the value never exceeds max (rounded to raw's type) and the gradient at the bound is alive, although
/// expf(logf(100)) > 100. In float the first value is init to the bit for linear clamp, straight_through, projected and
/// none; where raw is not the value, the rounding of raw shows: in log space a relative error of at most
/// 2^-24 * (1 + |ln init|), for a linear sigmoid 2^-24 * (init + 0.23 * (max - min)). The presets start within one unit
/// of the last place, all but `logit` to the bit.
///
/// State: parameter or buffer "raw", the float64 buffer "bounds" = (min, max) and the int64 buffer "mapping" =
/// (constraint, 1 in log space). They are saved because raw means nothing without them: a loaded scale has the value,
/// the bounds and the constraint of the file, whatever its options say. Files without a mapping were written before
/// there was one; theirs is that of the options. A cast of the module changes raw alone.
///
///   camber::nn::BoundedScale scale(camber::nn::BoundedScaleOptions{.init = 2.5, .min = 0.5, .max = 5.0});
///   auto bias = weights * scale->value();
///   (loss + scale->penalty()).backward();
///   projector.step(optimizer);  // camber/train/scale_projector.h
class BoundedScaleImpl : public torch::nn::Cloneable<BoundedScaleImpl> {
 public:
  /// Throws std::invalid_argument when the options do not hold together.
  explicit BoundedScaleImpl(BoundedScaleOptions options = {});

  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  void to(torch::Device device, torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Device device, bool non_blocking = false) override;

  /// The effective scale, shape [] or options.shape, differentiable in raw, of raw's type and on its device.
  /// For `projected`, a raw value outside the bounds means that the projector was forgotten: one warning an object.
  torch::Tensor value();

  /// l2_weight * sum (value - l2_center)^2, a scalar to add to the loss.
  torch::Tensor penalty();

  /// The parameter (learnable) or buffer that value() maps.
  const torch::Tensor& raw() const { return raw_; }

  /// In force: of the options, of a schedule, or of the file that was loaded.
  double min() const;
  double max() const;
  Constraint constraint() const;
  Space space() const;
  ScaleMapping mapping() const;

  /// Changes the bounds between two steps. sigmoid: raw is derived anew, so that the value stays; where the new bounds
  /// do not hold it any more, it goes to the nearer bound less 1/1000 of the range, where its gradient still lives.
  /// projected: raw is put onto the new bounds. The others keep raw.
  void set_bounds(double min, double max);

  /// Takes the value of another scale of the same shape, put onto this one's bounds; constraint, space and bounds stay.
  void take_value(const BoundedScaleImpl& other);

  /// Takes the bounds of options.bounds_schedule for this epoch and step; true when they changed.
  bool apply_schedule(std::int64_t epoch, std::int64_t step);

  /// To be called once after every optimiser step (ScaleProjector does). projected: puts raw onto the bounds, element
  /// by element. Counts the step, and the elements that were projected or, for the clamping kinds, lie clamped.
  ScaleProjection project();

  /// Share of the counted steps after which each element was projected or clamped, double of the scale's shape; 0
  /// before the first step.
  torch::Tensor share_at_bound() const;
  std::int64_t num_steps() const { return num_steps_; }
  const torch::Tensor& steps_at_bound() const { return steps_at_bound_; }
  /// Counters of a run that goes on.
  void restore_counters(std::int64_t num_steps, const torch::Tensor& steps_at_bound);
  void reset_counters();

  BoundedScaleOptions options;

 private:
  torch::Tensor raw_;
  torch::Tensor bounds_;          // float64 [2]: min, max
  torch::Tensor mapping_;         // int64 [2]: constraint, 1 in log space
  torch::Tensor steps_at_bound_;  // int64 of raw's shape
  std::int64_t num_steps_ = 0;
  bool warned_ = false;
};

TORCH_MODULE(BoundedScale);

}  // namespace camber::nn
