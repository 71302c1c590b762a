#include "camber/detection/alarms.h"

#include <stdexcept>
#include <string>

#include "camber/config/options.h"
#include "camber/detection/agreement.h"
#include "camber/detection/batch.h"

namespace camber::detection {
namespace {

// [B, M]: whether the sensors agree so far that an alarm of this one is dropped. Comparisons with NaN are false.
torch::Tensor speaks_against_alarms(const DetectorBatch& batch, const AlarmOptions& options,
                                    const SensorAgreement& agreement) {
  const auto frame = agreement.frame.cpu().unsqueeze(1);
  auto by_map = frame.expand({batch.size, batch.available.size(1)});
  if (options.by_camera) {
    const auto cameras = agreement.cameras.cpu();
    by_map = torch::cat({frame, torch::where(cameras.isnan(), frame, cameras)}, 1);
  }
  return by_map >= options.threshold;
}

}  // namespace

DetectorBatch without_old_sensors(DetectorBatch batch, double age) {
  if (age > 0) batch.available = batch.available & (batch.age <= age);
  return batch;
}

void check_policy(const DetectorOptions& options, TrustPolicy policy) {
  if (!is_verified(policy)) return;
  const auto refuse_policy = [policy](const std::string& sentence) {
    throw std::invalid_argument("[Detector] alarms.policy must " + sentence + ", got " + config::choice_name(policy));
  };
  if (!options.head.dense_auxiliary)
    refuse_policy("be none, rule or bias without head.dense_auxiliary, whose maps the sensors' agreement comes from");
  if (options.alarms.threshold == 0)
    refuse_policy("be none, rule or bias before alarms.threshold is known (camber calibrate-agreement finds it)");
  if (policy == TrustPolicy::kVerifiedBias && !options.has_router())
    refuse_policy("be none, rule or verified_rule for a detector without a router");
}

std::vector<std::vector<SensorAlarm>> alarms_of(const DetectorBatch& batch, TrustPolicy policy,
                                                const AlarmOptions& options, const SensorAgreement& agreement) {
  const auto raised = (batch.available & (batch.age > options.alarm_age)).contiguous();
  const DetectorBatch seen = under_policy(batch, policy, options, agreement);
  const auto age = batch.age.to(torch::kDouble).contiguous(), left = seen.age.to(torch::kDouble).contiguous();
  const auto available = batch.available.contiguous(), takes_part = seen.available.contiguous();
  std::vector<std::vector<SensorAlarm>> frames(static_cast<std::size_t>(batch.size));
  const std::int64_t sensors = available.size(1);
  for (std::int64_t i = 0; i < available.numel(); ++i) {
    SensorAlarm alarm{.age = age.const_data_ptr<double>()[i], .available = available.const_data_ptr<bool>()[i]};
    if (raised.const_data_ptr<bool>()[i]) {
      const bool dropped = left.const_data_ptr<double>()[i] != alarm.age;
      alarm.state = !is_verified(policy) ? AlarmState::kRaised : dropped ? AlarmState::kDropped : AlarmState::kKept;
    }
    alarm.taken_out = alarm.available && !takes_part.const_data_ptr<bool>()[i];
    frames[static_cast<std::size_t>(i / sensors)].push_back(alarm);
  }
  return frames;
}

DetectorBatch under_policy(DetectorBatch batch, TrustPolicy policy, const AlarmOptions& options,
                           const SensorAgreement& agreement) {
  if (is_verified(policy)) {
    TORCH_CHECK_VALUE(agreement.defined(), "[Detector] agreement must be given for a verified policy, got none");
    const auto dropped =
        batch.available & (batch.age > options.alarm_age) & speaks_against_alarms(batch, options, agreement);
    batch.age = torch::where(dropped, torch::zeros_like(batch.age), batch.age);
  }
  return is_rule(policy) ? without_old_sensors(std::move(batch), options.rule_age) : batch;
}

}  // namespace camber::detection
