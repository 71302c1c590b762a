#include "camber/sensors/cues.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <unordered_map>

namespace camber::sensors {
namespace {

constexpr std::int64_t kImageColumns = 20, kImageRows = 8, kLattice = 4;
constexpr std::int64_t kGridSide = 24;
constexpr double kGridCell = 2;       // metres
constexpr double kAboveGround = 0.3;  // metres; lower points are the ground, which looks alike everywhere
constexpr double kLatency = 0.1;      // seconds within which every reading is fresh
constexpr double kRestingMotion = 0.5;
constexpr double kTurnWeight = 10;  // metres a radian
constexpr double kStillRatio = 0.5;

SensorSignature signature_of(const Image& image) {
  SensorSignature signature;
  if (image.pixels.empty()) return signature;
  signature.cells.reserve(static_cast<std::size_t>(kImageColumns * kImageRows));
  double total = 0;
  for (std::int64_t row = 0; row < kImageRows; ++row) {
    for (std::int64_t column = 0; column < kImageColumns; ++column) {
      // A fixed lattice inside the cell: the cost does not grow with the image.
      std::uint32_t sum = 0;
      for (std::int64_t j = 0; j < kLattice; ++j) {
        const std::uint8_t* line = image.row((row * kLattice + j) * image.height / (kImageRows * kLattice));
        for (std::int64_t i = 0; i < kLattice; ++i) {
          const std::int64_t u = (column * kLattice + i) * image.width / (kImageColumns * kLattice);
          sum += 77U * line[3 * u] + 150U * line[3 * u + 1] + 29U * line[3 * u + 2];
        }
      }
      signature.cells.push_back(static_cast<std::uint16_t>(sum / (kLattice * kLattice)));
      total += signature.cells.back();
    }
  }
  signature.level = total / 256 / static_cast<double>(signature.cells.size());
  return signature;
}

SensorSignature signature_of(const std::vector<LidarPoint>& points, const geometry::RigidTransform& sensor_to_ego) {
  SensorSignature signature;
  std::vector<std::uint32_t> count(static_cast<std::size_t>(kGridSide * kGridSide));
  const geometry::Matrix3& r = sensor_to_ego.rotation;
  double total = 0;
  for (const LidarPoint& p : points) {
    if (p.time_lag > kKeySweepLag) continue;
    ++total;
    if (r[6] * p.x + r[7] * p.y + r[8] * p.z + sensor_to_ego.translation[2] < kAboveGround) continue;
    const auto column = static_cast<std::int64_t>(std::floor(p.x / kGridCell)) + kGridSide / 2;
    const auto row = static_cast<std::int64_t>(std::floor(p.y / kGridCell)) + kGridSide / 2;
    if (column >= 0 && column < kGridSide && row >= 0 && row < kGridSide)
      ++count[static_cast<std::size_t>(row * kGridSide + column)];
  }
  signature.cells.reserve(count.size());
  for (const std::uint32_t n : count)
    signature.cells.push_back(static_cast<std::uint16_t>(std::min(65535.0, 4096 * std::log1p(n))));
  signature.level = total;
  return signature;
}

double change_between(const SensorSignature& a, const SensorSignature& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.cells.size(); ++i)
    sum += std::abs(static_cast<int>(a.cells[i]) - static_cast<int>(b.cells[i]));
  return a.cells.empty() ? 0 : sum / static_cast<double>(a.cells.size());
}

double motion_between(const FrameSignature& a, const FrameSignature& b) {
  const auto& p = a.ego_to_global.translation;
  const auto& q = b.ego_to_global.translation;
  const auto& r = a.ego_to_global.rotation;
  const auto& s = b.ego_to_global.rotation;
  const double turn = std::remainder(std::atan2(r[3], r[0]) - std::atan2(s[3], s[0]), 2 * 3.14159265358979323846);
  return std::hypot(p[0] - q[0], p[1] - q[1]) + kTurnWeight * std::abs(turn);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

bool delivered(const FrameSignature& frame, std::size_t sensor) {
  return sensor < frame.sensors.size() && frame.sensors[sensor].available;
}

double stamp_age(std::span<const FrameSignature> history, const FrameSignature& now, std::size_t sensor) {
  const double latency = 1e-6 * std::abs(static_cast<double>(now.timestamp - now.sensors[sensor].timestamp));
  const double interval = history.empty() ? 0.5 : 1e-6 * static_cast<double>(now.timestamp - history.back().timestamp);
  return std::clamp((latency - kLatency) / std::max(interval - kLatency, kLatency), 0.0, 1.0);
}

// Fills change and returns how still the sensor is: 0 as lively as expected, 1 not changed at all.
double stillness(std::span<const FrameSignature> history, const FrameSignature& now, std::size_t sensor,
                 SensorCues& cues) {
  if (history.empty() || !delivered(history.back(), sensor)) return 0.5;
  const double change = change_between(now.sensors[sensor], history.back().sensors[sensor]);
  const bool empty = now.sensors[sensor].level == 0 && history.back().sensors[sensor].level == 0;
  std::vector<double> past;
  for (std::size_t i = 1; i < history.size(); ++i) {
    if (!delivered(history[i], sensor) || !delivered(history[i - 1], sensor)) continue;
    const double earlier = change_between(history[i].sensors[sensor], history[i - 1].sensors[sensor]);
    past.push_back(earlier / (motion_between(history[i], history[i - 1]) + kRestingMotion));
  }
  const double usual = past.empty() ? 0 : median(past);
  if (usual > 0) cues.change = change / (usual * (motion_between(now, history.back()) + kRestingMotion));
  if (change == 0 && !empty) {
    cues.change = 0;
    return 1;
  }
  if (usual <= 0) return 0;
  return std::clamp(1 - cues.change / kStillRatio, 0.0, 1.0);
}

double level_of(std::span<const FrameSignature> history, const FrameSignature& now, std::size_t sensor) {
  constexpr double kSmall = 1;  // one step of brightness, one point
  if (now.sensors[sensor].level < kSmall) return -1;
  double sum = 0, count = 0;
  for (const FrameSignature& frame : history) {
    if (!delivered(frame, sensor)) continue;
    sum += frame.sensors[sensor].level;
    ++count;
  }
  if (count == 0) return 0;
  const double ratio = (now.sensors[sensor].level + kSmall) / (sum / count + kSmall);
  return std::clamp(std::log(ratio) / std::log(4.0), -1.0, 1.0);
}

}  // namespace

FrameSignature signature_of(const SensorFrame& sensor_frame) {
  const KeyFrame& frame = sensor_frame.frame;
  FrameSignature result{.timestamp = frame.timestamp, .ego_to_global = frame.reference.ego_to_global};
  result.sensors.push_back(signature_of(frame.points, frame.reference.sensor_to_ego));
  for (const CameraView& view : frame.cameras) result.sensors.push_back(signature_of(view.image));
  for (std::size_t i = 0; i < result.sensors.size(); ++i) {
    result.sensors[i].available = sensor_frame.sensors[i].available;
    result.sensors[i].timestamp = sensor_frame.sensors[i].timestamp;
  }
  return result;
}

std::vector<SensorCues> cues_of(std::span<const FrameSignature> history, const FrameSignature& now) {
  if (history.size() > static_cast<std::size_t>(kCueHistory))
    history = history.last(static_cast<std::size_t>(kCueHistory));
  std::vector<SensorCues> result(now.sensors.size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    SensorCues& cues = result[i];
    cues.available = now.sensors[i].available;
    if (!cues.available) {
      cues = {.age = 1, .change = 0, .level = -1, .available = false};
      continue;
    }
    const double still = stillness(history, now, i, cues);
    cues.age = std::max(stamp_age(history, now, i), still);
    cues.level = level_of(history, now, i);
  }
  return result;
}

void CueTracker::add(FrameSignature now) {
  history_.push_back(std::move(now));
  if (history_.size() > static_cast<std::size_t>(kCueHistory)) history_.erase(history_.begin());
}

std::vector<SensorCues> CueTracker::next(const SensorFrame& sensor_frame) {
  FrameSignature now = signature_of(sensor_frame);
  std::vector<SensorCues> result = cues(now);
  add(std::move(now));
  return result;
}

struct CueMaker::Store {
  std::mutex mutex;
  std::unordered_map<nuscenes::Index, FrameSignature> signatures;
};

CueMaker::CueMaker(const nuscenes::Dataset& dataset, FrameOptions options)
    : dataset_(dataset), options_(std::move(options)), store_(std::make_unique<Store>()) {
  options_.sweeps.previous = 0;  // the key frame's sweep is all that signatures look at
}
CueMaker::~CueMaker() = default;

FrameSignature CueMaker::clean(nuscenes::Index sample) {
  {
    const std::lock_guard lock(store_->mutex);
    const auto found = store_->signatures.find(sample);
    if (found != store_->signatures.end()) return found->second;
  }
  FrameSignature signature = signature_of(clean_sensor_frame(load_key_frame(dataset_, sample, options_)));
  const std::lock_guard lock(store_->mutex);
  return store_->signatures.emplace(sample, std::move(signature)).first->second;
}

std::vector<SensorCues> CueMaker::cues(const SensorFrame& sensor_frame) {
  const nuscenes::Tables& tables = dataset_.tables();
  const FrameSignature now = signature_of(sensor_frame);
  std::vector<FrameSignature> history;
  nuscenes::Index sample = tables.sample[sensor_frame.frame.sample].previous;
  for (std::int64_t back = 1; back <= kCueHistory && sample != nuscenes::kNone;
       ++back, sample = tables.sample[sample].previous) {
    FrameSignature then = clean(sample);
    for (std::size_t i = 0; i < then.sensors.size() && i < now.sensors.size(); ++i)
      if (sensor_frame.sensors[i].source != nuscenes::kNone && back <= sensor_frame.sensors[i].held)
        then.sensors[i] = now.sensors[i];
    history.insert(history.begin(), std::move(then));
  }
  return cues_of(history, now);
}

}  // namespace camber::sensors
