#include "study/model_evaluation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include <camber/data/loader.h>
#include <camber/detection/batch.h>
#include <camber/eval/breakdown.h>

#include "detection/denoising.h"
#include "detection/detector_parts.h"

namespace camber::study {
namespace {

constexpr std::uint64_t kTestSeed = 0;  // of faults, shuffles and draws of scenes: the same for every model
constexpr std::size_t kBestBoxes = 20;

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

detection::TrustControl control_named(const std::string& name) {
  if (name == "zero") return detection::TrustControl::kZero;
  if (name == "mean") return detection::TrustControl::kMean;
  if (name == "shuffled") return detection::TrustControl::kShuffled;
  if (name == "oracle") return detection::TrustControl::kOracle;
  throw std::invalid_argument("[study] a control must be zero, mean, shuffled or oracle, got '" + name + "'");
}

// Frames and their keys. The encoders know neither trust nor cues, nor do the keys that queries look at: both are
// computed once for all controls.
struct EncodedBatch {
  detection::DetectorBatch batch{};
  detection::KeyMaps maps{};
};

// Predictions and trust of one condition under one control, frame by frame.
struct Pass {
  std::string condition{}, control{};
  detection::TrustControl trust = detection::TrustControl::kModel;
  eval::SampleBoxes boxes{};
  double lidar = 0, camera = 0;
  std::int64_t trusted = 0;
};

class Evaluation {
 public:
  explicit Evaluation(const ModelEvaluation& request)
      : request_(request),
        detector_(request.detector),
        truth_(eval::load_ground_truth(request.dataset, request.split)) {
    total_ = static_cast<double>(request.split.samples.size() * request.conditions.size());
  }

  std::vector<Measurement> run() {
    torch::NoGradGuard no_grad;
    detector_->eval();
    for (const std::string& condition : request_.conditions) judge(condition);
    return std::move(measurements_);
  }

 private:
  void judge(const std::string& condition);
  std::vector<Pass> passes_of(const std::string& condition) const;
  void detect(const EncodedBatch& frames, const detection::HeadMemory& memory, Pass& pass);
  void swap_cues(EncodedBatch& faulty, const detection::HeadMemory& memory, EncodedBatch& sound, Pass& missed,
                 Pass& alarmed);
  void measure(Pass& pass);

  const ModelEvaluation& request_;
  detection::Detector detector_;
  const eval::SampleBoxes truth_;
  std::vector<EncodedBatch> clean_;  // kept where cues are swapped
  std::vector<Measurement> measurements_;
  double total_ = 1, done_ = 0;
};

std::vector<Pass> Evaluation::passes_of(const std::string& condition) const {
  std::vector<Pass> passes{{.condition = condition}};
  if (contains(request_.control_conditions, condition))
    for (const std::string& control : request_.controls)
      passes.push_back({.condition = condition, .control = control, .trust = control_named(control)});
  return passes;
}

void Evaluation::judge(const std::string& condition) {
  const detection::DetectorOptions& options = request_.detector->options();
  const bool clean = condition == "clean", swapped = contains(request_.swapped_cues, condition);
  std::vector<Pass> passes = passes_of(condition);
  Pass missed{.condition = condition, .control = "cues of clean"};
  Pass alarmed{.condition = "clean", .control = "cues of " + condition};
  data::LoaderOptions loading{.frame = options.frame_options(),
                              .faults = {.share = 0},
                              .augmentation = data::AugmentationOptions::none(),
                              .batch_size = request_.batch_size,
                              .shuffle = false,
                              .epochs = 1};
  if (!clean) loading.fixed_faults = {condition};
  data::Loader loader(request_.dataset, request_.split.samples, loading, kTestSeed, 1);
  for (std::size_t i = 0; auto loaded = loader.next(); ++i) {
    EncodedBatch frames{.batch = detection::collate(*loaded, options)};
    const detection::DetectorImpl::Parts& parts = detector_->parts();
    frames.maps = parts.encode(frames.batch, parts.voxelise(frames.batch));
    frames.batch.pictures.clear();  // what is kept of clean frames needs them no more
    detection::CmtHead head = parts.head;
    const detection::HeadMemory memory = head->remember(frames.maps, frames.batch);
    for (Pass& pass : passes) detect(frames, memory, pass);
    if (clean && !request_.swapped_cues.empty()) clean_.push_back(frames);
    if (swapped) swap_cues(frames, memory, clean_.at(i), missed, alarmed);
    done_ += static_cast<double>(frames.batch.size);
    if (request_.progress) request_.progress(done_ / total_);
  }
  for (Pass& pass : passes) measure(pass);
  if (!swapped) return;
  measure(missed);
  measure(alarmed);
}

void Evaluation::swap_cues(EncodedBatch& faulty, const detection::HeadMemory& memory, EncodedBatch& sound, Pass& missed,
                           Pass& alarmed) {
  const auto exchange = [&] {
    std::swap(faulty.batch.age, sound.batch.age);
    std::swap(faulty.batch.level, sound.batch.level);
  };
  exchange();
  detection::CmtHead head = detector_->parts().head;
  detect(faulty, memory, missed);
  detect(sound, head->remember(sound.maps, sound.batch), alarmed);
  exchange();
}

void Evaluation::detect(const EncodedBatch& frames, const detection::HeadMemory& memory, Pass& pass) {
  const detection::DetectorBatch batch = without_old_sensors(frames.batch, request_.absent_above_age);
  detection::CmtHead head = detector_->parts().head;
  const detection::DetectorOutput output = head->forward(memory, batch, {}, {.seed = kTestSeed, .trust = pass.trust});
  const auto found = detector_->decode(output, batch);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const detection::FrameOrigin& origin = batch.origins[i];
    detection::add_sample(pass.boxes, std::string(request_.dataset.tables().sample[origin.sample].token), found[i],
                          origin.reference, detector_->options());
    for (std::size_t k = 0; k < std::min(kBestBoxes, found[i].size()); ++k) {
      const std::vector<double>& trust = found[i][k].trust;
      if (trust.size() < 2) continue;
      pass.lidar += trust[0];
      pass.camera += *std::max_element(trust.begin() + 1, trust.end());
      ++pass.trusted;
    }
  }
}

void Evaluation::measure(Pass& pass) {
  const bool any = !pass.boxes.boxes.empty();
  eval::EvaluationBoxes boxes = pair_boxes(&request_.split, &request_.dataset, truth_, std::move(pass.boxes));
  if (any) filter_boxes(&request_.dataset, request_.config, "the results", boxes.predictions);
  filter_boxes(&request_.dataset, request_.config, "the ground truth", boxes.truth);
  const eval::Evaluation evaluation = evaluate(boxes, request_.config, 1);
  const eval::DetectionMetrics& metrics = evaluation.metrics;
  Measurement measured{
      .condition = pass.condition, .control = pass.control, .mean_ap = metrics.mean_ap, .nd_score = metrics.nd_score};
  for (std::size_t d = 0; d < request_.config.distance_thresholds.size(); ++d) {
    double sum = 0;
    for (const eval::ClassMetrics& entry : metrics.classes) sum += entry.average_precisions[d];
    measured.by_distance.push_back(sum / static_cast<double>(metrics.classes.size()));
  }
  const auto frames = static_cast<double>(pass.trusted);
  measured.trust_lidar = pass.trusted > 0 ? pass.lidar / frames : std::numeric_limits<double>::quiet_NaN();
  measured.trust_camera = pass.trusted > 0 ? pass.camera / frames : std::numeric_limits<double>::quiet_NaN();
  for (const double value : drawn_mean_aps(boxes, request_.config, evaluation, request_.replicates, kTestSeed))
    measured.replicates.push_back(static_cast<std::int32_t>(std::lround(1e4 * value)));
  measurements_.push_back(std::move(measured));
}

}  // namespace

detection::DetectorBatch without_old_sensors(detection::DetectorBatch batch, double age) {
  if (age > 0) batch.available = batch.available & (batch.age <= age);
  return batch;
}

std::vector<Measurement> evaluate_model(const ModelEvaluation& request) {
  return Evaluation(request).run();
}

}  // namespace camber::study
