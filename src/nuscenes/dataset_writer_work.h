#pragma once
#include <filesystem>
#include <mutex>
#include <vector>

#include "nuscenes/writer_rows.h"

namespace camber::nuscenes {

/// What a data set and its open scenes share.
class DatasetWriter::Work {
 public:
  Work(std::filesystem::path folder, DatasetWriterOptions given);

  /// The number of a new scene, checked.
  std::size_t begin(const SceneDescription& description);
  void take(std::size_t number, SceneRows&& rows);

  const std::filesystem::path out;
  const DatasetWriterOptions options;
  TokenMaker tokens;
  std::vector<SceneRows> scenes;
  bool shared_calibration = false;  // whether a scene has the data set's own

 private:
  std::mutex mutex_;
};

}  // namespace camber::nuscenes
