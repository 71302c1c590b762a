#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include <camber/config/field.h>

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

namespace camber::train {

/// In what the products of a forward pass are computed. Weights, gradients, optimiser, bounded scales and the bias stay
/// in float.
enum class TrainingPrecision { kFloat, kBfloat16, kHalf };

}  // namespace camber::train

template <>
inline constexpr auto camber::config::enum_names<camber::train::TrainingPrecision> =
    std::array{std::pair{camber::train::TrainingPrecision::kFloat, std::string_view("float")},
               std::pair{camber::train::TrainingPrecision::kBfloat16, std::string_view("bfloat16")},
               std::pair{camber::train::TrainingPrecision::kHalf, std::string_view("half")}};

namespace camber::train {

/// While one lives, torch's autocast lowers products on this thread and device to the precision; nothing for float.
class AutocastScope {
 public:
  AutocastScope(c10::Device device, TrainingPrecision precision);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  c10::DeviceType device_;
  bool active_, enabled_before_ = false;
  c10::ScalarType type_before_ = c10::ScalarType::Undefined;
};

/// The factor of the loss of a training in half precision, whose gradients would else vanish below 6e-8: a power of
/// two, so that it is taken out again without rounding. Doubles after many steps without an overflow; halves at one,
/// whose step is skipped.
class LossScale {
 public:
  static constexpr double kFirst = 65536, kSmallest = 1, kLargest = 16777216;
  static constexpr std::int64_t kStepsToGrow = 2000;

  double factor() const { return factor_; }
  std::int64_t sound_steps() const { return sound_steps_; }
  void restore(double factor, std::int64_t sound_steps);
  /// After a step whose gradients were finite.
  void step_was_sound();
  /// After one whose gradients overflowed; false when the factor cannot get smaller: then the step is broken.
  bool shrink();

 private:
  double factor_ = kFirst;
  std::int64_t sound_steps_ = 0;  // since it last changed
};

}  // namespace camber::train
