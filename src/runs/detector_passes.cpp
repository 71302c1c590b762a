#include <algorithm>
#include <stdexcept>

#include <camber/detection/cmt_head.h>
#include <camber/runs/detector_passes.h>

namespace camber::runs {
namespace {

struct Cues {
  torch::Tensor age, level;
};

// Frames and their keys. The encoders know neither trust nor cues, nor do the keys that queries look at: both are
// computed once for all passes.
struct EncodedBatch {
  detection::DetectorBatch batch{};
  detection::KeyMaps maps{};
};

std::vector<double> camera_agreement(const detection::DetectorOutput& output, std::int64_t frame) {
  if (!output.agreement.defined()) return {};
  const auto row = output.agreement.cameras[frame].cpu().contiguous();
  return {row.const_data_ptr<double>(), row.const_data_ptr<double>() + row.numel()};
}

class Passes {
 public:
  Passes(detection::Detector detector, const DetectionRequest& request, const std::vector<DetectionPass>& passes,
         const DetectionHooks& hooks)
      : detector_(std::move(detector)),
        head_(detector_->head()),
        request_(request),
        hooks_(hooks),
        pool_(request.fault_pool.empty() ? nuscenes::fault_pool(request.dataset, request.split) : request.fault_pool) {
    for (const DetectionPass& pass : passes) {
      const std::size_t condition = number_of(pass.condition);
      passes_.push_back({.condition = condition,
                         .cues = pass.cues ? number_of(*pass.cues) : condition,
                         .trust = pass.trust,
                         .policy = pass.policy ? pass.policy : request.policy});
      detection::check_policy(detector_->options(), passes_.back().policy.value_or(detector_->options().alarms.policy));
    }
  }

  void run() {
    std::vector<Condition> all;
    all.reserve(conditions_.size());
    for (const Frames& frames : conditions_) {
      if (!has_own_encoders()) check_features_faults(frames.condition);
      all.push_back(frames.condition);
    }
    check_conditions(request_, all);
    if (!has_own_encoders() && request_.cue_errors.any())
      throw std::invalid_argument(
          "[detector] cue errors must be none with encoder.kind = features, whose frames have no cues, got " +
          request_.cue_errors.text());
    torch::NoGradGuard no_grad;
    detector_->eval();
    for (std::size_t condition = 0; condition < conditions_.size(); ++condition) run_condition(condition);
  }

 private:
  struct Pass {
    std::size_t condition, cues;
    detection::TrustControl trust;
    std::optional<detection::TrustPolicy> policy;
  };
  struct Frames {
    Condition condition;
    std::vector<Cues> cues;             // of each batch, where a pass over other frames takes them
    std::vector<EncodedBatch> encoded;  // of each batch, where a pass waits for the cues of a later condition
  };

  std::size_t number_of(const Condition& condition);
  bool has_own_encoders() const { return detector_->options().encoder.kind != detection::EncoderKind::kFeatures; }
  bool any_pass(const auto& fits) const { return std::any_of(passes_.begin(), passes_.end(), fits); }
  sensors::LoaderOptions loading(const Condition& condition) const;
  EncodedBatch encode(const sensors::Batch& loaded) const;
  void run_condition(std::size_t condition);
  void run_waiting(std::size_t cues);
  detection::DetectorBatch as_seen(const detection::DetectorBatch& batch, const Cues* cues) const;
  void detect(std::size_t pass, const EncodedBatch& frames, const detection::HeadMemory* memory, const Cues* cues,
              std::vector<sensors::LoadedSample>* samples);

  detection::Detector detector_;
  detection::CmtHead head_;
  const DetectionRequest& request_;
  const DetectionHooks& hooks_;
  const std::vector<nuscenes::Index> pool_;
  std::vector<Frames> conditions_;  // in the order in which the passes name them
  std::vector<Pass> passes_;
};

std::size_t Passes::number_of(const Condition& condition) {
  const auto known = std::find_if(conditions_.begin(), conditions_.end(),
                                  [&](const Frames& frames) { return frames.condition == condition; });
  if (known != conditions_.end()) return static_cast<std::size_t>(known - conditions_.begin());
  conditions_.push_back({.condition = condition, .cues = {}, .encoded = {}});
  return conditions_.size() - 1;
}

sensors::LoaderOptions Passes::loading(const Condition& condition) const {
  return {.frame = detector_->options().frame_options(),
          .faults = {.share = 0},
          .fixed_faults = condition,
          .augmentation = sensors::AugmentationOptions::none(),
          .batch_size = request_.batch_size,
          .shuffle = false,
          .epochs = 1,
          .cues = has_own_encoders(),
          .cue_errors = request_.cue_errors,
          .fault_pool = pool_};
}

EncodedBatch Passes::encode(const sensors::Batch& loaded) const {
  EncodedBatch frames{.batch = detection::collate(loaded, detector_->options())};
  frames.maps = detector_->encode(frames.batch);
  frames.batch.images.clear();  // what is kept of the frames needs them no more
  return frames;
}

void Passes::run_condition(std::size_t condition) {
  Frames& frames = conditions_[condition];
  const bool lends = any_pass([&](const Pass& p) { return p.cues == condition && p.condition != condition; });
  const bool waits = any_pass([&](const Pass& p) { return p.condition == condition && p.cues > condition; });
  std::vector<std::size_t> ready;
  for (std::size_t pass = 0; pass < passes_.size(); ++pass)
    if (passes_[pass].condition == condition && passes_[pass].cues <= condition) ready.push_back(pass);
  const std::vector<nuscenes::Index> samples = request_.own_samples();
  if (samples.empty()) {  // more ranks than batches
    for (const std::size_t pass : ready)
      if (hooks_.done) hooks_.done(pass);
    return run_waiting(condition);
  }
  sensors::Loader loader(request_.dataset, samples, loading(frames.condition), request_.seed, request_.threads);
  for (std::size_t i = 0; auto loaded = loader.next(); ++i) {
    EncodedBatch encoded = encode(*loaded);
    if (lends) frames.cues.push_back({encoded.batch.age, encoded.batch.level});
    std::optional<detection::HeadMemory> memory;  // for one look alone it would cost memory and save nothing
    if (ready.size() > 1) memory = head_->remember(encoded.maps, encoded.batch);
    for (const std::size_t pass : ready) {
      const std::size_t cues = passes_[pass].cues;
      detect(pass, encoded, memory ? &*memory : nullptr, cues == condition ? nullptr : &conditions_[cues].cues.at(i),
             &loaded->samples);
    }
    const std::int64_t size = encoded.batch.size;
    if (waits) frames.encoded.push_back(std::move(encoded));
    if (request_.progress) request_.progress(size * request_.group->size());
  }
  for (const std::size_t pass : ready)
    if (hooks_.done) hooks_.done(pass);
  run_waiting(condition);
}

// Passes over frames that were kept until the cues of this condition were known.
void Passes::run_waiting(std::size_t cues) {
  for (std::size_t pass = 0; pass < passes_.size(); ++pass) {
    if (passes_[pass].cues != cues || passes_[pass].condition >= cues) continue;
    const std::vector<EncodedBatch>& kept = conditions_[passes_[pass].condition].encoded;
    for (std::size_t i = 0; i < kept.size(); ++i)
      detect(pass, kept[i], nullptr, &conditions_[cues].cues.at(i), nullptr);
    if (hooks_.done) hooks_.done(pass);
  }
}

detection::DetectorBatch Passes::as_seen(const detection::DetectorBatch& batch, const Cues* cues) const {
  detection::DetectorBatch seen = batch;
  if (cues != nullptr) {
    seen.age = cues->age;
    seen.level = cues->level;
  }
  return detection::without_old_sensors(std::move(seen), request_.absent_above_age);
}

void Passes::detect(std::size_t pass, const EncodedBatch& frames, const detection::HeadMemory* memory, const Cues* cues,
                    std::vector<sensors::LoadedSample>* samples) {
  const detection::DetectorBatch batch = as_seen(frames.batch, cues);
  const detection::ForwardOptions options{.seed = request_.seed,
                                          .attention_mass = request_.attention_mass,
                                          .trust = passes_[pass].trust,
                                          .policy = passes_[pass].policy};
  const detection::DetectorOutput output = memory != nullptr
                                               ? head_->forward(*memory, batch, {}, options)
                                               : head_->forward(frames.maps, batch, {}, options, std::nullopt);
  auto found = detector_->decode(output, batch);
  const auto& alarms = detector_->options().alarms;
  std::vector<std::vector<detection::SensorAlarm>> states(found.size());
  if (request_.alarms)
    states = detection::alarms_of(batch, options.policy.value_or(alarms.policy), alarms, output.agreement);
  const auto agreement = output.agreement.defined() ? output.agreement.frame.cpu() : torch::Tensor{};
  for (std::size_t i = 0; i < found.size(); ++i)
    hooks_.frame({.pass = pass,
                  .origin = batch.origins[i],
                  .found = std::move(found[i]),
                  .agreement = agreement.defined() ? agreement.const_data_ptr<double>()[i] : detection::kNotKnown,
                  .camera_agreement = camera_agreement(output, static_cast<std::int64_t>(i)),
                  .alarms = std::move(states[i]),
                  .sample = samples == nullptr ? nullptr : &(*samples)[i]});
}

}  // namespace

std::vector<nuscenes::Index> DetectionRequest::own_samples() const {
  std::vector<nuscenes::Index> own;
  const std::int64_t ranks = group->size();
  for (std::int64_t i = 0; i < std::ssize(split.samples); ++i)
    if (i / batch_size % ranks == group->rank()) own.push_back(split.samples[static_cast<std::size_t>(i)]);
  return own;
}

void run_passes(detection::Detector detector, const DetectionRequest& request, const std::vector<DetectionPass>& passes,
                const DetectionHooks& hooks) {
  Passes(std::move(detector), request, passes, hooks).run();
}

void check_conditions(const DetectionRequest& request, const std::vector<Condition>& conditions) {
  const std::vector<nuscenes::Index> pool =
      request.fault_pool.empty() ? nuscenes::fault_pool(request.dataset, request.split) : request.fault_pool;
  for (const Condition& condition : conditions)
    sensors::check_faults(request.dataset, request.split.samples, condition, pool,
                          random::Stream(request.seed, "faults"));
}

void check_features_faults(const std::vector<sensors::Fault>& faults) {
  for (const sensors::Fault& fault : faults)
    if (!sensors::fault_row(fault.kind).known)
      throw std::invalid_argument(
          "[detector] faults must be known ones (lidar_off, cameras_off, camera_off) with encoder.kind = features, "
          "where the sensors' content is not at hand, got " +
          fault.text());
}

std::optional<detection::TrustPolicy> trust_policy(const std::string& name, const std::string& argument) {
  if (name.empty()) return std::nullopt;
  for (const auto& [policy, word] : config::enum_names<detection::TrustPolicy>)
    if (name == word) return policy;
  throw std::invalid_argument(argument + " must be none, rule, verified_rule, bias or verified_bias, got '" + name +
                              "'");
}

detection::TrustControl trust_control(const std::string& name, const std::string& argument) {
  using detection::TrustControl;
  const std::pair<const char*, TrustControl> known[] = {{"model", TrustControl::kModel},
                                                        {"zero", TrustControl::kZero},
                                                        {"mean", TrustControl::kMean},
                                                        {"shuffled", TrustControl::kShuffled},
                                                        {"oracle", TrustControl::kOracle}};
  for (const auto& [word, control] : known)
    if (name == word) return control;
  throw std::invalid_argument(argument + " must be model, zero, mean, shuffled or oracle, got '" + name + "'");
}

}  // namespace camber::runs
