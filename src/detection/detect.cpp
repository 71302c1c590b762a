#include <mutex>
#include <utility>

#include "camber/detection/frame.h"
#include "detection/inference.h"
#include "detection/position_cache.h"

namespace camber::detection {
namespace {

// Everything that embeddings of keys depend on beside the weights.
std::string calibration_key(const nn::SensorScene& scene) {
  std::string key;
  const auto add = [&](const auto& value) { key.append(reinterpret_cast<const char*>(&value), sizeof(value)); };
  for (const auto& camera : scene.cameras[0]) {
    for (const std::int64_t size : {camera.width, camera.height, camera.columns, camera.rows}) add(size);
    add(camera.lidar_to_image);
  }
  return key;
}

}  // namespace

torch::Tensor PositionCache::get(const nn::SensorScene& scene, torch::Device device,
                                 const std::function<torch::Tensor()>& compute) {
  const auto key = device.str() + calibration_key(scene);
  {
    const std::lock_guard lock(mutex_);
    const auto at = known_.find(key);
    if (at != known_.end()) return at->second;
  }
  const auto computed = compute();
  const std::lock_guard lock(mutex_);
  // A car that re-calibrates at every frame must not fill the memory.
  if (known_.size() >= kCalibrations) known_.clear();
  return known_.emplace(key, computed).first->second;
}

void PositionCache::clear() {
  const std::lock_guard lock(mutex_);
  known_.clear();
}

void check_can_detect(const DetectorImpl& model) {
  TORCH_CHECK_VALUE(!model.is_training(), "[detect] the detector must be in evaluation mode: call ->eval()");
  TORCH_CHECK_VALUE(model.options().encoder.kind != EncoderKind::kFeatures,
                    "[detect] the detector must have encoders of its own: give maps of other encoders to ->forward");
}

FoundInFrame detect_sensor_frame(DetectorImpl& model, sensors::SensorFrame sensor_frame,
                                 std::vector<sensors::SensorCues> cues, ForwardOptions options) {
  const torch::NoGradGuard guard;
  sensors::keep_range(sensor_frame.frame.points, model.options().frame_options().range);
  const auto batch = collate(std::move(sensor_frame), std::move(cues), model.options());
  const auto positions = model.kept_key_positions(batch.scene);
  options.denoising = false;
  options.attention_mass = true;
  const DetectorOutput output = model.run(batch, options, positions);
  FoundInFrame result{.found = std::move(model.decode(output, batch)[0])};
  if (!output.agreement.defined()) return result;
  result.agreement = output.agreement.frame.item<double>();
  const auto cameras = output.agreement.cameras.cpu().contiguous();
  result.camera_agreement.assign(cameras.const_data_ptr<double>(), cameras.const_data_ptr<double>() + cameras.numel());
  return result;
}

std::vector<Detection> Detector::detect(const Frame& frame) const {
  check_can_detect(*ptr());
  return detect_sensor_frame(*ptr(), to_sensor_frame(frame, ptr()->options()), frame.cues).found;
}

}  // namespace camber::detection
