#include <camber/runs/detector_raw.h>

#include "camber/json/text.h"

namespace camber::runs {
namespace {

std::string row_of(const detection::Detection& found) {
  const geometry::Box& box = found.box;
  std::string numbers;
  for (const double value : {box.center[0], box.center[1], box.center[2] - box.height / 2, box.length, box.width,
                             box.height, box.yaw, found.velocity[0], found.velocity[1]})
    numbers += (numbers.empty() ? "" : ", ") + json::number_text(value);
  return "{\"query\": " + std::to_string(found.query) + ", \"label\": " + std::to_string(found.label) +
         ", \"score\": " + json::number_text(found.score) + ", \"box\": [" + numbers + "]}";
}

}  // namespace

void RawDetections::add(const std::string& token, std::span<const detection::Detection> found) {
  std::string rows;
  for (const detection::Detection& one : found) rows += (rows.empty() ? "\n      " : ",\n      ") + row_of(one);
  results_ += (results_.empty() ? "\n    " : ",\n    ") + json::quoted(token) + ": [" + rows + "]";
}

std::string RawDetections::to_json() const {
  std::string names;
  for (const std::string& name : classes_) names += (names.empty() ? "" : ", ") + json::quoted(name);
  return "{\n  \"frame\": \"lidar\",\n  \"classes\": [" + names +
         "],\n  \"columns\": [\"x\", \"y\", \"z\", \"w\", \"l\", \"h\", \"yaw\", \"vx\", \"vy\"],\n"
         "  \"meaning\": \"z is the bottom face; w lies along the heading, l across it, as in CMT's boxes\",\n"
         "  \"results\": {" +
         results_ + "}\n}\n";
}

}  // namespace camber::runs
