#include <algorithm>
#include <chrono>
#include <ctime>
#include <iomanip>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <utility>

#include <camber/benchmarks/memory.h>
#include <camber/detection/cmt_head.h>
#include <camber/nn/device.h>
#include <camber/runs/detector_bench.h>
#include <camber/runs/detector_options.h>
#include <camber/sensors/cues.h>
#include <camber/train/training_loop.h>
#include <camber/weights/state_file.h>

#include <ATen/Parallel.h>

namespace camber::runs {
namespace {

constexpr const char* kAgreement = "agreement (of head)";
constexpr const char* kStep = "step";

double p50_of(const std::vector<StageTime>& rows, const std::string& stage) {
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const StageTime& one) { return one.stage == stage; });
  return row == rows.end() ? 0.0 : row->p50;
}

// Times of stages, in the order in which they were first met.
class Stages {
 public:
  Stages(torch::Device device, bool processor_time) : device_(device), processor_time_(processor_time) {}

  template <class Action>
  auto time(const std::string& stage, const Action& action) {
    const double begin = now();
    auto result = action();
    add(stage, begin);
    return result;
  }
  void add(const std::string& stage, double begin) {
    nn::wait_for(device_);
    if (!times_.contains(stage)) order_.push_back(stage);
    times_[stage].push_back(now() - begin);
  }
  // Milliseconds from some start.
  double now() const {
    if (processor_time_)
      return 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC / static_cast<double>(at::get_num_threads());
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  std::vector<StageTime> summary(std::int64_t warmup) const {
    std::vector<StageTime> rows;
    for (const std::string& stage : order_) {
      const auto& all = times_.at(stage);
      std::vector<double> kept(all.begin() + std::min<std::ptrdiff_t>(warmup, std::ssize(all) - 1), all.end());
      std::sort(kept.begin(), kept.end());
      const auto at = [&kept](double share) {
        return kept[std::min(kept.size() - 1, static_cast<std::size_t>(share * static_cast<double>(kept.size())))];
      };
      rows.push_back({stage, at(0.5), at(0.95)});
    }
    return rows;
  }

 private:
  torch::Device device_;
  bool processor_time_;
  std::vector<std::string> order_;
  std::map<std::string, std::vector<double>> times_;
};

void time_frame(detection::Detector& detector, const nuscenes::Dataset& dataset, nuscenes::Index sample,
                sensors::CueTracker& tracker, Stages& stages) {
  torch::NoGradGuard no_grad;
  const detection::DetectorOptions& options = detector->options();
  sensors::SensorFrame sensor_frame = stages.time("decode", [&] {
    return sensors::clean_sensor_frame(sensors::load_key_frame(dataset, sample, options.frame_options()));
  });
  const double begin = stages.now();
  if (dataset.tables().sample[sample].previous == nuscenes::kNone) tracker.reset();
  auto cues = stages.time(
      "cues", [&] { return tracker.next(sensor_frame); });
  const auto batch = stages.time(
      "collate", [&] { return detection::collate(std::move(sensor_frame), std::move(cues), options); });
  const auto pillars = stages.time("voxelise", [&] { return detector->voxelise(batch); });
  detection::KeyMaps maps;
  maps.bev = stages.time(
      "points", [&] { return detector->encode_points(batch, pillars); });
  maps.cameras = stages.time(
      "images", [&] { return detector->encode_images(batch); });
  const auto positions = stages.time(
      "positions", [&] { return detector->key_positions(batch.scene); });
  const auto output = stages.time(
      "head",
      [&] {
        return detector->head()->forward(maps, batch, {}, {.denoising = false, .attention_mass = true}, positions);
      });
  stages.time("boxes", [&] { return detector->decode(output, batch); });
  stages.add("detect", begin);
  if (!options.head.dense_auxiliary) return;
  // Part of the head's time above, once more on its own.
  const detection::HeadMemory memory{.content = detector->head()->memory_of(maps, batch)};
  stages.time(kAgreement, [&] { return detector->head()->agreement(memory, batch); });
}

sensors::Batch first_batch(const detection::Detector& detector, const nuscenes::Dataset& dataset,
                           const nuscenes::Split& split, const DetectorBenchOptions& options) {
  sensors::LoaderOptions loading{.frame = detector->options().frame_options(),
                                 .faults = {.share = 0},
                                 .augmentation = sensors::AugmentationOptions::none(),
                                 .batch_size = options.batch_size,
                                 .shuffle = false};
  return sensors::Loader(dataset, split.samples, loading, options.seed, 1).next().value();
}

// Training steps on one batch, as often as they are asked for.
class TrainingSteps {
 public:
  TrainingSteps(detection::Detector& detector, const detection::DetectorBatch& batch,
                const DetectorBenchOptions& options)
      : detector_(detector), batch_(batch), seed_(options.seed), projector_(*detector) {
    DetectorTrainingOptions training;
    training.detector = detector->options();
    training.loop.optimizer = {.learning_rate = 1e-6, .clip_norm = 35};
    clip_norm_ = training.loop.optimizer.clip_norm;
    optimizer_ =
        train::OptimizerGroups(*detector, training.loop_with_rules().groups).make_optimizer(training.loop.optimizer);
  }

  void time(Stages& stages) {
    const double begin = stages.now();
    optimizer_->zero_grad();
    const auto output = stages.time(
        "forward", [&] { return detector_->forward(batch_, {.seed = seed_, .step = step_}); });
    const auto losses = stages.time("losses", [&] { return detector_->losses(output, batch_); });
    const double backward = stages.now();
    losses.total.backward();
    stages.add("backward", backward);
    stages.time("optimiser", [&] {
      train::clip_grad_norm(*optimizer_, clip_norm_);
      return projector_.step(*optimizer_);
    });
    stages.add(kStep, begin);
    ++step_;
  }

 private:
  detection::Detector& detector_;
  const detection::DetectorBatch& batch_;
  std::uint64_t seed_;
  double clip_norm_ = 0;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  train::ScaleProjector projector_;
  std::int64_t step_ = 0;
};

// As many threads as there were, whatever happens.
class ThreadsKept {
 public:
  ~ThreadsKept() { at::set_num_threads(threads_); }
  int threads() const { return threads_; }

 private:
  int threads_ = at::get_num_threads();
};

// Steps on all threads and on one take turns, so that a busy moment meets both.
void time_training(detection::Detector& detector, const detection::DetectorBatch& batch,
                   const DetectorBenchOptions& options, DetectorBench& bench) {
  const ThreadsKept kept;
  bench.threads = kept.threads();
  const bool alone = bench.threads > 1 && detector->device().is_cpu();
  Stages all(detector->device(), options.processor_time), one(detector->device(), options.processor_time);
  detector->train();
  TrainingSteps steps(detector, batch, options);
  for (std::int64_t turn = 0; turn < options.warmup + options.repeats; ++turn) {
    at::set_num_threads(kept.threads());
    steps.time(all);
    if (!alone) continue;
    at::set_num_threads(1);
    steps.time(one);
  }
  detector->eval();
  bench.training = all.summary(options.warmup);
  if (alone) bench.training_on_one = one.summary(options.warmup);
}

torch::Tensor projections_of(const detection::DetectorBatch& batch) {
  std::vector<double> numbers;
  for (const auto& cameras : batch.scene.cameras)
    for (const auto& camera : cameras)
      numbers.insert(numbers.end(), camera.lidar_to_image.begin(), camera.lidar_to_image.end());
  return torch::tensor(numbers, torch::kDouble).view({batch.size, -1, 4, 4});
}

// Everything that another implementation needs to do the same work, and what came out in evaluation mode.
void dump(detection::Detector& detector, const detection::DetectorBatch& batch, const std::filesystem::path& path) {
  torch::NoGradGuard no_grad;
  std::vector<weights::NamedTensor> tensors = weights::tensors_of(*detector);
  const auto output = detector->forward(batch, {.denoising = false});
  const auto add = [&tensors](const std::string& name, const torch::Tensor& tensor) {
    tensors.push_back({name, tensor.contiguous()});
  };
  add("batch.points", batch.points);
  add("batch.point_offsets", batch.point_offsets);
  add("batch.images", batch.images.at(0));
  add("batch.lidar_to_image", projections_of(batch));
  for (std::size_t i = 0; i < batch.targets.size(); ++i) {
    add("batch.boxes." + std::to_string(i), batch.targets[i].boxes);
    add("batch.labels." + std::to_string(i), batch.targets[i].labels);
  }
  add("output.class_logits", output.class_logits);
  add("output.codes", output.codes);
  weights::write_state(path, std::move(tensors), {});
}

}  // namespace

DetectorBench bench_detector(detection::Detector detector, const nuscenes::Dataset& dataset,
                             const nuscenes::Split& split, const DetectorBenchOptions& options) {
  if (split.samples.empty())
    throw std::invalid_argument("[bench detector] split " + split.name + " must hold a frame, got none");
  if (detector->options().encoder.kind == detection::EncoderKind::kFeatures)
    throw std::invalid_argument("[bench detector] the detector must have encoders of its own, got maps of others");
  detector->eval();
  DetectorBench bench;
  for (const torch::Tensor& parameter : detector->parameters()) bench.parameters += parameter.numel();
  Stages frames(detector->device(), options.processor_time);
  benchmarks::restart_peak();
  const double before = benchmarks::resident_bytes();
  sensors::CueTracker tracker;
  for (std::int64_t i = 0; i < options.warmup + options.repeats; ++i)
    time_frame(detector, dataset, split.samples[static_cast<std::size_t>(i) % split.samples.size()], tracker, frames);
  bench.frame = frames.summary(options.warmup);
  bench.memory = static_cast<std::int64_t>(benchmarks::peak_resident_bytes() - before);
  const detection::DetectorBatch batch =
      detection::collate(first_batch(detector, dataset, split, options), detector->options());
  bench.keys = batch.scene.layout().keys();
  if (!options.dump.empty()) dump(detector, batch, options.dump);
  if (options.training) time_training(detector, batch, options, bench);
  return bench;
}

double DetectorBench::speedup() const {
  return training_on_one.empty() ? 1 : p50_of(training_on_one, kStep) / p50_of(training, kStep);
}

std::string DetectorBench::to_text() const {
  std::ostringstream text;
  text << parameters << " parameters, " << keys << " keys; " << (memory + 500000) / 1000000
       << " MB above the weights at the peak\n";
  const auto table = [&text](const char* title, const std::vector<StageTime>& rows) {
    if (rows.empty()) return;
    text << "\n"
         << std::left << std::setw(22) << title << std::right << std::setw(10) << "p50 ms" << std::setw(10) << "p95 ms"
         << "\n"
         << std::fixed << std::setprecision(2);
    for (const StageTime& row : rows)
      text << std::left << std::setw(22) << row.stage << std::right << std::setw(10) << row.p50 << std::setw(10)
           << row.p95 << "\n";
  };
  table("one frame", frame);
  if (const double agreement = p50_of(frame, kAgreement); agreement > 0)
    text << "agreement takes " << 100 * agreement / p50_of(frame, "detect") << " % of a frame\n";
  table("one training step", training);
  table("the same, one thread", training_on_one);
  if (!training_on_one.empty()) text << threads << " threads take a step " << speedup() << " times as fast as one\n";
  return text.str();
}

std::string DetectorBench::to_json() const {
  std::ostringstream text;
  text << "{\"parameters\": " << parameters << ", \"keys\": " << keys << ", \"memory\": " << memory;
  const auto list = [&text](const char* name, const std::vector<StageTime>& rows) {
    text << ", \"" << name << "\": [";
    for (std::size_t i = 0; i < rows.size(); ++i)
      text << (i == 0 ? "" : ", ") << "{\"stage\": \"" << rows[i].stage << "\", \"p50\": " << rows[i].p50
           << ", \"p95\": " << rows[i].p95 << "}";
    text << "]";
  };
  list("frame", frame);
  list("training", training);
  if (!training_on_one.empty()) {
    list("training_on_one", training_on_one);
    text << ", \"threads\": " << threads << ", \"speedup\": " << speedup();
  }
  text << "}\n";
  return text.str();
}

}  // namespace camber::runs
