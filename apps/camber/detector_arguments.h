#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "apps/camber/command.h"
#include "camber/detection/detector.h"
#include "camber/nuscenes/dataset.h"
#include "camber/nuscenes/splits.h"
#include "camber/runs/detector_passes.h"

/// What `eval`, `predict` and `bench detector` share: a trained detector and frames for it.
namespace camber::app {

struct DetectorArguments {
  std::string run{}, checkpoint{}, data{}, version{}, split{}, scenes{}, device = "cpu", precision{};
  std::int64_t limit = 0;
  bool any_scene = false;  // what the caller looks for may lie in any scene, where no split is named

  void declare(Command& command);
};

/// What the cues do to the frames of a detector: how they err, and what is done with their alarms.
struct AlarmArguments {
  std::string policy{}, cue_errors = "none";

  void declare(Command& command);
  /// Into the request; refuses unknown words in the name of the sub-command. Without a request it only refuses.
  void check(const char* title) const;
  void put(runs::DetectionRequest& request, const char* title) const;
};

/// What --precision says; none: nothing. `title` begins the sentence that refuses another word.
std::optional<detection::Precision> precision_of(const std::string& word, const std::string& title);

struct OpenedDetector {
  detection::Detector detector{nullptr};
  std::unique_ptr<nuscenes::Dataset> dataset{};
  nuscenes::Split split{};
  std::filesystem::path config{};  // of the run's evaluation; empty: the official one
  std::int64_t batch_size = 4;     // of the run's evaluation
};

/// Loads what the arguments name; data and version are the run's where they are not given, the split is val, or
/// all samples of a data set without splits.
OpenedDetector open_detector(const DetectorArguments& arguments, const CommonOptions& common, const char* title);

}  // namespace camber::app
