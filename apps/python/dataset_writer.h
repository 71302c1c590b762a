#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <torch/custom_class.h>

#include "camber/nuscenes/dataset_writer.h"

namespace camber::python {

/// A scene of a DatasetWriter. Poses are lists of seven numbers: translation, then the quaternion (w, x, y, z).
class SceneWriter : public torch::CustomClassHolder {
 public:
  explicit SceneWriter(nuscenes::SceneWriter writer) : writer_(std::move(writer)) {}

  void begin_frame(std::int64_t timestamp);
  void add_points(const std::string& channel, std::int64_t timestamp, const std::vector<double>& pose,
                  const torch::Tensor& points, bool key_frame);
  void add_image(const std::string& channel, std::int64_t timestamp, const std::vector<double>& pose,
                 const torch::Tensor& image, bool key_frame);
  void add_jpeg(const std::string& channel, std::int64_t timestamp, const std::vector<double>& pose,
                const torch::Tensor& bytes, bool key_frame);
  /// `box`: centre, width, length, height, quaternion.
  void add_box(const std::string& object, const std::string& category, const std::vector<double>& box,
               const std::vector<std::string>& attributes, std::int64_t visibility,
               std::optional<std::int64_t> lidar_points);
  void finish();

 private:
  nuscenes::SceneWriter writer_;
};

class DatasetWriter : public torch::CustomClassHolder {
 public:
  /// `sensors`: one a row, fourteen numbers each: translation, quaternion, fx, fy, cx, cy, skew, width, height; a width
  /// of 0 is a LiDAR's.
  DatasetWriter(const std::string& out, const std::string& version, const std::vector<std::string>& channels,
                const torch::Tensor& sensors);

  c10::intrusive_ptr<SceneWriter> scene(const std::string& name, const std::string& description);
  c10::Dict<std::string, std::int64_t> finish(const c10::Dict<std::string, std::vector<std::string>>& splits);

 private:
  nuscenes::DatasetWriter writer_;
};

}  // namespace camber::python
