#include <algorithm>
#include <stdexcept>

#include <camber/config/options.h>
#include <camber/runs/detector_evaluation.h>
#include <camber/runs/detector_options.h>

namespace camber::runs {

void DetectorTrainingOptions::validate() const {
  detector.validate();
  if (detector.in_bfloat16())
    throw std::invalid_argument("[train] detector.precision must be float32 in training, got bfloat16");
  loop.validate();
  if (double_precision && loop.precision != train::TrainingPrecision::kFloat)
    throw std::invalid_argument("[train] loop.precision must be float with double_precision, got a lower one");
  const std::vector<sensors::Fault> conditions = parse_conditions(evaluation.faults);
  if (detector.encoder.kind != detection::EncoderKind::kFeatures) return;
  if (detector.encoder.features.empty()) {
    throw std::invalid_argument(
        "[train] detector.encoder.features must name the folder of the maps with encoder.kind = features, got nothing");
  }
  const auto varied = config::differences(sensors::AugmentationOptions::none(), data.augmentation);
  if (!varied.empty()) {
    throw std::invalid_argument("[train] data.augmentation." + varied[0].path + " must be " + varied[0].first +
                                " with encoder.kind = features, whose maps cannot be varied, got " + varied[0].second);
  }
  if (data.cue_errors.any())
    throw std::invalid_argument(
        "[train] data.cue_errors must be none with encoder.kind = features, whose frames have no cues, got " +
        data.cue_errors.text());
  if (data.faults.share > 0) {
    std::vector<sensors::Fault> drawn;
    drawn.reserve(data.faults.kinds.size());
    for (const std::string& kind : data.faults.kinds) drawn.push_back(sensors::parse_fault(kind));
    check_features_faults(drawn);
  }
  check_features_faults(conditions);
}

DetectorTrainingOptions DetectorTrainingOptions::from_any_folder() const {
  DetectorTrainingOptions options = *this;
  for (std::string* path : {&options.data.root, &options.detector.encoder.features})
    if (!path->empty()) *path = std::filesystem::absolute(*path).lexically_normal().string();
  return options;
}

sensors::LoaderOptions DetectorTrainingOptions::loader(std::int64_t rank, std::int64_t ranks) const {
  const auto begin_of = [&](std::int64_t share) { return share * data.batch_size / ranks; };
  return {.frame = detector.frame_options(),
          .faults = data.faults,
          .augmentation = data.augmentation,
          .batch_size = data.batch_size,
          .share_begin = begin_of(rank),
          .share_size = ranks > 1 ? begin_of(rank + 1) - begin_of(rank) : 0,
          .batches_ahead = data.batches_ahead,
          .cues = detector.encoder.kind != detection::EncoderKind::kFeatures,
          .cue_errors = data.cue_errors};
}

train::TrainingLoopOptions DetectorTrainingOptions::loop_with_rules() const {
  train::TrainingLoopOptions options = loop;
  std::vector<train::GroupRule>& rules = options.groups.rules;
  for (const detection::ParameterRule& own : detection::parameter_rules(detector)) {
    const bool said = std::any_of(rules.begin(), rules.end(),
                                  [&own](const train::GroupRule& rule) { return rule.pattern == own.pattern; });
    if (!said) rules.push_back({.pattern = own.pattern, .lr_mult = own.learning_rate, .decay_mult = own.decay});
  }
  return options;
}

std::vector<std::string> unused_options(const DetectorTrainingOptions& options,
                                        const DetectorTrainingOptions& defaults) {
  struct SwitchedOff {
    bool off;
    std::string_view part;    // begins the paths of what is off
    std::string_view itself;  // the switch
    std::string reason;
  };
  const detection::DetectorOptions& detector = options.detector;
  const bool router_off = detector.router.mode == nn::RouterMode::kOff;
  const SwitchedOff parts[] = {
      {router_off, "detector.bias.", "", "detector.router.mode is off"},
      {router_off, "detector.router.", "detector.router.mode", "detector.router.mode is off"},
      {!detector.bias.windows, "detector.bias.scale.", "", "detector.bias.windows is off"},
      {!detector.bias.windows, "detector.bias.form", "", "detector.bias.windows is off"},
      {!detector.bias.windows, "detector.bias.sizing", "", "detector.bias.windows is off"},
      {!detector.bias.window_trust, "detector.bias.scale.", "", "detector.bias.window_trust is off"},
      {!detector.bias.locality, "detector.bias.locality_scale.", "", "detector.bias.locality is off"},
      {!detector.bias.segments, "detector.bias.segment_scale.", "", "detector.bias.segments is off"},
      {options.data.faults.share == 0, "data.faults.", "data.faults.share", "data.faults.share is 0"},
      {!detector.loss.denoising.enabled, "detector.loss.denoising.", "detector.loss.denoising.enabled",
       "detector.loss.denoising.enabled is false"},
      {detector.encoder.kind != detection::EncoderKind::kCmt, "detector.encoder.cmt.", "",
       "detector.encoder.kind is not cmt"}};
  std::vector<std::string> sentences;
  for (const config::Difference& changed : config::differences(defaults, options))
    for (const SwitchedOff& part : parts)
      if (part.off && changed.path.starts_with(part.part) && changed.path != part.itself) {
        sentences.push_back(changed.path + " = " + changed.second + " has no effect: " + part.reason);
        break;
      }
  return sentences;
}

detection::DetectorOptions detector_of_config(const std::string& config) {
  if (!config.ends_with(".toml")) return detection::DetectorOptions::preset(config);
  return config::load<DetectorTrainingOptions>({.file = config}).detector;
}

std::vector<nuscenes::Index> evenly_spaced(const std::vector<nuscenes::Index>& samples, std::int64_t limit) {
  const auto count = static_cast<std::int64_t>(samples.size());
  if (limit <= 0 || limit >= count) return samples;
  std::vector<nuscenes::Index> chosen;
  chosen.reserve(static_cast<std::size_t>(limit));
  for (std::int64_t i = 0; i < limit; ++i) chosen.push_back(samples[static_cast<std::size_t>(i * count / limit)]);
  return chosen;
}

}  // namespace camber::runs
