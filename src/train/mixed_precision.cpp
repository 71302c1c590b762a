#include <algorithm>

#include <camber/train/mixed_precision.h>

#include <ATen/autocast_mode.h>

namespace camber::train {

AutocastScope::AutocastScope(c10::Device device, TrainingPrecision precision)
    : device_(device.type()), active_(precision != TrainingPrecision::kFloat) {
  if (!active_) return;
  enabled_before_ = at::autocast::is_autocast_enabled(device_);
  type_before_ = at::autocast::get_autocast_dtype(device_);
  at::autocast::set_autocast_dtype(device_, precision == TrainingPrecision::kHalf ? at::kHalf : at::kBFloat16);
  at::autocast::set_autocast_enabled(device_, true);
  at::autocast::increment_nesting();
}

AutocastScope::~AutocastScope() {
  if (!active_) return;
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, enabled_before_);
  at::autocast::set_autocast_dtype(device_, type_before_);
}

void LossScale::restore(double factor, std::int64_t sound_steps) {
  factor_ = factor;
  sound_steps_ = sound_steps;
}

void LossScale::step_was_sound() {
  if (++sound_steps_ < kStepsToGrow) return;
  factor_ = std::min(kLargest, 2 * factor_);
  sound_steps_ = 0;
}

bool LossScale::shrink() {
  if (factor_ <= kSmallest) return false;
  factor_ /= 2;
  sound_steps_ = 0;
  return true;
}

}  // namespace camber::train
