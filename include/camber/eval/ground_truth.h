#pragma once
#include <cstdint>
#include <vector>

#include "camber/eval/detection_box.h"
#include "camber/eval/evaluation_config.h"
#include "camber/eval/results_file.h"
#include "camber/nuscenes/dataset.h"
#include "camber/nuscenes/splits.h"

namespace camber::eval {

/// True objects and predictions of the same samples, ready to be compared: `sample` of every box is the index of its
/// token in `truth.tokens`.
struct EvaluationBoxes {
  SampleBoxes truth{};
  SampleBoxes predictions{};
  std::vector<std::int32_t> scene_of_sample{};  ///< [samples of truth]; empty without tables
};

/// How many boxes each filter left, in the order in which they act.
struct FilterCounts {
  std::size_t total = 0, in_range = 0, with_points = 0, outside_racks = 0;
};

/// The true objects of a split as the devkit takes them: categories of the task only, velocity by Dataset::velocity_of,
/// points of LiDAR and radar, at most one attribute.
SampleBoxes load_ground_truth(const nuscenes::Dataset& dataset, const nuscenes::Split& split);

/// Brings predictions and true objects together. Official splits want predictions for exactly the split's samples and
/// keep the order of the file; other splits pass over further samples and follow the order of the sample table.
/// Without a split (true objects from a file) the samples must be the same.
EvaluationBoxes pair_boxes(const nuscenes::Split* split, const nuscenes::Dataset* dataset, SampleBoxes truth,
                           SampleBoxes predictions);

/// Drops what is not evaluated: classes that the configuration leaves out, boxes whose centre is not nearer to the ego
/// vehicle than their class's range (in the plane, ego pose of the reference channel), boxes without any point, and
/// bicycles and motorcycles whose centre lies in a bicycle rack. Without tables the distance is the boxes' own and
/// there are no racks. A set without any box at all is refused, as the devkit does.
FilterCounts filter_boxes(const nuscenes::Dataset* dataset, const EvaluationConfig& config, const char* what,
                          SampleBoxes& boxes);

}  // namespace camber::eval
