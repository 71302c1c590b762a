// What a training loop keeps in checkpoints beside weights and optimiser, and takes back from them.
#include <stdexcept>

#include <camber/train/training_loop.h>

#include "train/step_agreement.h"

namespace camber::train {
namespace {

constexpr const char* kBestScore = "best_score";
constexpr const char* kLossScale = "loss_scale";
constexpr const char* kSoundSteps = "loss_scale_sound_steps";

std::string steps_key(const NamedScale& scale) {
  return "scale_steps/" + scale.name;
}
std::string at_bound_key(const NamedScale& scale, std::int64_t element) {
  return "scale_steps_at_bound/" + scale.name + "/" + std::to_string(element);
}
std::string start_key(const NamedScale& scale, std::size_t element) {
  return "scale_start/" + scale.name + "/" + std::to_string(element);
}

std::int64_t counter(const Counters& counters, const std::string& name) {
  const auto found = counters.find(name);
  if (found == counters.end())
    throw std::runtime_error("[checkpoint] the counter '" + name + "' is missing: the file holds weights, not a run");
  return found->second;
}

}  // namespace

void TrainingLoop::save(const CheckpointFolder* checkpoints, const TrainingHooks& hooks) {
  // In the middle of broken steps the last sound checkpoint stays.
  if (step_guard_.in_a_row() > 0 || saved_step_ == step_) return;
  check_same_parameters(model_, *group_);
  if (checkpoints == nullptr) return;
  if (hooks.before_checkpoint) hooks.before_checkpoint(step_);
  checkpoints->save_last(state(), info());
  saved_step_ = step_;
  if (options_.keep_every > 0 && step_ % options_.keep_every == 0) checkpoints->save_numbered(state(), info(), step_);
}

std::optional<CheckpointFolder::Resumed> TrainingLoop::resume(const CheckpointFolder& checkpoints) {
  auto resumed = checkpoints.resume(state());
  if (resumed) {
    const Counters& counters = resumed->info.counters;
    step_ = counter(counters, "step");
    saved_step_ = step_;
    step_guard_.restore(counter(counters, "skipped"), counter(counters, "skipped_in_a_row"));
    if (average_) average_->set_updates(counter(counters, "average_updates"));
    if (const auto best = resumed->info.numbers.find(kBestScore); best != resumed->info.numbers.end())
      best_score_ = best->second;
    if (const auto factor = resumed->info.numbers.find(kLossScale); factor != resumed->info.numbers.end())
      loss_scale_.restore(factor->second, counter(counters, kSoundSteps));
    restore_scales(resumed->info);
  }
  return resumed;
}

// Checkpoints from before these were kept have none: the scales then count anew, from where they were built.
void TrainingLoop::restore_scales(const CheckpointInfo& info) {
  for (std::size_t i = 0; i < projector_.scales().size(); ++i) {
    const NamedScale& entry = projector_.scales()[i];
    for (std::size_t k = 0; k < scale_starts_[i].size(); ++k)
      if (const auto start = info.numbers.find(start_key(entry, k)); start != info.numbers.end())
        scale_starts_[i][k] = start->second;
    if (const auto steps = info.counters.find(steps_key(entry)); steps != info.counters.end()) {
      const torch::Tensor at_bound = torch::zeros_like(entry.scale->steps_at_bound());
      for (std::int64_t k = 0; k < at_bound.numel(); ++k)
        at_bound.view(-1)[k] = counter(info.counters, at_bound_key(entry, k));
      nn::BoundedScale(entry.scale)->restore_counters(steps->second, at_bound);
    }
  }
}

TrainingState TrainingLoop::state() {
  return {.model = model_, .optimizer = optimizer_.get(), .groups = &groups_, .average = average_.get()};
}

CheckpointInfo TrainingLoop::info() const {
  CheckpointInfo info{
      .metadata = metadata_,
      .counters = {{"step", step_}, {"skipped", step_guard_.skipped()}, {"skipped_in_a_row", step_guard_.in_a_row()}}};
  if (average_) info.counters["average_updates"] = average_->updates();
  if (best_score_) info.numbers[kBestScore] = *best_score_;
  if (options_.precision == TrainingPrecision::kHalf) {
    info.numbers[kLossScale] = loss_scale_.factor();
    info.counters[kSoundSteps] = loss_scale_.sound_steps();
  }
  for (std::size_t i = 0; i < projector_.scales().size(); ++i) {
    const NamedScale& entry = projector_.scales()[i];
    for (std::size_t k = 0; k < scale_starts_[i].size(); ++k) info.numbers[start_key(entry, k)] = scale_starts_[i][k];
    const torch::Tensor at_bound = entry.scale->steps_at_bound().cpu().reshape({-1});
    info.counters[steps_key(entry)] = entry.scale->num_steps();
    for (std::int64_t k = 0; k < at_bound.numel(); ++k)
      info.counters[at_bound_key(entry, k)] = at_bound[k].item<std::int64_t>();
  }
  return info;
}

}  // namespace camber::train
