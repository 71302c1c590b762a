#pragma once
#include <memory>
#include <string>

#include "apps/camber/command.h"
#include "camber/data/dataset.h"
#include "camber/data/splits.h"
#include "camber/detection/detector.h"
#include "camber/eval/evaluation_config.h"

/// What `eval`, `predict` and `bench detector` share: a trained detector and frames for it.
namespace camber::app {

struct DetectorArguments {
  std::string run{}, checkpoint{}, data{}, version{}, split = "val", config{};
  std::int64_t limit = 0;

  void declare(Command& command);
};

struct OpenedDetector {
  detection::Detector detector{nullptr};
  std::unique_ptr<data::Dataset> dataset{};
  data::Split split{};
  eval::EvaluationConfig config{};
};

/// Loads what the arguments name; data, version and evaluation configuration are the run's where they are not given.
OpenedDetector open_detector(const DetectorArguments& arguments, const CommonOptions& common, const char* title);

}  // namespace camber::app
