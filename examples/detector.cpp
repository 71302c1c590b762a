// Frames in, boxes out: points, an image and its calibration from one's own arrays, frame after frame of a drive.
//   example_detector MODEL.safetensors
#include <cstdio>
#include <exception>
#include <vector>

#include <camber/detection/detector_session.h>

int main(int argc, char** argv) try {
  if (argc != 2) return std::fprintf(stderr, "usage: example_detector MODEL.safetensors\n"), 2;
  camber::detection::DetectorSession session(camber::detection::Detector::load(argv[1]));

  const std::vector<float> points = {8.0F, 1.0F, -1.2F, 0.4F, 8.1F, 1.1F, -0.9F, 0.4F, 8.0F, 0.9F, -0.6F, 0.4F};
  const std::vector<unsigned char> image(3 * 240 * 96, 96);
  camber::detection::Frame frame;
  frame.lidar_to_ego.translation = {0, 0, 1.8};
  frame.points = {.data = points.data(), .count = 3, .stride = 4, .intensity_scale = 1};
  frame.cameras.push_back({.name = "front",
                           .image = {.data = image.data(), .width = 240, .height = 96},
                           .intrinsic = {171, 0, 120, 0, 171, 36, 0, 0, 1},
                           .lidar_to_camera = {.rotation = {1, 0, 0, 0, 0, -1, 0, 1, 0}, .translation = {0, -0.3, 0}}});

  for (int i = 0; i < 2; ++i) {  // half a second apart, a metre forward
    frame.lidar_timestamp = frame.cameras[0].timestamp = 500'000 * i;
    frame.ego_to_global.translation = {1.0 * i, 0, 0};
    for (const auto& found : session.detect(frame)) {
      if (found.score < 0.05) break;
      std::printf("%-14s %.2f at (%.1f, %.1f), LiDAR's share of its attention %.2f\n",
                  session.detector()->options().classes[static_cast<std::size_t>(found.label)].c_str(), found.score,
                  found.box.center[0], found.box.center[1], found.attention_mass[0]);
    }
    std::printf("the camera's cue of age: %.1f\n", session.cues()[1].age);  // 0.5 not known, then 1: the same image
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
