#include <algorithm>
#include <cstdio>

#include <camber/runs/detector_image.h>

namespace camber::runs {

sensors::SensorFrame frame_for_drawing(const DetectionRequest& request, nuscenes::Index sample,
                                       const Condition& condition, const std::vector<std::string>& camera_order) {
  sensors::FrameOptions options = sensors::FrameOptions::for_drawing();
  options.camera_order = camera_order;
  return sensors::load_sensor_frame(
      request.dataset, sample, options, condition,
      request.fault_pool.empty() ? nuscenes::fault_pool(request.dataset, request.split) : request.fault_pool,
      random::Stream(request.seed, "faults"));
}

std::vector<sensors::BoxMark> marks_of(const FoundFrame& frame, const detection::DetectorOptions& options,
                                       double min_score) {
  std::vector<const detection::Detection*> shown;
  for (const detection::Detection& found : frame.found)
    if (found.score >= min_score) shown.push_back(&found);
  std::stable_sort(shown.begin(), shown.end(), [](const auto* a, const auto* b) { return a->score > b->score; });
  std::vector<sensors::BoxMark> marks;
  for (const detection::Detection* found : shown) {
    const std::string& name = options.classes[static_cast<std::size_t>(found->label)];
    char score[16];
    std::snprintf(score, sizeof score, " %.2f", found->score);
    marks.push_back({.box = found->box, .category = name, .found = true, .words = name + score, .trust = found->trust});
  }
  for (sensors::BoxMark& mark : sensors::true_boxes(frame.frame.frame)) marks.push_back(std::move(mark));
  return marks;
}

}  // namespace camber::runs
