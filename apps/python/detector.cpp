#include "apps/python/detector.h"

#include <algorithm>
#include <array>
#include <utility>

#include "camber/config/options.h"
#include "camber/runs/detector_passes.h"

namespace camber::python {
namespace {

template <std::size_t kSize>
std::array<double, kSize> numbers_of(const torch::Tensor& matrix) {
  const auto flat = matrix.contiguous();
  std::array<double, kSize> numbers;
  std::copy_n(flat.const_data_ptr<double>(), kSize, numbers.begin());
  return numbers;
}

geometry::RigidTransform transform_of(const torch::Tensor& matrix) {
  const auto m = numbers_of<16>(matrix);
  return {.rotation = {m[0], m[1], m[2], m[4], m[5], m[6], m[8], m[9], m[10]}, .translation = {m[3], m[7], m[11]}};
}

// Python has checked types and shapes; this is what memory safety rests on.
void check_shape(const torch::Tensor& tensor, torch::Dtype type, at::IntArrayRef shape, const char* name) {
  TORCH_CHECK_VALUE(tensor.scalar_type() == type && tensor.sizes() == shape && tensor.device().is_cpu(), "[detect] ",
                    name, " must be ", type, " ", shape, ", got ", tensor.scalar_type(), " ", tensor.sizes());
}

sensors::ImageView view_of(const torch::Tensor& image, bool bgr) {
  return {.data = image.const_data_ptr<std::uint8_t>(),
          .width = image.size(1),
          .height = image.size(0),
          .order = bgr ? sensors::ChannelOrder::kBgr : sensors::ChannelOrder::kRgb};
}

Found found_of(const std::vector<detection::Detection>& detections) {
  const auto count = static_cast<std::int64_t>(detections.size());
  const auto sensors = count == 0 ? 0 : static_cast<std::int64_t>(detections[0].trust.size());
  const auto maps = count == 0 ? 0 : static_cast<std::int64_t>(detections[0].attention_mass.size());
  auto boxes = torch::empty({count, 7}, torch::kDouble), velocity = torch::empty({count, 2}, torch::kDouble);
  auto score = torch::empty({count}, torch::kDouble), label = torch::empty({count}, torch::kLong);
  auto query = torch::empty({count}, torch::kLong);
  auto trust = torch::empty({count, sensors}, torch::kDouble), mass = torch::empty({count, maps}, torch::kDouble);
  auto agreement = torch::empty({count}, torch::kDouble);
  for (std::int64_t i = 0; i < count; ++i) {
    const detection::Detection& found = detections[static_cast<std::size_t>(i)];
    const geometry::Box& box = found.box;
    const std::array<double, 7> code = {box.center[0], box.center[1], box.center[2], box.length,
                                        box.width,     box.height,    box.yaw};
    std::copy(code.begin(), code.end(), boxes.mutable_data_ptr<double>() + 7 * i);
    std::copy(found.velocity.begin(), found.velocity.end(), velocity.mutable_data_ptr<double>() + 2 * i);
    score.mutable_data_ptr<double>()[i] = found.score;
    label.mutable_data_ptr<std::int64_t>()[i] = found.label;
    query.mutable_data_ptr<std::int64_t>()[i] = found.query;
    agreement.mutable_data_ptr<double>()[i] = found.agreement;
    std::copy(found.trust.begin(), found.trust.end(), trust.mutable_data_ptr<double>() + sensors * i);
    std::copy(found.attention_mass.begin(), found.attention_mass.end(), mass.mutable_data_ptr<double>() + maps * i);
  }
  return {boxes, velocity, score, label, query, trust, mass, agreement};
}

}  // namespace

Frame::Frame(std::optional<torch::Tensor> points, std::int64_t intensity_index, double intensity_scale,
             std::int64_t time_lag_index, std::int64_t lidar_timestamp, std::optional<std::int64_t> timestamp,
             std::vector<torch::Tensor> images, bool bgr, const torch::Tensor& intrinsics,
             const torch::Tensor& lidar_to_camera, const std::vector<std::string>& names, const torch::Tensor& times,
             const torch::Tensor& available, const torch::Tensor& poses, const std::optional<torch::Tensor>& cues) {
  const auto cameras = static_cast<std::int64_t>(images.size());
  check_shape(intrinsics, torch::kDouble, {cameras, 3, 3}, "intrinsics");
  check_shape(lidar_to_camera, torch::kDouble, {cameras, 4, 4}, "lidar_to_camera");
  check_shape(times, torch::kLong, {cameras}, "camera_timestamps");
  check_shape(available, torch::kBool, {cameras}, "available");
  check_shape(poses, torch::kDouble, {2, 4, 4}, "poses");
  TORCH_CHECK_VALUE(names.size() == images.size(), "[detect] names must be ", cameras, " texts, got ", names.size());
  frame_.lidar_available = points.has_value();
  if (points) {
    TORCH_CHECK_VALUE(points->dim() == 2, "[detect] points must be [N, F], got ", points->sizes());
    check_shape(*points, torch::kFloat, points->sizes(), "points");
    kept_.push_back(points->contiguous());
    frame_.points = {.data = kept_.back().const_data_ptr<float>(),
                     .count = points->size(0),
                     .stride = points->size(1),
                     .intensity_index = intensity_index,
                     .intensity_scale = intensity_scale,
                     .time_lag_index = time_lag_index};
  }
  frame_.lidar_timestamp = lidar_timestamp;
  frame_.timestamp = timestamp;
  for (std::int64_t i = 0; i < cameras; ++i) {
    const auto index = static_cast<std::size_t>(i);
    detection::CameraInput camera{.name = names[index],
                                  .intrinsic = numbers_of<9>(intrinsics[i]),
                                  .lidar_to_camera = transform_of(lidar_to_camera[i]),
                                  .timestamp = times[i].item<std::int64_t>(),
                                  .available = available[i].item<bool>()};
    if (camera.available) {
      const torch::Tensor& image = images[index];
      TORCH_CHECK_VALUE(image.dim() == 3 && image.size(2) == 3, "[detect] images must be [H, W, 3], got ",
                        image.sizes());
      check_shape(image, torch::kByte, image.sizes(), "images");
      kept_.push_back(image.contiguous());
      camera.image = view_of(kept_.back(), bgr);
    }
    frame_.cameras.push_back(std::move(camera));
  }
  frame_.lidar_to_ego = transform_of(poses[0]);
  frame_.ego_to_global = transform_of(poses[1]);
  if (!cues) return;
  check_shape(*cues, torch::kDouble, {1 + cameras, 2}, "cues");
  for (std::int64_t i = 0; i <= cameras; ++i)
    frame_.cues.push_back(
        {.age = (*cues)[i][0].item<double>(),
         .level = (*cues)[i][1].item<double>(),
         .available = i == 0 ? frame_.lidar_available : frame_.cameras[static_cast<std::size_t>(i - 1)].available});
}

std::string Detector::options() const {
  return config::to_toml(detector_->options());
}

std::string Detector::policy() const {
  return config::choice_name(detector_->options().alarms.policy);
}

Session::Session(const c10::intrusive_ptr<Detector>& detector, const std::string& policy)
    : session_(detector->model(), runs::trust_policy(policy, "[DetectorSession] policy")) {}

std::string Session::policy() const {
  return config::choice_name(session_.policy());
}

torch::Tensor Session::agreement() const {
  const std::lock_guard lock(mutex_);
  const detection::SessionAgreement& known = session_.agreement();
  std::vector<double> numbers{known.frame, known.smoothed};
  numbers.insert(numbers.end(), known.cameras.begin(), known.cameras.end());
  return torch::tensor(numbers, torch::kDouble);
}

Found Detector::detect(const c10::intrusive_ptr<Frame>& frame) const {
  return told([&] { return found_of(detector_.detect(frame->view())); });
}

Found Session::detect(const c10::intrusive_ptr<Frame>& frame) {
  const std::lock_guard lock(mutex_);
  return told([&] { return found_of(session_.detect(frame->view())); });
}

void Session::reset() {
  const std::lock_guard lock(mutex_);
  session_.reset();
}

torch::Tensor Session::cues() const {
  const std::lock_guard lock(mutex_);
  const auto& known = session_.cues();
  auto cues = torch::empty({static_cast<std::int64_t>(known.size()), 4}, torch::kDouble);
  for (std::size_t i = 0; i < known.size(); ++i) {
    const std::array<double, 4> row = {known[i].age, known[i].change, known[i].level, known[i].available ? 1.0 : 0.0};
    std::copy(row.begin(), row.end(), cues.mutable_data_ptr<double>() + 4 * i);
  }
  return cues;
}

}  // namespace camber::python
