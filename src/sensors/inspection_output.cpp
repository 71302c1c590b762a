#include <cmath>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "camber/sensors/inspection.h"

namespace camber::sensors {
namespace {

using Json = nlohmann::ordered_json;

const char* name_of(nuscenes::Modality modality) {
  switch (modality) {
    case nuscenes::Modality::kCamera:
      return "camera";
    case nuscenes::Modality::kLidar:
      return "lidar";
    case nuscenes::Modality::kRadar:
      return "radar";
    case nuscenes::Modality::kOther:
      break;
  }
  return "other";
}

std::vector<std::string> bin_names(const std::vector<double>& edges, const char* unit) {
  std::vector<std::string> names;
  names.reserve(edges.size());
  for (std::size_t i = 0; i < edges.size(); ++i)
    names.push_back(i + 1 < edges.size() ? fmt::format("{:g}-{:g}{}", edges[i], edges[i + 1], unit)
                                         : fmt::format("{:g}+{}", edges[i], unit));
  return names;
}

// Whole numbers: "0", "1-4", "5-19", "20+".
std::vector<std::string> count_names(const std::vector<double>& edges) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i + 1 < edges.size(); ++i)
    names.push_back(edges[i + 1] - edges[i] <= 1 ? fmt::format("{:g}", edges[i])
                                                 : fmt::format("{:g}-{:g}", edges[i], std::ceil(edges[i + 1]) - 1));
  names.push_back(fmt::format("{:g}+", edges.back()));
  return names;
}

std::vector<std::string> visibility_names(const Inspection& inspection) {
  std::vector<std::string> names = inspection.visibility_levels;
  names.emplace_back("unknown");
  return names;
}

std::string bin_table(const Inspection& inspection, const char* title, const std::vector<std::string>& names,
                      std::vector<std::int64_t> CategoryCounts::*bins) {
  std::string text = fmt::format("\n{:<38}", title);
  for (const std::string& name : names) text += fmt::format("{:>9}", name);
  text += '\n';
  for (const CategoryCounts& entry : inspection.categories) {
    text += fmt::format("{:<38}", entry.category);
    for (const std::int64_t count : entry.*bins) text += fmt::format("{:>9}", count);
    text += '\n';
  }
  return text;
}

std::string sensor_table(const Inspection& inspection) {
  std::string text = fmt::format("\n{:<20}{:<8}{:>11}{:>9}{:>8}{:>9}{:>9}\n", "sensor", "kind", "key frames", "sweeps",
                                 "absent", "missing", "damaged");
  const bool checked = inspection.files != FileCheck::kSkip;
  for (const SensorCounts& sensor : inspection.sensors)
    text += fmt::format("{:<20}{:<8}{:>11}{:>9}{:>8}{:>9}{:>9}\n", sensor.channel, name_of(sensor.modality),
                        sensor.key_frames, sensor.sweeps, sensor.absent, checked ? std::to_string(sensor.missing) : "-",
                        checked ? std::to_string(sensor.damaged) : "-");
  if (!checked) text += "(files were not looked at)\n";
  for (const std::string& problem : inspection.problems) text += "  " + problem + "\n";
  return text;
}

}  // namespace

std::string to_text(const Inspection& inspection) {
  std::string text =
      fmt::format("{} {}, {} ({}); scenes: {}, samples: {}, objects: {}", inspection.root, inspection.version,
                  inspection.split, inspection.split_source, inspection.scenes, inspection.samples, inspection.objects);
  if (inspection.median_interval > 0) text += fmt::format(", a sample every {:.2f} s", inspection.median_interval);
  text += fmt::format("\n\n{:<38}{:>9}{:>11}{:>13}\n", "category", "objects", "instances", "no velocity");
  for (const CategoryCounts& entry : inspection.categories)
    text += fmt::format("{:<38}{:>9}{:>11}{:>13}\n", entry.category, entry.objects, entry.instances,
                        entry.without_velocity);
  if (inspection.samples_without_objects > 0)
    text += fmt::format("({} samples have no object)\n", inspection.samples_without_objects);
  text += bin_table(inspection, "distance from the ego vehicle", bin_names(inspection.distance_edges, " m"),
                    &CategoryCounts::by_distance);
  text += bin_table(inspection, "visible in the cameras", visibility_names(inspection), &CategoryCounts::by_visibility);
  text += bin_table(inspection, "LiDAR points inside", count_names(inspection.point_edges), &CategoryCounts::by_points);
  text += sensor_table(inspection);
  if (!inspection.missed.empty()) text += "\nwhat a detector would miss\n";
  for (const std::string& sentence : inspection.missed) text += "  " + sentence + "\n";
  return text;
}

std::string to_json(const Inspection& inspection) {
  Json json = {{"root", inspection.root},
               {"version", inspection.version},
               {"split", {{"name", inspection.split}, {"source", inspection.split_source}}},
               {"scenes", inspection.scenes},
               {"samples", inspection.samples},
               {"objects", inspection.objects},
               {"samples_without_objects", inspection.samples_without_objects},
               {"median_interval", inspection.median_interval},
               {"distance_edges", inspection.distance_edges},
               {"point_edges", inspection.point_edges},
               {"visibility_levels", visibility_names(inspection)}};
  for (const auto& [name, rows] : inspection.tables) json["tables"][name] = rows;
  json["categories"] = Json::array();
  for (const CategoryCounts& entry : inspection.categories)
    json["categories"].push_back({{"category", entry.category},
                                  {"objects", entry.objects},
                                  {"instances", entry.instances},
                                  {"without_velocity", entry.without_velocity},
                                  {"by_distance", entry.by_distance},
                                  {"by_visibility", entry.by_visibility},
                                  {"by_points", entry.by_points}});
  json["sensors"] = Json::array();
  for (const SensorCounts& sensor : inspection.sensors) {
    Json entry = {{"channel", sensor.channel},
                  {"modality", name_of(sensor.modality)},
                  {"key_frames", sensor.key_frames},
                  {"sweeps", sensor.sweeps},
                  {"absent", sensor.absent},
                  {"missing", nullptr},
                  {"damaged", nullptr}};
    if (inspection.files != FileCheck::kSkip) {
      entry["missing"] = sensor.missing;
      entry["damaged"] = sensor.damaged;
    }
    json["sensors"].push_back(std::move(entry));
  }
  json["problems"] = inspection.problems;
  json["missed"] = inspection.missed;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string to_csv(const Inspection& inspection) {
  std::string text = "category,objects,instances,without_velocity";
  for (const std::string& name : bin_names(inspection.distance_edges, "m")) text += ",distance_" + name;
  for (const std::string& name : visibility_names(inspection)) text += ",visibility_" + name;
  for (const std::string& name : count_names(inspection.point_edges)) text += ",points_" + name;
  text += '\n';
  for (const CategoryCounts& entry : inspection.categories) {
    text += fmt::format("{},{},{},{}", entry.category, entry.objects, entry.instances, entry.without_velocity);
    for (const auto* bins : {&entry.by_distance, &entry.by_visibility, &entry.by_points})
      for (const std::int64_t count : *bins) text += fmt::format(",{}", count);
    text += '\n';
  }
  return text;
}

}  // namespace camber::sensors
