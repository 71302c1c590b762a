#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "camber/config/field.h"

namespace camber::detection {

/// What a detector does with the alarms of its cues.
enum class TrustPolicy {
  kNone,          // nothing: trust 0, every sensor that delivers takes part
  kRule,          // trust 0; a sensor whose cue of age is above rule_age is taken out
  kVerifiedRule,  // the same with verified cues
  kBias,          // the router's trust, from the cues as they are
  kVerifiedBias,  // the same with verified cues
};

constexpr bool is_verified(TrustPolicy policy) {
  return policy == TrustPolicy::kVerifiedRule || policy == TrustPolicy::kVerifiedBias;
}
constexpr bool is_rule(TrustPolicy policy) {
  return policy == TrustPolicy::kRule || policy == TrustPolicy::kVerifiedRule;
}
constexpr bool is_bias(TrustPolicy policy) {
  return policy == TrustPolicy::kBias || policy == TrustPolicy::kVerifiedBias;
}

}  // namespace camber::detection

template <>
inline constexpr auto camber::config::enum_names<camber::detection::TrustPolicy> =
    std::array{std::pair{camber::detection::TrustPolicy::kNone, std::string_view("none")},
               std::pair{camber::detection::TrustPolicy::kRule, std::string_view("rule")},
               std::pair{camber::detection::TrustPolicy::kVerifiedRule, std::string_view("verified_rule")},
               std::pair{camber::detection::TrustPolicy::kBias, std::string_view("bias")},
               std::pair{camber::detection::TrustPolicy::kVerifiedBias, std::string_view("verified_bias")}};

namespace camber::detection {

/// Verified cues: an alarm (a cue of age above alarm_age, of a sensor that delivers) is kept only where the sensors
/// disagree. Where their agreement is known and at least the threshold, its age becomes 0:
///
///   age'_s = 0 if age_s > alarm_age and agreement >= threshold, else age_s
///
/// An agreement that is not known speaks against no alarm. `camber calibrate-agreement` finds the threshold on a
/// validation split and keeps it in the model's file.
struct AlarmOptions {
  TrustPolicy policy = TrustPolicy::kBias;
  double threshold = 0;
  double alarm_age = 0.5;
  double rule_age = 0.75;
  bool by_camera = false;
  std::int64_t smoothing = 3;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("policy", policy, "what is done with the cues' alarms: none, rule, verified_rule, bias or verified_bias");
    visitor("threshold", threshold, "verified: agreement from which on an alarm is dropped; 0: not calibrated",
            config::Range{-1, 1});
    visitor("alarm_age", alarm_age, "verified: cues of age above it are alarms", config::Range{0, 1});
    visitor("rule_age", rule_age, "rule: sensors whose cue of age is above it are taken out", config::Range{0, 1});
    visitor("by_camera", by_camera, "verified: a camera's alarm is held against its own agreement with the LiDAR");
    visitor("smoothing", smoothing, "frames of a session whose agreement is averaged", config::Range{1, 1000});
  }
};

struct DetectorBatch;
struct DetectorOptions;
struct SensorAgreement;

/// Refuses, with one sentence, a policy that such a detector cannot follow: a verified one without dense heads or
/// before its threshold was calibrated, verified_bias without a router.
void check_policy(const DetectorOptions& options, TrustPolicy policy);

/// The batch as a policy lets the queries see it: alarms verified, then, with a rule, sensors taken out. `agreement`
/// may be undefined where the policy verifies nothing.
DetectorBatch under_policy(DetectorBatch batch, TrustPolicy policy, const AlarmOptions& options,
                           const SensorAgreement& agreement);

/// What a policy made of a sensor's alarm in one frame.
enum class AlarmState : std::uint8_t {
  kNone,     // none was raised, or the sensor says that it delivers nothing
  kRaised,   // the policy looks no further
  kKept,     // verified: the sensors disagree, or nothing is known of them
  kDropped,  // verified: the sensors agree
};

struct SensorAlarm {
  double age = 0;  ///< as the cues said it
  bool available = true;
  AlarmState state = AlarmState::kNone;
  bool taken_out = false;  ///< by a rule
};

/// Of each frame the LiDAR and every camera: what under_policy does to them.
std::vector<std::vector<SensorAlarm>> alarms_of(const DetectorBatch& batch, TrustPolicy policy,
                                                const AlarmOptions& options, const SensorAgreement& agreement);

/// The batch with the sensors taken out whose cue of age is above the threshold. 0: as it is.
DetectorBatch without_old_sensors(DetectorBatch batch, double age);

}  // namespace camber::detection
