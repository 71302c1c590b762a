#pragma once
#include <span>
#include <vector>

#include "camber/geometry/box.h"
#include "camber/sensors/fault.h"
#include "camber/sensors/image.h"
#include "camber/sensors/points.h"

/// What each fault does to one image or one cloud. Sizes follow the image's, so that the network's image and the
/// camera's own suffer alike.
namespace camber::sensors {

/// black, dark, noise, blur and rain; other kinds leave the image as it is.
void degrade_image(Image& image, const Fault& fault, const random::Stream& stream);

/// What a cloud's fault may look at besides the points.
struct CloudSurroundings {
  std::span<const geometry::Box> objects{};  ///< in the points' frame
  geometry::Vector3 ahead{0, 1, 0};          ///< where the car looks, in the points' frame
};

/// empty, ghost, beams, limited_view, dropped_objects, dropped_points and shift; other kinds leave the points as they
/// are. `scene` draws what stays the same over a scene, `frame` the rest.
void degrade_points(std::vector<LidarPoint>& points, const Fault& fault, const CloudSurroundings& surroundings,
                    const random::Stream& scene, const random::Stream& frame);

/// How far a camera is turned without its calibration's knowledge, radians to the left; drawn once a scene.
double calibration_error(const Fault& fault, std::size_t camera, const random::Stream& scene);

/// Refuses a fault that is to befall more cameras than there are.
void check_cameras(const Fault& fault, std::size_t count);

/// Which of `count` cameras a fault hits: a share of them (at least one) where its parameter is one, else as many as it
/// names, else all.
std::vector<bool> cameras_hit(const Fault& fault, std::size_t count, const random::Stream& scene);

}  // namespace camber::sensors
