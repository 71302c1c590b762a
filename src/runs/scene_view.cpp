#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <stdexcept>

#include <camber/config/options.h>
#include <camber/detection/cmt_head.h>
#include <camber/drawing/jpeg.h>
#include <camber/eval/detection_box.h>
#include <camber/runs/detector_image.h>
#include <camber/runs/scene_view.h>

namespace camber::runs {
namespace {

using report::SceneObject;

std::string hex_colour(drawing::Colour colour) {
  char text[8];
  std::snprintf(text, sizeof text, "#%02x%02x%02x", colour.red, colour.green, colour.blue);
  return text;
}

// A box of the LiDAR's frame in the ego frame.
SceneObject placed(const geometry::Box& box, const geometry::RigidTransform& to_ego) {
  const geometry::Vector3 ahead = to_ego.rotate({std::cos(box.yaw), std::sin(box.yaw), 0});
  return {.center = to_ego.apply(box.center),
          .size = {box.length, box.width, box.height},
          .yaw = std::atan2(ahead[1], ahead[0])};
}

SceneObject true_object(const nuscenes::Dataset& dataset, const sensors::FrameObject& object,
                        const geometry::RigidTransform& to_ego) {
  SceneObject result = placed(object.box, to_ego);
  const auto known = eval::class_of_category(object.category);
  result.name = known ? std::string(eval::name_of(*known)) : std::string(object.category);
  result.colour = hex_colour(sensors::category_colour(object.category));
  result.object = dataset.tables().sample_annotation[object.annotation].instance;
  result.points = object.lidar_points;
  if (const double speed = std::hypot(object.velocity[0], object.velocity[1]); std::isfinite(speed))
    result.speed = speed;
  return result;
}

std::optional<double> if_known(double agreement) {
  return std::isnan(agreement) ? std::nullopt : std::optional(agreement);
}

report::SceneAlarm shown_alarm(const detection::SensorAlarm& alarm) {
  using detection::AlarmState;
  report::SceneAlarm shown{.age = alarm.age, .taken_out = alarm.taken_out};
  if (!alarm.available)
    shown.state = "off";
  else if (alarm.state != AlarmState::kNone)
    shown.state = alarm.state == AlarmState::kKept      ? "kept"
                  : alarm.state == AlarmState::kDropped ? "dropped"
                                                        : "raised";
  return shown;
}

// What the detector made of a frame, without what the frame shows.
report::SceneCondition seen_in(const DetectedFrame& frame, std::vector<SceneObject> objects) {
  report::SceneCondition seen{.found = std::move(objects), .agreement = if_known(frame.agreement)};
  for (const double camera : frame.camera_agreement) seen.camera_agreement.push_back(if_known(camera));
  for (const detection::SensorAlarm& alarm : frame.alarms) seen.alarms.push_back(shown_alarm(alarm));
  return seen;
}

// The cells round a query that its bias is added to: at its reference point, or at its box where windows follow it.
class WindowFinder {
 public:
  WindowFinder(detection::Detector detector)
      : options_(detector->options()),
        references_(detector->head()->references().detach().to(torch::kCPU, torch::kFloat).contiguous()) {}

  bool any() const { return options_.router.mode != nn::RouterMode::kOff && options_.bias.windows; }

  report::SceneWindow window_of(const detection::Detection& found, const sensors::KeyFrame& network) const {
    geometry::Vector3 at = found.box.center;
    if (options_.bias.centre == nn::WindowCentre::kInitial)
      for (std::int64_t axis = 0; axis < 3; ++axis)
        at[static_cast<std::size_t>(axis)] = references_.const_data_ptr<float>()[3 * found.query + axis];
    report::SceneWindow window{.bird = in_grid(at, network.reference.sensor_to_ego)};
    for (const sensors::CameraView& view : network.cameras) window.cameras.push_back(in_camera(at, view));
    return window;
  }

 private:
  std::vector<std::array<double, 2>> in_grid(const geometry::Vector3& at,
                                             const geometry::RigidTransform& to_ego) const {
    const geometry::BevGrid grid = options_.space.grid();
    const auto cell = grid.cell_at(at[0], at[1]);
    if (!cell) return {};
    const std::int64_t half = options_.bias.bev_window / 2;
    const double left =
        grid.x_min() + grid.cell() * static_cast<double>(std::max<std::int64_t>(0, cell->column - half));
    const double right =
        grid.x_min() + grid.cell() * static_cast<double>(std::min(grid.columns(), cell->column + half + 1));
    const double low = grid.y_min() + grid.cell() * static_cast<double>(std::max<std::int64_t>(0, cell->row - half));
    const double high = grid.y_min() + grid.cell() * static_cast<double>(std::min(grid.rows(), cell->row + half + 1));
    std::vector<std::array<double, 2>> corners;
    for (const auto& [x, y] : {std::pair{left, low}, {right, low}, {right, high}, {left, high}}) {
      const geometry::Vector3 ego = to_ego.apply({x, y, 0});
      corners.push_back({ego[0], ego[1]});
    }
    return corners;
  }

  // Cells are of the network's image, which is a part of the camera's own.
  std::optional<std::array<double, 4>> in_camera(const geometry::Vector3& at, const sensors::CameraView& view) const {
    const auto cell = view.camera.cell_at(at);
    if (!view.available || !cell) return std::nullopt;
    const std::int64_t half = options_.bias.camera_window / 2;
    const auto own = [&view](std::int64_t count, double stride, double crop) {
      return (static_cast<double>(count) * stride + crop) / view.transform.resize;
    };
    const double width = own_width(view), height = own_height(view);
    const auto share = [](double value, double side) { return std::clamp(value / side, 0.0, 1.0); };
    const geometry::Camera& camera = view.camera;
    return std::array<double, 4>{
        share(own(std::max<std::int64_t>(0, cell->column - half), camera.stride_x(), view.transform.crop_x), width),
        share(own(std::max<std::int64_t>(0, cell->row - half), camera.stride_y(), view.transform.crop_y), height),
        share(own(std::min(camera.columns, cell->column + half + 1), camera.stride_x(), view.transform.crop_x), width),
        share(own(std::min(camera.rows, cell->row + half + 1), camera.stride_y(), view.transform.crop_y), height)};
  }
  static double own_width(const sensors::CameraView& view) {
    return (static_cast<double>(view.camera.width) + 2 * view.transform.crop_x) / view.transform.resize;
  }
  static double own_height(const sensors::CameraView& view) {
    return (static_cast<double>(view.camera.height) + view.transform.crop_y) / view.transform.resize;
  }

  const detection::DetectorOptions& options_;
  torch::Tensor references_;
};

// Images and clouds that several frames share (frozen cameras) stand once in the page.
class SceneBuilder {
 public:
  SceneBuilder(detection::Detector detector, const DetectionRequest& request, const SceneViewOptions& options)
      : detector_(std::move(detector)), request_(request), options_(options) {
    conditions_.emplace_back();
    if (has_second()) conditions_.push_back(options.faults);
    found_.resize(conditions_.size());
    if (detector_) camera_order_ = detector_->options().frame_options().camera_order;
  }

  report::ScenePage build() {
    if (detector_) find();
    std::int64_t width = 640;
    report::ScenePage page;
    for (;;) {
      page = at_width(width);
      const auto bytes = static_cast<double>(bytes_of(page));
      if (bytes <= static_cast<double>(options_.max_bytes) || width <= kSmallestImage) return page;
      // Bytes grow a little slower than pixels do.
      const double shrink = std::sqrt(static_cast<double>(options_.max_bytes) / bytes) * 0.95;
      width = std::max(kSmallestImage, static_cast<std::int64_t>(static_cast<double>(width) * shrink));
    }
  }

 private:
  static constexpr std::int64_t kSmallestImage = 120;
  static constexpr int kQuality = 72;

  bool has_second() const { return !options_.faults.empty() || options_.cue_errors.any(); }
  void find();
  std::vector<SceneObject> objects_of(const DetectedFrame& frame, const WindowFinder& windows) const;
  report::ScenePage at_width(std::int64_t width);
  report::SceneCondition condition_of(report::ScenePage& page, const sensors::KeyFrame& frame, std::int64_t width);
  std::int64_t add_image(report::ScenePage& page, const sensors::Image& image, std::int64_t width);
  std::int64_t add_points(report::ScenePage& page, const sensors::KeyFrame& frame);
  double range() const;

  static std::int64_t bytes_of(const report::ScenePage& page) {
    std::size_t bytes = 0;
    for (const std::string& image : page.images) bytes += image.size();
    for (const auto& cloud : page.points) bytes += cloud.size() * sizeof(std::int16_t);
    return static_cast<std::int64_t>(bytes * 4 / 3);  // as text
  }

  detection::Detector detector_;
  const DetectionRequest& request_;
  const SceneViewOptions& options_;
  std::vector<Condition> conditions_;
  std::vector<std::string> camera_order_;  // as the detector has them; none: the data set's
  std::vector<std::map<nuscenes::Index, report::SceneCondition>> found_;  // by condition and sample
  std::map<std::string, std::int64_t> image_numbers_;
  std::map<std::vector<std::int16_t>, std::int64_t> cloud_numbers_;
};

void SceneBuilder::find() {
  const WindowFinder windows(detector_);
  DetectionRequest request = request_;
  request.attention_mass = true;
  request.alarms = true;
  request.progress = {};
  for (std::size_t condition = 0; condition < conditions_.size(); ++condition) {
    request.cue_errors = condition == 0 ? sensors::CueErrorOptions{} : options_.cue_errors;
    run_passes(detector_, request, {{.condition = conditions_[condition]}}, {.frame = [&](DetectedFrame&& frame) {
                 found_[condition][frame.origin.sample] = seen_in(frame, objects_of(frame, windows));
               }});
  }
}

std::vector<SceneObject> SceneBuilder::objects_of(const DetectedFrame& frame, const WindowFinder& windows) const {
  const detection::DetectorOptions& detector = detector_->options();
  std::vector<SceneObject> objects;
  for (const detection::Detection& found : frame.found) {
    if (found.score < options_.min_score) continue;
    SceneObject object = placed(found.box, frame.origin.reference.sensor_to_ego);
    object.name = detector.classes[static_cast<std::size_t>(found.label)];
    object.colour = hex_colour(sensors::category_colour(object.name));
    object.found = true;
    object.score = found.score;
    object.speed = std::hypot(found.velocity[0], found.velocity[1]);
    object.trust = found.trust;
    object.mass = found.attention_mass;
    if (windows.any()) object.window = windows.window_of(found, frame.sample->sensor_frame.frame);
    objects.push_back(std::move(object));
  }
  std::stable_sort(objects.begin(), objects.end(),
                   [](const SceneObject& a, const SceneObject& b) { return a.score > b.score; });
  return objects;
}

double SceneBuilder::range() const {
  if (options_.range > 0) return options_.range;
  if (!detector_) return 50;
  const detection::SpaceOptions& space = detector_->options().space;
  return std::max({std::abs(space.x_min), space.x_max, std::abs(space.y_min), space.y_max});
}

std::int64_t SceneBuilder::add_image(report::ScenePage& page, const sensors::Image& image, std::int64_t width) {
  if (image.pixels.empty()) return -1;
  geometry::ImageTransform transform{.width = image.width, .height = image.height};
  if (image.width > width) {
    transform.resize = static_cast<double>(width) / static_cast<double>(image.width);
    transform.width = width;
    transform.height = std::max<std::int64_t>(1, transform.resized(image.height));
  }
  const sensors::Image scaled = sensors::transform_image(image.view(), {image.width, image.height}, transform);
  const auto jpeg = drawing::encode_jpeg(scaled.pixels.data(), scaled.width, scaled.height, kQuality);
  std::string bytes(reinterpret_cast<const char*>(jpeg.data()), jpeg.size());
  const auto [known, added] = image_numbers_.try_emplace(bytes, static_cast<std::int64_t>(page.images.size()));
  if (added) page.images.push_back(std::move(bytes));
  return known->second;
}

std::int64_t SceneBuilder::add_points(report::ScenePage& page, const sensors::KeyFrame& frame) {
  if (!frame.lidar_available) return -1;
  const double reach = std::min(2 * range(), 300.0);
  std::vector<geometry::Vector3> near;
  for (const sensors::LidarPoint& p : frame.points) {
    const geometry::Vector3 ego = frame.reference.sensor_to_ego.apply({p.x, p.y, p.z});
    if (p.time_lag <= sensors::kKeySweepLag && std::abs(ego[0]) < reach && std::abs(ego[1]) < reach &&
        std::abs(ego[2]) < 300)
      near.push_back(ego);
  }
  const auto count = static_cast<std::int64_t>(near.size()), kept = std::min(count, options_.max_points);
  std::vector<std::int16_t> cloud;
  for (std::int64_t i = 0; i < kept; ++i)
    for (const double value : near[static_cast<std::size_t>(i * count / kept)])
      cloud.push_back(static_cast<std::int16_t>(std::lround(100 * value)));
  const auto [known, added] = cloud_numbers_.try_emplace(cloud, static_cast<std::int64_t>(page.points.size()));
  if (added) page.points.push_back(std::move(cloud));
  return known->second;
}

report::SceneCondition SceneBuilder::condition_of(report::ScenePage& page, const sensors::KeyFrame& frame,
                                                  std::int64_t width) {
  report::SceneCondition view{.points = add_points(page, frame)};
  const geometry::Matrix4 ego_to_lidar = frame.reference.sensor_to_ego.inverse().matrix();
  for (const sensors::CameraView& camera : frame.cameras) {
    view.images.push_back(add_image(page, camera.image, width));
    if (!camera.camera.has_projection()) {
      view.matrices.emplace_back();
      continue;
    }
    const geometry::Matrix4 m = geometry::multiply(camera.camera.lidar_to_image, ego_to_lidar);
    std::array<double, 12> shares{};
    for (std::size_t column = 0; column < 4; ++column) {
      shares[column] = m[column] / static_cast<double>(camera.camera.width);
      shares[4 + column] = m[4 + column] / static_cast<double>(camera.camera.height);
      shares[8 + column] = m[8 + column];
    }
    view.matrices.emplace_back(shares);
  }
  return view;
}

report::ScenePage SceneBuilder::at_width(std::int64_t width) {
  const nuscenes::Dataset& dataset = request_.dataset;
  image_numbers_.clear();
  cloud_numbers_.clear();
  report::ScenePage page{.range = range(), .min_score = options_.min_score, .has_run = static_cast<bool>(detector_)};
  if (has_second()) page.conditions.push_back(options_.faults_name);
  double first = 0;
  for (const nuscenes::Index sample : request_.split.samples) {
    report::SceneFrame shown;
    for (std::size_t condition = 0; condition < conditions_.size(); ++condition) {
      const sensors::SensorFrame loaded = frame_for_drawing(request_, sample, conditions_[condition], camera_order_);
      const sensors::KeyFrame& frame = loaded.frame;
      if (condition == 0) {
        const geometry::RigidTransform& pose = frame.reference.ego_to_global;
        const double seconds = 1e-6 * static_cast<double>(frame.timestamp);
        if (page.frames.empty()) first = seconds;
        shown.time = seconds - first;
        shown.pose = {pose.translation[0], pose.translation[1], std::atan2(pose.rotation[3], pose.rotation[0])};
        for (const sensors::FrameObject& object : frame.objects)
          shown.truth.push_back(true_object(dataset, object, frame.reference.sensor_to_ego));
        if (page.cameras.empty()) {
          for (const sensors::CameraView& view : frame.cameras)
            page.cameras.push_back({view.camera.name, view.camera.width, view.camera.height});
          const bool wide =
              std::any_of(page.cameras.begin(), page.cameras.end(), [](const report::SceneCamera& camera) {
                return static_cast<double>(camera.width) > 2.2 * static_cast<double>(camera.height);
              });
          page.camera_order = sensors::viewing_order(frame, frame.cameras.size() > 4 && !wide ? 3 : 2);
        }
      }
      shown.views.push_back(condition_of(page, frame, width));
      report::SceneCondition& view = shown.views.back();
      const report::SceneCondition& known = found_[condition][sample];
      view.found = known.found;
      view.agreement = known.agreement;
      view.camera_agreement = known.camera_agreement;
      view.alarms = known.alarms;
    }
    page.frames.push_back(std::move(shown));
    if (options_.progress) options_.progress(1);
  }
  if (page.frames.size() > 1)
    page.interval = std::clamp(page.frames.back().time / static_cast<double>(page.frames.size() - 1), 0.1, 1.0);
  return page;
}

}  // namespace

report::ScenePage scene_view(detection::Detector detector, const DetectionRequest& request,
                             const SceneViewOptions& options) {
  if (request.split.samples.empty()) throw std::invalid_argument("[view] the scene must have a frame");
  const bool trusts = detector && detector->options().router.mode != nn::RouterMode::kOff;
  report::ScenePage page = SceneBuilder(detector, request, options).build();
  const nuscenes::Tables& tables = request.dataset.tables();
  const nuscenes::Scene& scene = tables.scene[tables.sample[request.split.samples.front()].scene];
  page.title = std::string(scene.name);
  page.subtitle = std::string(scene.description) + (scene.description.empty() ? "" : "; ") +
                  std::to_string(page.frames.size()) + (page.frames.size() == 1 ? " key frame, " : " key frames, ") +
                  std::to_string(page.cameras.size()) + (page.cameras.size() == 1 ? " camera" : " cameras");
  if (detector) {
    const detection::AlarmOptions& alarms = detector->options().alarms;
    page.policy = config::choice_name(request.policy.value_or(alarms.policy));
    if (alarms.threshold != 0) page.threshold = alarms.threshold;
  }
  if (!trusts) return page;
  page.sensors = {"LiDAR", "cameras"};
  if (detector->options().num_sensors() > 2) {
    page.sensors = {"LiDAR"};
    for (const report::SceneCamera& camera : page.cameras) page.sensors.push_back(camera.name);
  }
  page.window_note =
      "White areas are the windows: the keys round its reference point that trust biases. What it looks at elsewhere "
      "is up to the query.";
  return page;
}

}  // namespace camber::runs
