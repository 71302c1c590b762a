#include "camber/data/delivery.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "data/fault_effects.h"

namespace camber::data {
namespace {

// What one application of a fault needs to know.
struct Occasion {
  const Dataset& dataset;
  const FrameOptions& options;
  std::span<const Index> pool;
  random::Stream scene;  // draws that stay the same over a scene
  random::Stream frame;
};

struct Repeated {
  Index sample = kNone;
  std::int64_t held = 0;
  bool other_scene = false;
};

Index draw_from_other_scene(const Occasion& occasion, Index sample) {
  const Tables& tables = occasion.dataset.tables();
  std::vector<Index> others;
  for (const Index candidate : occasion.pool)
    if (tables.sample[candidate].scene != tables.sample[sample].scene) others.push_back(candidate);
  if (others.empty())
    throw std::invalid_argument(
        "[fault] a frame to repeat must exist: the scene has no earlier one and the split no "
        "other scene");
  return others[occasion.frame.at("other scene").integer(others.size())];
}

Repeated frame_to_repeat(const Occasion& occasion, const Fault& fault, Index sample) {
  const Tables& tables = occasion.dataset.tables();
  const auto ago = static_cast<std::int64_t>(fault.value());
  Repeated repeated{.sample = sample};
  while (repeated.held < ago && tables.sample[repeated.sample].previous != kNone) {
    repeated.sample = tables.sample[repeated.sample].previous;
    ++repeated.held;
  }
  const bool drawn = occasion.frame.at("source").uniform() < 0.5;
  repeated.other_scene =
      repeated.held == 0 || fault.source == FaultSource::kOtherScene || (fault.source == FaultSource::kMixed && drawn);
  if (repeated.other_scene) repeated.sample = draw_from_other_scene(occasion, sample);
  return repeated;
}

void state_fault(SensorState& state, double quality) {
  state.quality = std::min(state.quality, quality);
}

double quality_of(const Fault& fault) {
  return fault_row(fault.kind).quality[static_cast<std::size_t>(fault.severity - 1)];
}

void repeat_cameras(Delivery& delivery, const Occasion& occasion, const Fault& fault) {
  const Repeated repeated = frame_to_repeat(occasion, fault, delivery.frame.sample);
  FrameOptions options = occasion.options;
  options.load_points = false;
  Frame old = load_frame(occasion.dataset, repeated.sample, options);
  for (std::size_t i = 0; i < delivery.frame.cameras.size(); ++i) {
    CameraView& view = delivery.frame.cameras[i];
    CameraView& other = old.cameras[i];
    SensorState& state = delivery.sensors[i + 1];
    if (!view.available || !other.available) continue;
    view.picture = std::move(other.picture);
    if (!fault.lying) view.timestamp = state.timestamp = other.timestamp;
    state.source = repeated.sample;
    state.held = repeated.held;
    state_fault(state, quality_of(fault));
  }
}

void repeat_lidar(Delivery& delivery, const Occasion& occasion, const Fault& fault) {
  if (!delivery.frame.lidar_available) return;
  const Repeated repeated = frame_to_repeat(occasion, fault, delivery.frame.sample);
  FrameOptions options = occasion.options;
  options.load_pictures = false;
  Frame old = load_frame(occasion.dataset, repeated.sample, options);
  delivery.frame.points = std::move(old.points);
  SensorState& state = delivery.sensors[0];
  if (!fault.lying) state.timestamp = old.timestamp;
  state.source = repeated.sample;
  state.held = repeated.held;
  state_fault(state, repeated.other_scene ? 0 : quality_of(fault));
}

void degrade_cameras(Delivery& delivery, const Occasion& occasion, const Fault& fault) {
  const std::vector<bool> hit = cameras_hit(fault, delivery.frame.cameras.size(), occasion.scene);
  for (std::size_t i = 0; i < delivery.frame.cameras.size(); ++i) {
    CameraView& view = delivery.frame.cameras[i];
    if (!hit[i] || !view.available) continue;
    state_fault(delivery.sensors[i + 1], quality_of(fault));
    if (fault_row(fault.kind).known) {
      view.available = delivery.sensors[i + 1].available = false;
      view.picture = {};
    } else if (fault.kind == FaultKind::kCalibration) {
      // The picture shows what lies to the side of where the matrix looks: turn the world under it.
      const double turn = calibration_error(fault, i, occasion.scene), c = std::cos(turn), s = std::sin(turn);
      view.camera.lidar_to_image =
          geometry::multiply(view.camera.lidar_to_image, {c, -s, 0, 0, s, c, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1});
    } else {
      degrade_picture(view.picture, fault, occasion.frame.at("camera").at(i));
    }
  }
}

void degrade_lidar(Delivery& delivery, const Occasion& occasion, const Fault& fault) {
  Frame& frame = delivery.frame;
  if (!frame.lidar_available) return;
  state_fault(delivery.sensors[0], quality_of(fault));
  if (fault_row(fault.kind).known) {
    frame.lidar_available = delivery.sensors[0].available = false;
    frame.points.clear();
    return;
  }
  std::vector<geometry::Box> boxes;
  for (const FrameObject& object : frame.objects) boxes.push_back(object.box);
  const CloudSurroundings surroundings{.objects = boxes,
                                       .ahead = frame.reference.sensor_to_ego.inverse().rotate({1, 0, 0})};
  degrade_points(frame.points, fault, surroundings, occasion.scene, occasion.frame);
  keep_range(frame.points, occasion.options.range);
}

}  // namespace

Delivery clean_delivery(Frame frame) {
  Delivery delivery{.frame = std::move(frame)};
  delivery.sensors.push_back({.available = delivery.frame.lidar_available, .timestamp = delivery.frame.timestamp});
  for (const CameraView& view : delivery.frame.cameras)
    delivery.sensors.push_back({.available = view.available, .timestamp = view.timestamp});
  return delivery;
}

Delivery load_delivery(const Dataset& dataset, Index sample, const FrameOptions& options, std::span<const Fault> faults,
                       std::span<const Index> pool, const random::Stream& stream) {
  Delivery delivery = clean_delivery(load_frame(dataset, sample, options));
  const Tables& tables = dataset.tables();
  for (std::size_t i = 0; i < faults.size(); ++i) {
    const Fault& fault = faults[i];
    const random::Stream own = stream.at(fault_row(fault.kind).name).at(i);
    const Occasion occasion{.dataset = dataset,
                            .options = options,
                            .pool = pool,
                            .scene = own.at(tables.scene[tables.sample[sample].scene].token),
                            .frame = own.at(tables.sample[sample].token)};
    if (fault.repeats()) {
      fault.is_lidar() ? repeat_lidar(delivery, occasion, fault) : repeat_cameras(delivery, occasion, fault);
    } else {
      fault.is_lidar() ? degrade_lidar(delivery, occasion, fault) : degrade_cameras(delivery, occasion, fault);
    }
    delivery.faults.push_back(fault);
  }
  return delivery;
}

std::vector<TrustLabel> trust_labels(const Delivery& delivery) {
  const Frame& frame = delivery.frame;
  std::vector<TrustLabel> labels;
  for (const FrameObject& object : frame.objects) {
    const auto points = std::count_if(frame.points.begin(), frame.points.end(), [&object](const LidarPoint& p) {
      return p.time_lag <= kKeySweepLag && object.box.contains({p.x, p.y, p.z});
    });
    const double seen =
        frame.lidar_available ? std::min(1.0, std::log1p(static_cast<double>(points)) / std::log(21.0)) : 0;
    double quality = 0;
    for (std::size_t i = 0; i < frame.cameras.size(); ++i)
      if (frame.cameras[i].available && frame.cameras[i].camera.cell_at(object.box.center))
        quality = std::max(quality, delivery.sensors[i + 1].quality);
    labels.push_back({.lidar = 2 * seen * delivery.sensors[0].quality - 1,
                      .camera = 2 * object.visible_share.value_or(0) * quality - 1});
  }
  return labels;
}

}  // namespace camber::data
