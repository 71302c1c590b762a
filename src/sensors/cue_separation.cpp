#include "camber/sensors/cue_separation.h"

#include <algorithm>
#include <ctime>

#include <fmt/format.h>

#include "camber/threads/tasks.h"

namespace camber::sensors {
namespace {

struct Scores {
  std::vector<double> age, level, joint;

  void add(const SensorCues& cues) {
    age.push_back(cues.age);
    level.push_back(-cues.level);
    joint.push_back(std::max(cues.age, -cues.level));
  }
  void add(const Scores& other) {
    age.insert(age.end(), other.age.begin(), other.age.end());
    level.insert(level.end(), other.level.begin(), other.level.end());
    joint.insert(joint.end(), other.joint.begin(), other.joint.end());
  }
};

}  // namespace

double area_under_curve(const std::vector<double>& positive, std::vector<double> negative) {
  if (positive.empty() || negative.empty()) return 0.5;
  std::sort(negative.begin(), negative.end());
  double above = 0;
  for (const double score : positive) {
    const auto [low, high] = std::equal_range(negative.begin(), negative.end(), score);
    above += static_cast<double>(low - negative.begin()) + 0.5 * static_cast<double>(high - low);
  }
  return above / static_cast<double>(positive.size()) / static_cast<double>(negative.size());
}

std::vector<CueSeparation> cue_separation(const nuscenes::Dataset& dataset, std::span<const nuscenes::Index> samples,
                                          const FrameOptions& frames, std::span<const Fault> faults, std::uint64_t seed,
                                          int threads, const std::function<void(std::int64_t)>& frame_done) {
  CueMaker maker(dataset, frames);
  const random::Stream stream(seed, "faults");
  std::vector<CueSeparation> rows;
  for (const Fault& fault : faults) {
    std::vector<Scores> faulty(samples.size()), sound(samples.size());
    threads::for_each_task(samples.size(), threads, [&](std::size_t i) {
      const SensorFrame hit = load_sensor_frame(dataset, samples[i], frames, {&fault, 1}, samples, stream);
      const SensorFrame clean = clean_sensor_frame(load_key_frame(dataset, samples[i], frames));
      const std::vector<SensorCues> with = maker.cues(hit), without = maker.cues(clean);
      for (std::size_t sensor = 0; sensor < with.size(); ++sensor) {
        if (hit.sensors[sensor].quality == 1) continue;
        faulty[i].add(with[sensor]);
        sound[i].add(without[sensor]);
      }
      if (frame_done) frame_done(1);
    });
    Scores positive, negative;
    for (const Scores& scores : faulty) positive.add(scores);
    for (const Scores& scores : sound) negative.add(scores);
    rows.push_back({.fault = fault.text(),
                    .age = area_under_curve(positive.age, negative.age),
                    .level = area_under_curve(positive.level, negative.level),
                    .joint = area_under_curve(positive.joint, negative.joint),
                    .faulty = static_cast<std::int64_t>(positive.age.size()),
                    .sound = static_cast<std::int64_t>(negative.age.size())});
  }
  return rows;
}

double cue_milliseconds(const nuscenes::Dataset& dataset, std::span<const nuscenes::Index> samples,
                        const FrameOptions& frames) {
  std::vector<SensorFrame> sensor_frames;
  for (std::size_t i = 0; i < std::min<std::size_t>(samples.size(), 16); ++i)
    sensor_frames.push_back(clean_sensor_frame(load_key_frame(dataset, samples[i], frames)));
  CueTracker tracker;
  constexpr int kRounds = 20;
  const std::clock_t start = std::clock();
  for (int round = 0; round < kRounds; ++round)
    for (const SensorFrame& sensor_frame : sensor_frames) tracker.next(sensor_frame);
  return 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC /
         static_cast<double>(kRounds * sensor_frames.size());
}

std::vector<Fault> cue_faults() {
  std::vector<Fault> faults;
  for (const FaultKind kind : {FaultKind::kFrozen, FaultKind::kStale})
    for (const bool false_timestamps : {false, true})
      for (int severity = 1; severity <= kSeverities; ++severity)
        faults.push_back({.kind = kind, .severity = severity, .false_timestamps = false_timestamps});
  for (const FaultKind kind : {FaultKind::kBlack, FaultKind::kEmpty, FaultKind::kDark})
    for (int severity = 1; severity <= kSeverities; ++severity) faults.push_back({.kind = kind, .severity = severity});
  return faults;
}

std::string to_text(std::span<const CueSeparation> rows, double milliseconds) {
  std::string text = fmt::format("{:<28}{:>8}{:>8}{:>8}{:>12}   (area under the ROC curve; 0.5 is chance)\n", "fault",
                                 "age", "level", "joint", "readings");
  for (const CueSeparation& row : rows)
    text += fmt::format("{:<28}{:>8.3f}{:>8.3f}{:>8.3f}{:>12}\n", row.fault, row.age, row.level, row.joint, row.faulty);
  return text + fmt::format("cues take {:.3f} ms a frame\n", milliseconds);
}

std::string to_json(std::span<const CueSeparation> rows, double milliseconds) {
  std::string text = fmt::format("{{\"milliseconds\": {:.4f}, \"faults\": [", milliseconds);
  for (std::size_t i = 0; i < rows.size(); ++i)
    text +=
        fmt::format("{}{{\"fault\": \"{}\", \"age\": {:.4f}, \"level\": {:.4f}, \"joint\": {:.4f}, \"readings\": {}}}",
                    i == 0 ? "" : ", ", rows[i].fault, rows[i].age, rows[i].level, rows[i].joint, rows[i].faulty);
  return text + "]}\n";
}

}  // namespace camber::sensors
