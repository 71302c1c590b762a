#include "camber/detection/detector_session.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "detection/inference.h"

namespace camber::detection {
namespace {

[[noreturn]] void refuse_frame(const std::string& sentence) {
  throw std::invalid_argument("[DetectorSession] " + sentence);
}

// A pose that is not finite would make every cue NaN, and trust with it.
void check_pose(const char* name, const geometry::RigidTransform& pose) {
  for (const double number : pose.matrix())
    if (!std::isfinite(number))
      refuse_frame(std::string("frame.") + name + " must be finite, got " + std::to_string(number));
}

}  // namespace

DetectorSession::DetectorSession(Detector detector, std::optional<TrustPolicy> policy)
    : detector_(std::move(detector)) {
  if (detector_.is_empty()) refuse_frame("detector must be a detector, got none");
  check_can_detect(*detector_);
  policy_ = policy.value_or(detector_->options().alarms.policy);
  check_policy(detector_->options(), policy_);
}

void DetectorSession::check(const Frame& frame) const {
  if (!frame.cues.empty())
    refuse_frame("frame.cues must be empty, the session computes them, got " + std::to_string(frame.cues.size()));
  check_pose("lidar_to_ego", frame.lidar_to_ego);
  check_pose("ego_to_global", frame.ego_to_global);
  const auto time = time_of(frame);
  if (!time) refuse_frame("frame.timestamp must be given where no sensor delivers");
  if (tracker_.history().empty()) return;
  const std::int64_t before = tracker_.history().back().timestamp;
  if (*time <= before)
    refuse_frame("frame.timestamp must be above that of the frame before, " + std::to_string(before) +
                 " (reset() begins a new scene), got " + std::to_string(*time));
  if (frame.cameras.size() != cameras_.size())
    refuse_frame("frame.cameras must be the " + std::to_string(cameras_.size()) +
                 " of the frame before (one that delivers nothing has available = false, reset() begins a new scene), "
                 "got " +
                 std::to_string(frame.cameras.size()));
  for (std::size_t i = 0; i < cameras_.size(); ++i)
    if (frame.cameras[i].name != cameras_[i])
      refuse_frame("frame.cameras[" + std::to_string(i) + "] must be \"" + cameras_[i] +
                   "\" as in the frame before (reset() begins a new scene), got \"" + frame.cameras[i].name + "\"");
}

std::vector<Detection> DetectorSession::detect(const Frame& frame) {
  check_can_detect(*detector_);
  check(frame);
  auto sensor_frame = to_sensor_frame(frame, detector_->options());
  // Of all points, also those outside of the space, as in training and evaluation.
  auto signature = sensors::signature_of(sensor_frame);
  auto cues = tracker_.cues(signature);
  auto result = detect_sensor_frame(*detector_, std::move(sensor_frame), cues,
                                    {.policy = policy_, .earlier_agreement = earlier_agreement_});
  if (tracker_.history().empty()) {
    cameras_.clear();
    for (const auto& camera : frame.cameras) cameras_.push_back(camera.name);
  }
  tracker_.add(std::move(signature));
  cues_ = std::move(cues);
  agreement_ = {.frame = result.agreement,
                .smoothed = smoothed(earlier_agreement_, result.agreement),
                .cameras = std::move(result.camera_agreement)};
  earlier_agreement_.push_back(agreement_.frame);
  if (std::ssize(earlier_agreement_) >= detector_->options().alarms.smoothing)
    earlier_agreement_.erase(earlier_agreement_.begin());
  return std::move(result.found);
}

void DetectorSession::reset() {
  tracker_.reset();
  cues_.clear();
  earlier_agreement_.clear();
  agreement_ = {};
}

}  // namespace camber::detection
