#pragma once
#include <cstdint>

#include "camber/detection/batch.h"
#include "camber/detection/detector.h"

namespace camber::detection::examples {

/// A camera at (x, y, -0.3) in the LiDAR frame that looks along `yaw` (0: +x), 70 degrees wide.
geometry::Camera camera_at(double x, double y, double yaw, std::int64_t width, std::int64_t height,
                           std::int64_t stride);

/// A batch that needs no data set: random points and images, `cameras` cameras all round of the options' image
/// size, three objects in the first frame and one less in each further one (none below zero).
DetectorBatch example_batch(const DetectorOptions& options, std::int64_t size, std::int64_t cameras,
                            std::uint64_t seed = 3);

/// The small detector with few queries, so that tests are quick.
DetectorOptions tiny_options();

/// How much of the first layer's cross-attention lies near the queries' own positions, mean over queries and heads: on
/// grid cells whose centre is within 4 m, and on the 3 x 3 camera cells round their projections (queries that a camera
/// sees).
struct Locality {
  double grid = 0, cameras = 0;
};
Locality first_layer_locality(DetectorImpl& detector, const DetectorBatch& batch);

}  // namespace camber::detection::examples
