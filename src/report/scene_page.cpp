#include "camber/report/scene_page.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "report/page_parts.h"

namespace camber::report {
namespace {

using Json = nlohmann::ordered_json;

// Metres to the millimetre, shares to four digits: half of what a double takes.
double short_number(double value, double per_unit) {
  return std::isfinite(value) ? std::round(value * per_unit) / per_unit : 0;
}

template <class Values>
Json short_list(const Values& values, double per_unit) {
  Json list = Json::array();
  for (const double value : values) list.push_back(short_number(value, per_unit));
  return list;
}

Json window_json(const SceneWindow& window) {
  Json bird = Json::array(), cameras = Json::array();
  for (const auto& corner : window.bird) bird.push_back(short_list(corner, 1e3));
  for (const auto& area : window.cameras) cameras.push_back(area ? short_list(*area, 1e4) : Json(nullptr));
  return {{"bird", bird.empty() ? Json(nullptr) : bird}, {"cameras", cameras}};
}

Json object_json(const SceneObject& object) {
  Json json = {{"name", object.name},
               {"colour", object.colour},
               {"center", short_list(object.center, 1e3)},
               {"size", short_list(object.size, 1e3)},
               {"yaw", short_number(object.yaw, 1e4)},
               {"found", object.found}};
  if (object.found) json["score"] = short_number(object.score, 1e4);
  if (object.object) json["object"] = *object.object;
  if (object.points) json["points"] = *object.points;
  if (object.speed) json["speed"] = short_number(*object.speed, 1e2);
  if (!object.trust.empty()) json["trust"] = short_list(object.trust, 1e4);
  if (!object.mass.empty()) json["mass"] = short_list(object.mass, 1e4);
  if (object.window) json["window"] = window_json(*object.window);
  return json;
}

Json objects_json(const std::vector<SceneObject>& objects) {
  Json list = Json::array();
  for (const SceneObject& object : objects) list.push_back(object_json(object));
  return list;
}

Json known_or_null(const std::optional<double>& value) {
  return value ? Json(short_number(*value, 1e4)) : Json(nullptr);
}

// What is known of the sensors of one frame; nothing for a page without a detector.
void put_sensors(Json& view, const SceneCondition& condition) {
  if (condition.alarms.empty()) return;
  Json cameras = Json::array(), alarms = Json::array();
  for (const auto& camera : condition.camera_agreement) cameras.push_back(known_or_null(camera));
  for (const SceneAlarm& alarm : condition.alarms)
    alarms.push_back({{"age", short_number(alarm.age, 1e3)}, {"state", alarm.state}, {"taken_out", alarm.taken_out}});
  view["agreement"] = known_or_null(condition.agreement);
  view["camera_agreement"] = cameras;
  view["alarms"] = alarms;
}

Json frame_json(const SceneFrame& frame) {
  Json views = Json::array();
  for (const SceneCondition& view : frame.views) {
    Json matrices = Json::array();
    for (const auto& matrix : view.matrices) matrices.push_back(matrix ? Json(*matrix) : Json(nullptr));
    views.push_back({{"images", view.images},
                     {"matrices", matrices},
                     {"points", view.points},
                     {"found", objects_json(view.found)}});
    put_sensors(views.back(), view);
  }
  return {{"time", short_number(frame.time, 1e3)},
          {"pose", short_list(frame.pose, 1e4)},
          {"truth", objects_json(frame.truth)},
          {"views", views}};
}

Json page_json(const ScenePage& page) {
  Json cameras = Json::array(), frames = Json::array(), images = Json::array(), points = Json::array();
  for (const SceneCamera& camera : page.cameras)
    cameras.push_back({{"name", camera.name}, {"width", camera.width}, {"height", camera.height}});
  for (const SceneFrame& frame : page.frames) frames.push_back(frame_json(frame));
  for (const std::string& image : page.images) images.push_back(base64(image));
  for (const auto& cloud : page.points)
    points.push_back(base64({reinterpret_cast<const char*>(cloud.data()), cloud.size() * sizeof(std::int16_t)}));
  return {{"title", page.title},
          {"subtitle", page.subtitle},
          {"window_note", page.window_note},
          {"range", page.range},
          {"interval", page.interval},
          {"min_score", page.min_score},
          {"has_run", page.has_run},
          {"policy", page.policy},
          {"threshold", known_or_null(page.threshold)},
          {"conditions", page.conditions},
          {"sensors", page.sensors},
          {"cameras", cameras},
          {"camera_order", page.camera_order},
          {"frames", frames},
          {"images", images},
          {"points", points}};
}

}  // namespace

std::string to_html(const ScenePage& page) {
  std::string html(kSceneHtml);
  put(html, "{{page_css}}", kPageCss);
  put(html, "{{scene_css}}", kSceneCss);
  put(html, "{{page_js}}", kSceneJs);
  put(html, "{{data}}", without_tags(page_json(page).dump(-1, ' ', false, Json::error_handler_t::replace)));
  put(html, "{{title}}", escaped(page.title));  // last, and first in the file: no title can be taken for a mark
  return html;
}

}  // namespace camber::report
