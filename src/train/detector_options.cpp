#include <algorithm>
#include <stdexcept>

#include <camber/train/detector_options.h>

namespace camber::train {

void DetectorTrainingOptions::validate() const {
  detector.validate();
  loop.validate();
}

data::LoaderOptions DetectorTrainingOptions::loader() const {
  return {.frame = detector.frame_options(),
          .faults = data.faults,
          .augmentation = data.augmentation,
          .batch_size = data.batch_size,
          .batches_ahead = data.batches_ahead};
}

TrainingLoopOptions DetectorTrainingOptions::loop_with_rules() const {
  TrainingLoopOptions options = loop;
  std::vector<GroupRule>& rules = options.groups.rules;
  for (const detection::ParameterRule& own : detection::parameter_rules(detector)) {
    const bool said =
        std::any_of(rules.begin(), rules.end(), [&own](const GroupRule& rule) { return rule.pattern == own.pattern; });
    if (!said) {
      rules.push_back({.pattern = own.pattern, .lr_mult = own.learning_rate, .decay_mult = own.decay});
    }
  }
  return options;
}

std::vector<data::Index> spread(const std::vector<data::Index>& samples, std::int64_t limit) {
  const auto count = static_cast<std::int64_t>(samples.size());
  if (limit <= 0 || limit >= count) {
    return samples;
  }
  std::vector<data::Index> chosen;
  for (std::int64_t i = 0; i < limit; ++i) {
    chosen.push_back(samples[static_cast<std::size_t>(i * count / limit)]);
  }
  return chosen;
}

}  // namespace camber::train
