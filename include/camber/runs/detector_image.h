#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <camber/runs/detector_passes.h>
#include <camber/sensors/frame_image.h>

namespace camber::runs {

/// A frame and what was found in it.
struct FoundFrame {
  sensors::LoadedSample sample{};
  std::vector<detection::Detection> found{};
};

struct FoundImageOptions {
  sensors::FrameImageOptions frame{};
  double min_score = 0.3;  ///< found boxes below it are not drawn
};

/// Orange where the LiDAR is trusted more, blue where the cameras are, white where both are alike; darker where neither
/// is trusted. Without a router: white.
drawing::Colour trust_colour(const std::vector<double>& trust);

/// The bird's-eye view and every camera: true boxes thin, in their class's colour; found ones thick, in the colour of
/// their trust, with class, score and, for a router, the trust in LiDAR (L) and cameras (C).
drawing::Canvas draw_found(const FoundFrame& frame, const detection::DetectorOptions& options,
                           const FoundImageOptions& image = {});

/// Frames of a scene side by side: the bird's-eye view and the first camera of each.
drawing::Canvas draw_strip(const std::vector<FoundFrame>& frames, const detection::DetectorOptions& options,
                           const FoundImageOptions& image = {});

}  // namespace camber::runs
