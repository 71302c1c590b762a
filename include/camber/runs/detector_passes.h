#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <camber/detection/detector.h>
#include <camber/nuscenes/dataset.h>
#include <camber/nuscenes/splits.h>
#include <camber/sensors/cue_errors.h>
#include <camber/sensors/fault.h>

namespace camber::runs {

/// Frames on which a detector is run. For the same split, seed and faults they are the same in `camber eval`, in a
/// run's own result and in a study.
struct DetectionRequest {
  const nuscenes::Dataset& dataset;
  nuscenes::Split split{};
  std::vector<nuscenes::Index>
      fault_pool{};        ///< where faults take other scenes from; empty: nuscenes::fault_pool(split)
  std::uint64_t seed = 0;  ///< of faults and shuffles; not the training's: every model meets the same
  std::int64_t batch_size = 4;
  int threads = 1;                                      ///< that load frames
  bool attention_mass = false;                          ///< say where each detection's attention lay
  bool alarms = false;                                  ///< say what became of each sensor's alarm
  double absent_above_age = 0;                          ///< sensors whose cue of age is above it are taken out; 0: none
  std::optional<detection::TrustPolicy> policy{};       ///< what is done with alarms; none: the detector's own
  sensors::CueErrorOptions cue_errors{};                ///< how the cues of all frames err
  std::function<void(std::int64_t frames)> progress{};  ///< frames of one condition that are done, of all ranks
  /// Ranks take whole batches in turn, so that every frame has the neighbours, and the bits, that it has for one alone.
  std::shared_ptr<distributed::ProcessGroup> group = distributed::alone();

  /// The frames of this rank, batch by batch.
  std::vector<nuscenes::Index> own_samples() const;
};

/// What happens to the sensors of every frame: all of the faults, none for the clean condition.
using Condition = std::vector<sensors::Fault>;

/// One way of running the detector over the frames.
struct DetectionPass {
  Condition condition{};
  detection::TrustControl trust = detection::TrustControl::kModel;
  std::optional<Condition> cues{};                 ///< the condition whose cues are given instead of the frames' own
  std::optional<detection::TrustPolicy> policy{};  ///< none: the request's
};

/// What one pass found in one frame.
struct DetectedFrame {
  std::size_t pass = 0;
  const detection::FrameOrigin& origin;
  std::vector<detection::Detection> found{};
  double agreement = detection::kNotKnown;       ///< how far the sensors agree
  std::vector<double> camera_agreement{};        ///< each camera with the LiDAR; empty without dense heads
  std::vector<detection::SensorAlarm> alarms{};  ///< of the LiDAR and each camera, where the request asks
  /// As it was loaded; the last pass may move from it. Null with the cues of a condition that was loaded later.
  sensors::LoadedSample* sample = nullptr;
};

struct DetectionHooks {
  std::function<void(DetectedFrame&&)> frame{};
  std::function<void(std::size_t pass)> done{};  ///< after the last frame of a pass
};

/// Runs the detector over this rank's frames in the order of the split, in evaluation mode and without gradients. Every
/// condition is loaded and encoded once, however many passes look at it: encoders know neither trust nor cues.
/// Conditions that these frames cannot have are refused first (check_conditions).
void run_passes(detection::Detector detector, const DetectionRequest& request, const std::vector<DetectionPass>& passes,
                const DetectionHooks& hooks);

/// Refuses conditions that these frames cannot have: a reading to repeat where there is none.
void check_conditions(const DetectionRequest& request, const std::vector<Condition>& conditions);

/// Refuses faults of the sensors' content, which maps of other encoders do not show.
void check_features_faults(const std::vector<sensors::Fault>& faults);

/// Reads none, rule, verified_rule, bias or verified_bias; an empty word is no policy.
std::optional<detection::TrustPolicy> trust_policy(const std::string& name, const std::string& argument);

/// Reads model, zero, mean, shuffled or oracle; refuses any other word with `argument` as its name.
detection::TrustControl trust_control(const std::string& name, const std::string& argument);

}  // namespace camber::runs
