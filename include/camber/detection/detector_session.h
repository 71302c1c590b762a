#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "camber/detection/detector.h"
#include "camber/detection/frame.h"
#include "camber/sensors/cues.h"

namespace camber::detection {

/// How far the sensors of a frame see the same objects (SensorAgreement), NaN where it is not known.
struct SessionAgreement {
  double frame = kNotKnown;
  double smoothed = kNotKnown;    ///< the mean over the last alarms.smoothing frames: what verified policies look at
  std::vector<double> cameras{};  ///< of each camera with the LiDAR; empty for a detector without dense heads
};

/// Detection in a running sequence. The session keeps what cues need of the last frames (sensors::cues_of: 4 signatures
/// of some kilobytes, no image), so that a router that was trained with cues has them:
///
///   age_s, level_s, s = 0 .. V  =  cues(the last 4 frames, this frame)      LiDAR, then V cameras
///   trust                       =  router(queries, keys, age, level)
///
/// The cues, and with them the boxes, are those of `camber eval` on the same sequence, to the bit in batches of one.
///
///   DetectorSession session(Detector::load("model.safetensors"));
///   while (drive(frame)) {                        // frame.timestamp, frame.ego_to_global and the sensors' own times
///     if (begins_scene) session.reset();
///     for (const Detection& found : session.detect(frame)) ...
///   }
///
/// - Time: `timestamp` of each frame is above that of the one before; a gap only widens the interval within which a
///   reading counts as fresh. A sensor's own time stamp is held against it.
/// - A sensor that delivers nothing stays in its place with available = false: no query looks at it, its cues are age 1
///   and level -1. When it is back, its change is not known at first (age 0.5) and its level is that of the frames
///   before.
/// - The cameras are the same ones, by number and name, until reset(). Sizes of images, intrinsics and poses may
///   change from frame to frame.
/// - What is done with the cues' alarms is the policy's to say (AlarmOptions). A verified one holds them against the
///   agreement of the last alarms.smoothing frames; `camber eval`, whose frames stand alone, against this frame's.
/// - A frame that is refused leaves the history as it was.
///
/// One session a sequence, one call at a time; sessions may share a detector across threads. Each image is read once
/// from where it lies, into the network's size, and nothing borrowed is kept after the call.
class DetectorSession {
 public:
  /// Throws std::invalid_argument for a detector that is being trained or takes the maps of other encoders, and for a
  /// policy that it cannot follow (check_policy). Without a policy it is that of the detector's options.
  explicit DetectorSession(Detector detector, std::optional<TrustPolicy> policy = std::nullopt);

  /// Boxes of the next frame of the sequence, best first; none when no sensor delivers. Throws std::invalid_argument
  /// with one sentence for a frame out of order, for other cameras than before, and for cues in the frame.
  std::vector<Detection> detect(const Frame& frame);

  /// A new scene: the next frame has no past.
  void reset();

  /// What the last call took for the state of the LiDAR and of each camera; empty before the first.
  const std::vector<sensors::SensorCues>& cues() const { return cues_; }
  /// How far the sensors of the last frame agreed; nothing known before the first.
  const SessionAgreement& agreement() const { return agreement_; }
  TrustPolicy policy() const { return policy_; }
  const Detector& detector() const { return detector_; }

 private:
  void check(const Frame& frame) const;

  Detector detector_;
  sensors::CueTracker tracker_{};
  std::vector<std::string> cameras_{};  // names of the sequence's cameras
  std::vector<sensors::SensorCues> cues_{};
  TrustPolicy policy_ = TrustPolicy::kBias;
  std::vector<double> earlier_agreement_{};  // of the frames before, at most alarms.smoothing - 1
  SessionAgreement agreement_{};
};

}  // namespace camber::detection
