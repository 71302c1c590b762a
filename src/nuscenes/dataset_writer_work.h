#pragma once
#include <filesystem>
#include <mutex>
#include <optional>
#include <vector>

#include "camber/storage/output_folder.h"
#include "nuscenes/writer_rows.h"

namespace camber::nuscenes {

/// What a data set and its open scenes share.
class DatasetWriter::Work {
 public:
  Work(std::filesystem::path folder, DatasetWriterOptions given);
  ~Work();
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  /// The number of a new scene, checked.
  std::size_t begin(const SceneDescription& description);
  void take(std::size_t number, SceneRows&& rows);

  const std::filesystem::path out;
  const DatasetWriterOptions options;
  TokenMaker tokens;
  std::vector<SceneRows> scenes;
  bool shared_calibration = false;  // whether a scene has the data set's own

  /// The tables are there: nothing of it goes any more.
  void finish();

 private:
  // One of the two: a folder of its own, or a further version in one that holds others.
  std::optional<storage::OutputFolder> output_;
  std::optional<storage::FolderLock> lock_;
  std::mutex mutex_;
};

}  // namespace camber::nuscenes
