#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "camber/sensors/augmentation.h"
#include "camber/sensors/cue_errors.h"
#include "camber/sensors/cues.h"
#include "camber/sensors/sensor_frame.h"

namespace camber::sensors {

struct LoaderOptions {
  FrameOptions frame{};                ///< what is loaded of a key frame
  FaultOptions faults{};               ///< faults drawn for each sample
  std::vector<Fault> fixed_faults{};   ///< faults of every sample; none are drawn then
  AugmentationOptions augmentation{};  ///< how frames are varied
  std::int64_t batch_size = 4;
  std::int64_t share_begin = 0, share_size = 0;  ///< of each batch these samples alone; a size of 0: all of it
  bool shuffle = true;                           ///< a new order every epoch
  std::int64_t epochs = 0;                       ///< passes over the samples; 0: without end
  std::int64_t batches_ahead = 4;                ///< batches prepared before they are asked for
  bool cues = true;                              ///< compute the cues of each sensor
  CueErrorOptions cue_errors{};                  ///< how the cues err
  /// Where a frozen or stale fault takes frames of other scenes from; empty: the samples that are loaded.
  std::vector<nuscenes::Index> fault_pool{};

  void validate() const;
};

/// One sample, ready for a detector.
struct LoadedSample {
  SensorFrame sensor_frame{};
  std::vector<SensorCues> cues{};    ///< in the order of sensor_frame.sensors; empty when not asked for
  std::vector<TrustLabel> labels{};  ///< in the order of sensor_frame.frame.objects
  Augmentation augmentation{};       ///< what was done to sensor_frame.frame
};

struct Batch {
  std::int64_t step = 0;
  std::vector<LoadedSample> samples{};
};

/// Prepares batches in parallel, ahead of whoever takes them.
///
/// Sample i of step s has position p = s * batch_size + i: it is element p mod N of the order of epoch p / N, and its
/// faults and augmentation come from the named streams "data.faults" and "data.augmentation" at p. A batch is a
/// function of (data set, options, seed, step) alone: resuming at a step gives the batches of an unbroken run, bit for
/// bit, whatever the number of threads; of a share of it, i counts from share_begin. Fixed faults draw from the stream
/// "faults" and the sample, as `camber faults` does. Errors of the cues come from "data.cue_errors" at epoch and scene.
///
///   Loader loader(dataset, split.samples, options, seed, threads, step);
///   while (auto batch = loader.next()) train_on(*batch);
class Loader {
 public:
  Loader(const nuscenes::Dataset& dataset, std::vector<nuscenes::Index> samples, LoaderOptions options,
         std::uint64_t seed, int threads = 0, std::int64_t first_step = 0);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// The batch of the next step; nothing after the last epoch. Throws what went wrong with one of its samples, and
  /// throws it again when asked again.
  std::optional<Batch> next();
  /// The step whose batch next() gives.
  std::int64_t step() const;

 private:
  class Work;
  std::unique_ptr<Work> work_;
};

}  // namespace camber::sensors
