#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "camber/sensors/frame.h"

namespace camber::sensors {

/// How well two classes can be told apart, each as the balanced accuracy of a nearest-neighbour probe that leaves out
/// the object's own scene: 0.5 is chance. NaN where one of the classes has fewer than 20 objects.
struct PairProbe {
  std::string first{}, second{};
  double size = 0;   ///< from length, width and height alone
  double lidar = 0;  ///< from what the LiDAR returns: extents of the points, their number, their intensity
  double color = 0;  ///< from the mean colour of the image inside the box
  double image = 0;  ///< from the image inside the box, 8 x 12 gray pixels of mean 0 and deviation 1
  std::array<std::int64_t, 2> objects{};
};

/// How the objects of one class are seen.
struct ClassSight {
  std::string category{};
  std::int64_t objects = 0;
  std::int64_t both = 0, lidar_only = 0, camera_only = 0, neither = 0;
};

/// Whether a data set can show trust, without any network: how many objects each sensor sees well, which it favours,
/// and which classes it confuses.
struct GateReport {
  std::int64_t frames = 0;
  std::int64_t objects = 0, without_points = 0;
  ClassSight all{};
  std::vector<ClassSight> classes{};
  std::vector<PairProbe> pairs{};
  /// One sentence a gate, with its value.
  struct Gate {
    std::string sentence{};
    bool holds = false;
  };
  std::vector<Gate> gates{};
  bool can_show_trust() const;
};

/// An object counts when it lies within `range` metres and has a point. The LiDAR sees it well with 4 points or more
/// (where the label of trust turns positive); the cameras when half of it is visible, on 16 pixels or more, and its
/// image differs from what is beside it by 12 of 255 or more.
struct GateOptions {
  double range = 24;
  std::int64_t min_points = 4;
  double min_visible = 0.5, min_pixels = 16, min_contrast = 12;
  double min_favoured = 0.05;  ///< share of objects that each sensor must see alone
  double confusable = 0.62;    ///< accuracy below which a probe confuses two classes
  double advantage = 0.2;      ///< how much better the other sensor's probe must tell them apart
};

GateReport inspect_gates(const nuscenes::Dataset& dataset, std::span<const nuscenes::Index> samples,
                         const FrameOptions& frames, const GateOptions& options = {}, int threads = 0,
                         const std::function<void(std::int64_t)>& frame_done = {});

std::string to_text(const GateReport& report);
std::string to_json(const GateReport& report);

}  // namespace camber::sensors
