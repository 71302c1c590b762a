#include "camber/eval/ground_truth.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>

#include "eval/arithmetic.h"

namespace camber::eval {
namespace {

using nuscenes::Index;
using nuscenes::kNone;
using nuscenes::SampleAnnotation;

AttributeNumber attribute_of(const nuscenes::Tables& tables, const SampleAnnotation& annotation) {
  const auto attributes = tables.attributes_of(annotation);
  if (attributes.empty()) return kNoAttribute;
  if (attributes.size() > 1)
    throw std::runtime_error("[load_ground_truth] sample_annotation '" + std::string(annotation.token) +
                             "' must have at most one attribute, got " + std::to_string(attributes.size()));
  const std::string_view name = tables.attribute[attributes[0]].name;
  const auto number = attribute_number(name);
  if (!number)
    throw std::runtime_error("[load_ground_truth] sample_annotation '" + std::string(annotation.token) +
                             "' has the unknown attribute '" + std::string(name) + "'");
  return *number;
}

std::unordered_map<std::string_view, std::int32_t> indices_of(const std::vector<std::string>& tokens) {
  std::unordered_map<std::string_view, std::int32_t> positions;
  for (std::size_t i = 0; i < tokens.size(); ++i) positions.emplace(tokens[i], static_cast<std::int32_t>(i));
  return positions;
}

[[noreturn]] void refuse_sample(const std::string& token, const char* what) {
  throw std::runtime_error("[pair_boxes] predictions must be for exactly the samples that are evaluated: sample '" +
                           token + "' " + what);
}

// The predictions of `tokens` in that order; every one of them must be there.
SampleBoxes in_order_of(const std::vector<std::string>& tokens, const SampleBoxes& predictions) {
  const auto positions = indices_of(predictions.tokens);
  SampleBoxes result;
  for (const std::string& token : tokens) {
    const auto found = positions.find(token);
    if (found == positions.end()) refuse_sample(token, "is missing in the results");
    result.open_sample(token);
    for (const DetectionBox& box : predictions.of(static_cast<std::size_t>(found->second))) result.push(box);
  }
  return result;
}

// A bicycle rack as the devkit's points_in_box sees it: one corner and the three edges that leave it.
class Rack {
 public:
  explicit Rack(const SampleAnnotation& annotation) {
    const auto& q = annotation.rotation;
    const std::array<double, 9> r = rotation_matrix({q.w, q.x, q.y, q.z});
    const double x = annotation.size[1] / 2, y = annotation.size[0] / 2, z = annotation.size[2] / 2;
    const auto corner = [&](double sx, double sy, double sz) {
      const std::array<double, 3> own = {x * sx, y * sy, z * sz};
      geometry::Vector3 point{};
      for (std::size_t i = 0; i < 3; ++i) {
        double sum = 0;
        for (std::size_t k = 0; k < 3; ++k) sum = std::fma(r[3 * i + k], own[k], sum);
        point[i] = sum + annotation.translation[i];
      }
      return point;
    };
    corner_ = corner(1, 1, 1);
    const geometry::Vector3 ends[3] = {corner(-1, 1, 1), corner(1, -1, 1), corner(1, 1, -1)};
    for (std::size_t edge = 0; edge < 3; ++edge)
      for (std::size_t i = 0; i < 3; ++i) edges_[edge][i] = ends[edge][i] - corner_[i];
  }

  bool contains(const geometry::Vector3& point) const {
    geometry::Vector3 v{};
    for (std::size_t i = 0; i < 3; ++i) v[i] = point[i] - corner_[i];
    for (const geometry::Vector3& edge : edges_) {
      const double along = dot(edge, v);
      if (!(0 <= along && along <= dot(edge, edge))) return false;
    }
    return true;
  }

 private:
  static double dot(const geometry::Vector3& a, const geometry::Vector3& b) {
    return (a[0] * b[0] + a[1] * b[1]) + a[2] * b[2];
  }

  geometry::Vector3 corner_{};
  std::array<geometry::Vector3, 3> edges_{};
};

std::vector<Rack> racks_of(const nuscenes::Dataset& dataset, Index sample) {
  std::vector<Rack> racks;
  for (const Index row : dataset.tables().annotations_of(sample)) {
    const SampleAnnotation& annotation = dataset.tables().sample_annotation[row];
    if (dataset.category_of(annotation) == kBicycleRackCategory) racks.emplace_back(annotation);
  }
  return racks;
}

void set_ego_distances(const nuscenes::Dataset& dataset, const std::string& channel, Index row,
                       std::span<DetectionBox> boxes) {
  const Index pose_row = dataset.key_frame(row, channel);
  if (pose_row == kNone)
    throw std::runtime_error("[filter_boxes] sample '" + std::string(dataset.tables().sample[row].token) +
                             "' must have a key frame of " + (channel.empty() ? "a LiDAR or camera" : channel) +
                             ", whose ego pose the distances are taken from");
  const nuscenes::EgoPose& ego = dataset.tables().ego_pose[dataset.tables().sample_data[pose_row].ego_pose];
  for (DetectionBox& box : boxes) {
    const double x = box.translation[0] - ego.translation[0], y = box.translation[1] - ego.translation[1];
    box.ego_distance = std::sqrt(x * x + y * y);
  }
}

bool is_cycle(const DetectionBox& box) {
  return box.label == DetectionClass::kBicycle || box.label == DetectionClass::kMotorcycle;
}

}  // namespace

SampleBoxes load_ground_truth(const nuscenes::Dataset& dataset, const nuscenes::Split& split) {
  const nuscenes::Tables& tables = dataset.tables();
  if (tables.sample_annotation.empty())
    throw std::runtime_error("[load_ground_truth] " + (dataset.root() / dataset.version()).string() +
                             " has no annotations to evaluate against");
  SampleBoxes truth;
  for (std::size_t position = 0; position < split.samples.size(); ++position) {
    const Index sample = split.samples[position];
    truth.open_sample(std::string(tables.sample[sample].token));
    for (const Index row : tables.annotations_of(sample)) {
      const SampleAnnotation& annotation = tables.sample_annotation[row];
      const auto label = class_of_category(dataset.category_of(annotation));
      if (!label) continue;
      const auto& q = annotation.rotation;
      const geometry::Vector3 velocity = dataset.velocity_of(annotation);
      truth.push({.translation = annotation.translation,
                  .size = annotation.size,
                  .rotation = {q.w, q.x, q.y, q.z},
                  .velocity = {velocity[0], velocity[1]},
                  .sample = static_cast<std::int32_t>(position),
                  .points = static_cast<std::int32_t>(std::min<std::int64_t>(
                      std::int64_t{annotation.lidar_points} + annotation.radar_points, INT32_MAX)),
                  .label = *label,
                  .attribute = attribute_of(tables, annotation)});
    }
  }
  return truth;
}

EvaluationBoxes pair_boxes(const nuscenes::Split* split, const nuscenes::Dataset* dataset, SampleBoxes truth,
                           SampleBoxes predictions) {
  const auto truth_indexs = indices_of(truth.tokens);
  // Where a prediction's own sample stands among the true ones, by its index among the predictions' samples.
  std::vector<std::int32_t> index_of_sample;
  for (const std::string& token : predictions.tokens) {
    const auto found = truth_indexs.find(token);
    index_of_sample.push_back(found == truth_indexs.end() ? -1 : found->second);
  }
  for (DetectionBox& box : predictions.boxes)
    if (box.sample >= 0) box.sample = index_of_sample[static_cast<std::size_t>(box.sample)];
  EvaluationBoxes boxes;
  if (split != nullptr && !split->official) {
    boxes.predictions = in_order_of(truth.tokens, predictions);
  } else {
    const auto prediction_indexs = indices_of(predictions.tokens);
    for (const std::string& token : truth.tokens)
      if (!prediction_indexs.contains(token)) refuse_sample(token, "is missing in the results");
    for (const std::string& token : predictions.tokens)
      if (!truth_indexs.contains(token)) refuse_sample(token, "of the results is not among them");
    boxes.predictions = std::move(predictions);
  }
  if (split != nullptr && dataset != nullptr)
    for (const Index sample : split->samples) boxes.scene_of_sample.push_back(dataset->tables().sample[sample].scene);
  boxes.truth = std::move(truth);
  return boxes;
}

FilterCounts filter_boxes(const nuscenes::Dataset* dataset, const EvaluationConfig& config, const char* what,
                          SampleBoxes& boxes) {
  if (boxes.boxes.empty())
    throw std::runtime_error(std::string("[filter_boxes] ") + what + " must hold at least one box, got none in " +
                             std::to_string(boxes.samples()) + " samples");
  std::vector<std::vector<Rack>> racks(boxes.samples());
  if (dataset != nullptr) {
    const std::string channel = dataset->reference_channel();
    for (std::size_t sample = 0; sample < boxes.samples(); ++sample) {
      const Index row = dataset->tables().sample.find(boxes.tokens[sample]);
      set_ego_distances(*dataset, channel, row, boxes.of(sample));
      racks[sample] = racks_of(*dataset, row);
    }
  }
  FilterCounts counts;
  boxes.filter([&](std::size_t sample, const DetectionBox& box) {
    const auto range = config.range_of(box.label);
    if (!range) return false;
    ++counts.total;
    if (!(box.ego_distance < *range)) return false;
    ++counts.in_range;
    if (box.points == 0) return false;
    ++counts.with_points;
    if (is_cycle(box))
      for (const Rack& rack : racks[sample])
        if (rack.contains(box.translation)) return false;
    ++counts.outside_racks;
    return true;
  });
  return counts;
}

}  // namespace camber::eval
