#include "camber/sensors/loader.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <limits>
#include <map>
#include <mutex>
#include <span>
#include <stdexcept>
#include <thread>

#include "camber/threads/tasks.h"

namespace camber::sensors {
namespace {

// What lies outside of the range now may lie inside after the world was turned: it is cut afterwards.
FrameOptions wide(FrameOptions options) {
  options.range = PointRange::everywhere();
  return options;
}

void shuffle_points(std::vector<LidarPoint>& points, random::Stream stream) {
  std::vector<LidarPoint> shuffled;
  shuffled.reserve(points.size());
  for (const std::int64_t i : stream.permutation(static_cast<std::int64_t>(points.size())))
    shuffled.push_back(points[static_cast<std::size_t>(i)]);
  points = std::move(shuffled);
}

}  // namespace

void LoaderOptions::validate() const {
  const auto check = [](const char* name, std::int64_t value, std::int64_t least, std::int64_t most) {
    if (value < least || value > most)
      throw std::invalid_argument("[Loader] " + std::string(name) + " must lie in " + std::to_string(least) + " .. " +
                                  std::to_string(most) + ", got " + std::to_string(value));
  };
  check("batch_size", batch_size, 1, 4096);
  check("epochs", epochs, 0, std::int64_t{1} << 32);
  check("batches_ahead", batches_ahead, 1, 64);
  check("share_begin", share_begin, 0, batch_size - 1);
  check("share_size", share_size, 0, batch_size - share_begin);
  if (share_size > 0 && epochs > 0)
    throw std::invalid_argument("[Loader] a share of each batch must be taken without end, got " +
                                std::to_string(epochs) + " epochs");
  frame.validate();
  augmentation.validate();
  if (fixed_faults.empty()) faults.validate();
}

class Loader::Work {
 public:
  Work(const nuscenes::Dataset& dataset, std::vector<nuscenes::Index> samples, LoaderOptions options,
       std::uint64_t seed, int threads, std::int64_t first_step);
  ~Work();

  std::optional<Batch> next();
  std::int64_t step() const { return step_; }

 private:
  struct Slot {
    LoadedSample sample{};
    std::exception_ptr error{};
  };
  struct Occasion {
    std::vector<Fault> faults;
    random::Stream stream;
  };

  void run();
  void stop();
  LoadedSample prepare(std::int64_t position);
  std::int64_t taken_of_batch() const { return options_.share_size > 0 ? options_.share_size : options_.batch_size; }
  // Slots are numbered without gaps, whatever share of each batch is taken.
  std::int64_t position_of(std::int64_t slot) const {
    return slot / taken_of_batch() * options_.batch_size + options_.share_begin + slot % taken_of_batch();
  }
  Occasion occasion_at(std::uint64_t position) const;
  void let_cues_err(std::vector<SensorCues>& cues, nuscenes::Index sample, std::int64_t position) const;
  std::vector<CameraView> cropped_cameras(nuscenes::Index sample, const Occasion& occasion,
                                          const geometry::ImageCrop& crop) const;
  nuscenes::Index sample_at(std::int64_t position);
  std::span<const nuscenes::Index> pool() const { return options_.fault_pool.empty() ? samples_ : options_.fault_pool; }

  const nuscenes::Dataset& dataset_;
  const std::vector<nuscenes::Index> samples_;
  const LoaderOptions options_;
  const FrameOptions frame_;
  const std::uint64_t seed_;
  CueMaker cue_maker_;
  std::int64_t end_;  // slots there are

  std::mutex mutex_;
  std::condition_variable filled_, taken_;
  std::map<std::int64_t, Slot> slots_;  // prepared, by number
  std::map<std::int64_t, std::vector<std::int64_t>> orders_;
  std::int64_t next_slot_, step_;
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

Loader::Work::Work(const nuscenes::Dataset& dataset, std::vector<nuscenes::Index> samples, LoaderOptions options,
                   std::uint64_t seed, int threads, std::int64_t first_step)
    : dataset_(dataset),
      samples_(std::move(samples)),
      options_(std::move(options)),
      frame_(wide(options_.frame)),
      seed_(seed),
      cue_maker_(dataset, frame_),
      step_(first_step) {
  options_.validate();
  if (samples_.empty()) throw std::invalid_argument("[Loader] samples must not be empty");
  if (first_step < 0)
    throw std::invalid_argument("[Loader] first_step must be at least 0, got " + std::to_string(first_step));
  end_ = options_.epochs == 0 ? std::numeric_limits<std::int64_t>::max()
                              : options_.epochs * static_cast<std::int64_t>(samples_.size());
  next_slot_ = first_step * taken_of_batch();
  // More than there are samples to prepare ahead would only wait.
  const auto useful =
      std::min<std::int64_t>(threads::resolve_threads(threads), options_.batches_ahead * taken_of_batch());
  try {
    for (std::int64_t i = 0; i < useful; ++i) workers_.emplace_back([this] { run(); });
  } catch (...) {
    stop();
    throw;
  }
}

Loader::Work::~Work() {
  stop();
}

void Loader::Work::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  taken_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

nuscenes::Index Loader::Work::sample_at(std::int64_t position) {
  const auto count = static_cast<std::int64_t>(samples_.size());
  const std::int64_t epoch = position / count, at_index = position % count;
  if (!options_.shuffle) return samples_[static_cast<std::size_t>(at_index)];
  const std::lock_guard lock(mutex_);
  std::vector<std::int64_t>& order = orders_[epoch];
  if (order.empty())
    order = random::Stream(seed_, "data.order").at(static_cast<std::uint64_t>(epoch)).permutation(count);
  while (orders_.begin()->first < epoch - 1) orders_.erase(orders_.begin());
  return samples_[static_cast<std::size_t>(order[static_cast<std::size_t>(at_index)])];
}

// The faults of a sample and the stream that they happen by.
Loader::Work::Occasion Loader::Work::occasion_at(std::uint64_t position) const {
  if (!options_.fixed_faults.empty()) return {options_.fixed_faults, random::Stream(seed_, "faults")};
  const random::Stream stream = random::Stream(seed_, "data.faults").at(position);
  return {draw_faults(options_.faults, stream.at("draw")), stream.at("apply")};
}

// The cameras once more, as the crop shows them: the cues compare what the sensors deliver with frames that no crop
// varied, so they come from the images as they are.
std::vector<CameraView> Loader::Work::cropped_cameras(nuscenes::Index sample, const Occasion& occasion,
                                                      const geometry::ImageCrop& crop) const {
  FrameOptions options = frame_;
  options.image_crop = crop;
  options.load_points = false;
  return load_sensor_frame(dataset_, sample, options, occasion.faults, pool(), occasion.stream).frame.cameras;
}

void Loader::Work::let_cues_err(std::vector<SensorCues>& cues, nuscenes::Index sample, std::int64_t position) const {
  const nuscenes::Tables& tables = dataset_.tables();
  const auto epoch = static_cast<std::uint64_t>(position / static_cast<std::int64_t>(samples_.size()));
  const random::Stream scene =
      random::Stream(seed_, "data.cue_errors").at(epoch).at(static_cast<std::uint64_t>(tables.sample[sample].scene));
  std::int64_t place = 0;
  for (nuscenes::Index before = tables.sample[sample].previous; before != nuscenes::kNone;
       before = tables.sample[before].previous)
    ++place;
  apply_cue_errors(cues, options_.cue_errors, scene, place);
}

LoadedSample Loader::Work::prepare(std::int64_t position) {
  const nuscenes::Index sample = sample_at(position);
  const auto index = static_cast<std::uint64_t>(position);
  const Occasion occasion = occasion_at(index);
  LoadedSample result;
  result.sensor_frame = load_sensor_frame(dataset_, sample, frame_, occasion.faults, pool(), occasion.stream);
  if (options_.cues) result.cues = cue_maker_.cues(result.sensor_frame);
  if (options_.cue_errors.any()) let_cues_err(result.cues, sample, position);
  KeyFrame& frame = result.sensor_frame.frame;
  const random::Stream stream = random::Stream(seed_, "data.augmentation").at(index);
  result.augmentation = draw_augmentation(options_.augmentation, frame, stream);
  if (result.augmentation.crop) frame.cameras = cropped_cameras(sample, occasion, *result.augmentation.crop);
  result.labels = trust_labels(result.sensor_frame);  // of what the cameras show now
  augment(frame, result.augmentation);
  keep_range(frame.points, options_.frame.range);
  if (options_.augmentation.shuffle_points) shuffle_points(frame.points, stream.at("points"));
  return result;
}

void Loader::Work::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    taken_.wait(lock, [this] {
      const std::int64_t limit = (step_ + options_.batches_ahead) * taken_of_batch();
      return stopping_ || (next_slot_ < end_ && next_slot_ < limit);
    });
    if (stopping_) return;
    const std::int64_t number = next_slot_++;
    lock.unlock();
    Slot slot;
    try {
      slot.sample = prepare(position_of(number));
    } catch (...) {
      slot.error = std::current_exception();
    }
    lock.lock();
    slots_[number] = std::move(slot);
    filled_.notify_all();
  }
}

std::optional<Batch> Loader::Work::next() {
  std::unique_lock lock(mutex_);
  const std::int64_t first = step_ * taken_of_batch(), last = std::min(end_, first + taken_of_batch());
  if (first >= last) return std::nullopt;
  for (std::int64_t number = first; number < last; ++number) {
    filled_.wait(lock, [&] { return slots_.contains(number); });
    // Nothing is taken out before the batch is whole: asked again, it fails again.
    if (const Slot& slot = slots_.at(number); slot.error) std::rethrow_exception(slot.error);
  }
  Batch batch{.step = step_};
  for (std::int64_t number = first; number < last; ++number)
    batch.samples.push_back(std::move(slots_.extract(number).mapped().sample));
  ++step_;
  taken_.notify_all();
  return batch;
}

Loader::Loader(const nuscenes::Dataset& dataset, std::vector<nuscenes::Index> samples, LoaderOptions options,
               std::uint64_t seed, int threads, std::int64_t first_step)
    : work_(std::make_unique<Work>(dataset, std::move(samples), std::move(options), seed, threads, first_step)) {}
Loader::~Loader() = default;

std::optional<Batch> Loader::next() {
  return work_->next();
}

std::int64_t Loader::step() const {
  return work_->step();
}

}  // namespace camber::sensors
