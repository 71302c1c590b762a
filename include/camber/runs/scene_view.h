#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <camber/report/scene_page.h>
#include <camber/runs/detector_passes.h>

namespace camber::runs {

struct SceneViewOptions {
  std::vector<sensors::Fault> faults{};   ///< a second condition that the page can switch to; none: the clean one alone
  sensors::CueErrorOptions cue_errors{};  ///< of that condition
  std::string faults_name{};              ///< as it was asked for
  double min_score = 0.25;                ///< found objects below it are left out
  double range = 0;                ///< metres from the car to the edge of the bird's-eye view; 0: the detector's space
  std::int64_t max_points = 6000;  ///< of a frame; more are thinned evenly
  std::int64_t max_bytes = 14'000'000;  ///< of the images and points in the page; images are made smaller to keep it
  std::function<void(std::int64_t frames)> progress{};
};

/// A scene for its page: images, points and true objects and, with a detector, what it found, whom it trusted and where
/// its queries looked. Frames and faults are those of run_passes for this request. `request.split`
/// holds the scene's samples alone; a null detector: the data as they are.
report::ScenePage scene_view(detection::Detector detector, const DetectionRequest& request,
                             const SceneViewOptions& options);

}  // namespace camber::runs
