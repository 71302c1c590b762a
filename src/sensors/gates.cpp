#include "camber/sensors/gates.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "camber/threads/tasks.h"
#include "sensors/object_sight.h"

namespace camber::sensors {
namespace {

constexpr std::size_t kProbeObjects = 400;  // of each class: the probe's cost grows with the square
constexpr std::size_t kFewest = 20;

struct Example {
  std::vector<float> features;
  nuscenes::Index scene;
  bool second;
};

// Every second feature would drown the others without a common scale.
void standardize(std::vector<Example>& examples) {
  const std::size_t width = examples.front().features.size();
  for (std::size_t k = 0; k < width; ++k) {
    double sum = 0, squares = 0;
    for (const Example& example : examples) sum += example.features[k], squares += std::pow(example.features[k], 2);
    const auto count = static_cast<double>(examples.size());
    const double mean = sum / count, deviation = std::sqrt(std::max(1e-12, squares / count - mean * mean));
    for (Example& example : examples)
      example.features[k] = static_cast<float>((example.features[k] - mean) / deviation);
  }
}

float squared_distance(const std::vector<float>& a, const std::vector<float>& b) {
  float sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

// Balanced accuracy of the nearest neighbour in another scene.
double probe(std::vector<Example> examples) {
  std::array<std::size_t, 2> count{}, right{};
  for (const Example& example : examples) ++count[example.second ? 1 : 0];
  if (std::min(count[0], count[1]) < kFewest) return std::numeric_limits<double>::quiet_NaN();
  standardize(examples);
  for (const Example& asked : examples) {
    float nearest = std::numeric_limits<float>::infinity();
    bool answer = !asked.second;
    for (const Example& other : examples) {
      if (other.scene == asked.scene) continue;
      const float distance = squared_distance(asked.features, other.features);
      if (distance < nearest) {
        nearest = distance;
        answer = other.second;
      }
    }
    right[asked.second ? 1 : 0] += answer == asked.second ? 1 : 0;
  }
  return 0.5 * (static_cast<double>(right[0]) / static_cast<double>(count[0]) +
                static_cast<double>(right[1]) / static_cast<double>(count[1]));
}

using Sights = std::vector<const ObjectSight*>;

// Evenly spaced ones where there are too many.
Sights some_of(const Sights& sights) {
  if (sights.size() <= kProbeObjects) return sights;
  Sights result;
  for (std::size_t i = 0; i < kProbeObjects; ++i) result.push_back(sights[i * sights.size() / kProbeObjects]);
  return result;
}

template <class Features>
double probe_pair(const Sights& first, const Sights& second, Features&& features) {
  std::vector<Example> examples;
  for (const auto& [sights, is_second] : {std::pair{&first, false}, std::pair{&second, true}}) {
    Sights usable;
    for (const ObjectSight* sight : *sights)
      if (!features(*sight).empty()) usable.push_back(sight);
    for (const ObjectSight* sight : some_of(usable)) examples.push_back({features(*sight), sight->scene, is_second});
  }
  return examples.empty() ? std::numeric_limits<double>::quiet_NaN() : probe(std::move(examples));
}

PairProbe probe_classes(const std::string& first_name, const Sights& first, const std::string& second_name,
                        const Sights& second) {
  const auto list = [](const auto& array) { return std::vector<float>(array.begin(), array.end()); };
  PairProbe pair{.first = first_name, .second = second_name};
  pair.objects = {static_cast<std::int64_t>(first.size()), static_cast<std::int64_t>(second.size())};
  pair.size = probe_pair(
      first, second, [&](const ObjectSight& s) { return list(s.size); });
  pair.lidar = probe_pair(
      first, second, [&](const ObjectSight& s) { return s.points < 4 ? std::vector<float>{} : list(s.cloud); });
  pair.color = probe_pair(
      first, second, [&](const ObjectSight& s) { return s.pixels < 4 ? std::vector<float>{} : list(s.color); });
  pair.image = probe_pair(first, second, [](const ObjectSight& s) { return s.patch; });
  return pair;
}

void count_sight(ClassSight& sight, const ObjectSight& object, const GateOptions& options) {
  const bool lidar = object.lidar_well(options), camera = object.camera_well(options);
  ++sight.objects;
  ++(lidar && camera ? sight.both : lidar ? sight.lidar_only : camera ? sight.camera_only : sight.neither);
}

double share(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

void evaluate_gates(GateReport& report, const GateOptions& options) {
  const auto gate = [&report](bool holds, std::string sentence) {
    report.gates.push_back({std::move(sentence), holds});
  };
  const double lidar = share(report.all.lidar_only, report.all.objects),
               camera = share(report.all.camera_only, report.all.objects);
  gate(lidar >= options.min_favoured,
       fmt::format("the LiDAR alone sees {:.1f} % of the objects well (at least {:.0f} % wanted)", 100 * lidar,
                   100 * options.min_favoured));
  gate(camera >= options.min_favoured,
       fmt::format("the cameras alone see {:.1f} % of the objects well (at least {:.0f} % wanted)", 100 * camera,
                   100 * options.min_favoured));
  std::string lidar_confuses, camera_confuses;
  for (const PairProbe& pair : report.pairs) {
    if (pair.lidar < options.confusable && pair.image > pair.lidar + options.advantage)
      lidar_confuses += fmt::format("{}{} and {}", lidar_confuses.empty() ? "" : ", ", pair.first, pair.second);
    if (pair.lidar > pair.image + options.advantage)
      camera_confuses += fmt::format("{}{} and {}", camera_confuses.empty() ? "" : ", ", pair.first, pair.second);
  }
  gate(!lidar_confuses.empty(), lidar_confuses.empty()
                                    ? "no two classes look alike to the LiDAR and different to the cameras"
                                    : "alike to the LiDAR, different to the cameras: " + lidar_confuses);
  gate(!camera_confuses.empty(), camera_confuses.empty()
                                     ? "no two classes are told apart much better by the LiDAR than by an image"
                                     : "told apart much better by the LiDAR than by an image: " + camera_confuses);
  const double lost = share(report.without_points, report.objects + report.without_points);
  gate(lost < 0.01,
       fmt::format("{:.2f} % of the objects in range have no point and count for nothing (under 1 % wanted)",
                   100 * lost));
}

}  // namespace

bool GateReport::can_show_trust() const {
  return std::all_of(
      gates.begin(), gates.end(), [](const Gate& gate) { return gate.holds; });
}

GateReport inspect_gates(const nuscenes::Dataset& dataset, std::span<const nuscenes::Index> samples,
                         const FrameOptions& frames, const GateOptions& options, int threads,
                         const std::function<void(std::int64_t)>& frame_done) {
  FrameOptions single = frames;
  single.sweeps.previous = 0;
  std::vector<std::vector<ObjectSight>> sights(samples.size());
  std::vector<std::int64_t> without(samples.size());
  threads::for_each_task(samples.size(), threads, [&](std::size_t i) {
    const KeyFrame frame = load_key_frame(dataset, samples[i], single);
    sights[i] = sights_of(frame, dataset.tables().sample[samples[i]].scene, options.range);
    for (const FrameObject& object : frame.objects)
      without[i] += object.lidar_points + object.radar_points == 0 &&
                    std::hypot(object.box.center[0], object.box.center[1]) <= options.range;
    if (frame_done) frame_done(1);
  });
  GateReport report{.frames = static_cast<std::int64_t>(samples.size())};
  report.all.category = "all";
  std::map<std::string, Sights> by_class;
  for (std::size_t i = 0; i < sights.size(); ++i) {
    report.without_points += without[i];
    for (const ObjectSight& sight : sights[i]) {
      ++report.objects;
      count_sight(report.all, sight, options);
      by_class[std::string(sight.category)].push_back(&sight);
    }
  }
  for (const auto& [name, list] : by_class) {
    report.classes.push_back({.category = name});
    for (const ObjectSight* sight : list) count_sight(report.classes.back(), *sight, options);
  }
  for (auto first = by_class.begin(); first != by_class.end(); ++first)
    for (auto second = std::next(first); second != by_class.end(); ++second)
      if (std::min(first->second.size(), second->second.size()) >= kFewest)
        report.pairs.push_back(probe_classes(first->first, first->second, second->first, second->second));
  evaluate_gates(report, options);
  return report;
}

std::string to_text(const GateReport& report) {
  std::string text = fmt::format("{} frames, {} objects in range with a point\n\n", report.frames, report.objects);
  text += fmt::format("{:<28}{:>9}{:>10}{:>12}{:>13}{:>10}\n", "seen well by", "objects", "both", "LiDAR only",
                      "cameras only", "neither");
  const auto row = [&text](const ClassSight& sight) {
    const auto cell = [&sight](std::int64_t n) { return fmt::format("{:.1f} %", 100 * share(n, sight.objects)); };
    text += fmt::format("{:<28}{:>9}{:>10}{:>12}{:>13}{:>10}\n", sight.category, sight.objects, cell(sight.both),
                        cell(sight.lidar_only), cell(sight.camera_only), cell(sight.neither));
  };
  for (const ClassSight& sight : report.classes) row(sight);
  row(report.all);
  text += fmt::format("\n{:<58}{:>7}{:>8}{:>8}{:>9}   (balanced accuracy of a nearest neighbour; 0.5 is chance)\n",
                      "told apart by", "size", "LiDAR", "colour", "image");
  for (const PairProbe& pair : report.pairs)
    text += fmt::format("{:<58}{:>7.2f}{:>8.2f}{:>8.2f}{:>9.2f}\n", pair.first + " / " + pair.second, pair.size,
                        pair.lidar, pair.color, pair.image);
  text += '\n';
  for (const GateReport::Gate& gate : report.gates)
    text += fmt::format("{}  {}\n", gate.holds ? "yes" : "NO ", gate.sentence);
  text += report.can_show_trust() ? "this data set can show trust\n" : "this data set cannot show trust\n";
  return text;
}

std::string to_json(const GateReport& report) {
  const auto number = [](double value) {
    return std::isfinite(value) ? fmt::format("{:.4f}", value) : std::string("null");
  };
  const auto sight = [](const ClassSight& s) {
    return fmt::format(
        "{{\"category\": \"{}\", \"objects\": {}, \"both\": {}, \"lidar_only\": {}, \"camera_only\": {}, \"neither\": "
        "{}}}",
        s.category, s.objects, s.both, s.lidar_only, s.camera_only, s.neither);
  };
  std::string text =
      fmt::format("{{\"frames\": {}, \"objects\": {}, \"without_points\": {}, \"all\": {}, \"classes\": [",
                  report.frames, report.objects, report.without_points, sight(report.all));
  for (std::size_t i = 0; i < report.classes.size(); ++i) text += (i == 0 ? "" : ", ") + sight(report.classes[i]);
  text += "], \"pairs\": [";
  for (std::size_t i = 0; i < report.pairs.size(); ++i) {
    const PairProbe& p = report.pairs[i];
    text += fmt::format(
        "{}{{\"first\": \"{}\", \"second\": \"{}\", \"size\": {}, \"lidar\": {}, \"color\": {}, \"image\": {}}}",
        i == 0 ? "" : ", ", p.first, p.second, number(p.size), number(p.lidar), number(p.color), number(p.image));
  }
  text += "], \"gates\": [";
  for (std::size_t i = 0; i < report.gates.size(); ++i)
    text += fmt::format("{}{{\"holds\": {}, \"sentence\": \"{}\"}}", i == 0 ? "" : ", ", report.gates[i].holds,
                        report.gates[i].sentence);
  return text + fmt::format("], \"can_show_trust\": {}}}\n", report.can_show_trust());
}

}  // namespace camber::sensors
