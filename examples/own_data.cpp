// A data set of your own sensors in the nuScenes schema, from arrays: two scenes with a LiDAR and two cameras of
// different size, one of which drops a frame.
#include <cstdio>
#include <vector>

#include <camber/nuscenes/dataset_writer.h>

namespace nuscenes = camber::nuscenes;

int main(int argc, char** argv) {
  const char* out = argc > 1 ? argv[1] : "own_data";
  // Where each sensor sits on the car: metres and a quaternion (w, x, y, z) into the ego frame.
  const std::vector<nuscenes::RigSensor> rig = {
      {.channel = "LIDAR_TOP", .modality = nuscenes::Modality::kLidar, .translation = {0.9, 0, 1.8}},
      {.channel = "CAM_FRONT",
       .modality = nuscenes::Modality::kCamera,
       .translation = {1.7, 0, 1.5},
       .rotation = {0.5, -0.5, 0.5, -0.5},  // looks ahead: z of the camera along x of the car
       .intrinsic = {180, 0, 120, 0, 180, 48, 0, 0, 1},
       .width = 240,
       .height = 96},
      {.channel = "CAM_BACK",
       .modality = nuscenes::Modality::kCamera,
       .translation = {0, 0, 1.6},
       .rotation = {0.5, -0.5, -0.5, 0.5},
       .intrinsic = {90, 0, 60, 0, 90, 24, 0, 0, 1},
       .width = 120,
       .height = 48}};
  nuscenes::DatasetWriter writer(out, {.version = "v1.0-own", .sensors = rig});
  for (const char* name : {"scene-0001", "scene-0002"}) {
    nuscenes::SceneWriter scene = writer.scene({.name = name, .description = "an example"});
    for (int frame = 0; frame < 4; ++frame) {
      const std::int64_t time = 1'700'000'000'000'000 + 500'000 * frame;    // microseconds
      const nuscenes::WrittenPose car{.translation = {5.0 * frame, 0, 0}};  // ego frame to global frame
      scene.begin_frame(time);
      std::vector<float> points;  // x, y, z, intensity, ring of a car's back, 12 m before the LiDAR
      for (int i = 0; i < 60; ++i) points.insert(points.end(), {12.0F, 0.03F * i - 0.9F, -1.2F + 0.02F * i, 80, 4});
      scene.add_points("LIDAR_TOP", time, car, points);
      scene.add_image("CAM_FRONT", time - 20'000, car, std::vector<std::uint8_t>(240 * 96 * 3, 120));
      if (frame != 2) scene.add_image("CAM_BACK", time - 35'000, car, std::vector<std::uint8_t>(120 * 48 * 3, 90));
      scene.add_box({.object = "17",
                     .category = "vehicle.car",
                     .center = {5.0 * frame + 15.1, 0, 0.8},  // global frame
                     .width = 1.9,
                     .length = 4.5,
                     .height = 1.6,
                     .attributes = {"vehicle.moving"}});
    }
    scene.finish();
  }
  const nuscenes::WrittenCounts counts = writer.finish({{"train", {"scene-0001"}}, {"val", {"scene-0002"}}});
  std::printf("%lld frames, %lld boxes: %s\n", static_cast<long long>(counts.frames),
              static_cast<long long>(counts.boxes), out);
}
