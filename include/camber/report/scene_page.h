#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// A scene as one HTML page: from above and in every camera, over time.
namespace camber::report {

/// The keys that a query's bias is added to: an area of the bird's-eye view (corners, ego frame) and a part of each
/// camera's image (left, top, right, bottom as shares of it).
struct SceneWindow {
  std::vector<std::array<double, 2>> bird{};
  std::vector<std::optional<std::array<double, 4>>> cameras{};
};

/// A true or found object, in the ego frame at its key frame.
struct SceneObject {
  std::string name{}, colour{};            ///< its class; "#rrggbb"
  std::array<double, 3> center{}, size{};  ///< length, width, height
  double yaw = 0;
  bool found = false;
  double score = 0;
  std::optional<std::int64_t> object{};  ///< true ones: the same number in every frame that shows it
  std::optional<std::int64_t> points{};  ///< true ones: LiDAR points
  std::optional<double> speed{};         ///< m/s
  std::vector<double> trust{}, mass{};   ///< of a sensor; of the grid and each camera
  std::optional<SceneWindow> window{};
};

/// What the cues said of a sensor, and what became of it.
struct SceneAlarm {
  double age = 0;
  std::string state{"none"};  ///< none, raised (not verified), kept, dropped, or off: it delivers nothing
  bool taken_out = false;
};

/// A frame under one condition of the sensors.
struct SceneCondition {
  std::vector<std::int64_t> images{};                             ///< of ScenePage::images; -1: delivers nothing
  std::vector<std::optional<std::array<double, 12>>> matrices{};  ///< ego frame to shares of the image, 3 x 4
  std::int64_t points = -1;                                       ///< of ScenePage::points
  std::vector<SceneObject> found{};
  std::optional<double> agreement{};                      ///< of the LiDAR and the cameras; none: not known
  std::vector<std::optional<double>> camera_agreement{};  ///< of each camera with the LiDAR
  std::vector<SceneAlarm> alarms{};                       ///< of the LiDAR and each camera
};

struct SceneFrame {
  double time = 0;               ///< seconds from the first
  std::array<double, 3> pose{};  ///< of the car: x, y, heading in the global frame
  std::vector<SceneObject> truth{};
  std::vector<SceneCondition> views{};  ///< one a condition
};

struct SceneCamera {
  std::string name{};
  std::int64_t width = 0, height = 0;
};

struct ScenePage {
  std::string title{}, subtitle{}, window_note{};
  double range = 50, interval = 0.5, min_score = 0;
  bool has_run = false;
  std::string policy{};               ///< what is done with alarms; empty without a detector
  std::optional<double> threshold{};  ///< of agreement, where the detector is calibrated
  std::vector<std::string> conditions{"clean"}, sensors{};
  std::vector<SceneCamera> cameras{};
  std::vector<std::size_t> camera_order{};
  std::vector<SceneFrame> frames{};
  std::vector<std::string> images{};                ///< bytes of JPEG files
  std::vector<std::vector<std::int16_t>> points{};  ///< x, y, z in centimetres, ego frame
};

/// One self-contained file, as to_html(Page).
std::string to_html(const ScenePage& page);

}  // namespace camber::report
