#pragma once
#include <span>
#include <string>
#include <vector>

#include <camber/detection/detection.h>

namespace camber::runs {

/// Detections as the detector states them, before anything is turned into the global frame or left out by range: to
/// compare detectors by (query, label). The boxes have CMT's form (its `boxes_3d`), in the LiDAR's frame at the key
/// frame: x, y, z of the middle of the bottom face, w along the heading, l across it, h, yaw, vx, vy; metres, radians
/// and metres a second.
///
///   RawDetections raw(detector->options());
///   raw.add(token, detector.detect(frame));
///   storage::write_file("raw.json", raw.to_json());
class RawDetections {
 public:
  explicit RawDetections(const detection::DetectorOptions& options) : classes_(options.classes) {}

  void add(const std::string& token, std::span<const detection::Detection> found);

  /// {"frame": "lidar", "classes": [...], "columns": ["x", ...], "results": {token: [{"query", "label", "score",
  /// "box"},
  /// ...]}}, best first, one detection a line. Numbers read back to the same bits, and the same detections give the
  /// same bytes.
  std::string to_json() const;

 private:
  std::vector<std::string> classes_;
  std::string results_{};
};

}  // namespace camber::runs
