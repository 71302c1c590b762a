// made_scene OUT [FRAMES]: the page of a made-up scene: two cameras, a car that drives away, found ones with trust, and
// a second condition in which a camera is off and the car is found elsewhere. A false alarm on the LiDAR is dropped in
// the second frame, a true one kept in the second condition, where the last frame's agreement is not known.
#include <cstdlib>

#include "camber/drawing/canvas.h"
#include "camber/report/scene_page.h"
#include "camber/storage/atomic_file.h"

namespace report = camber::report;
namespace drawing = camber::drawing;

namespace {

std::string image_of(int frame, int camera, int width, int height) {
  drawing::Canvas canvas(width, height, {120, 150, 190});
  canvas.fill_rectangle({0, height * 0.5}, width, height * 0.5, {90, 90, 92});
  canvas.fill_rectangle({width * 0.3 + 3.0 * frame, height * 0.45}, width * 0.2, height * 0.2, {160, 40, 40});
  canvas.text({6, height - 24.0}, "camera " + std::to_string(camera) + " frame " + std::to_string(frame),
              drawing::kWhite, 2);
  return drawing::encode_image(canvas, "view.jpg");
}

report::SceneObject car(double ahead, bool found) {
  return {.name = "car",
          .colour = "#ffb81c",
          .center = {ahead, 2, 0.8},
          .size = {4.5, 1.9, 1.6},
          .yaw = 0.2,
          .found = found};
}

report::SceneObject found_car(double ahead, double camera_trust) {
  report::SceneObject object = car(ahead, true);
  object.score = 0.87;
  object.speed = 3.2;
  object.trust = {0.9, camera_trust};
  object.mass = {0.6, 0.3, 0.1};
  object.window = report::SceneWindow{.bird = {{{ahead - 2, 0}, {ahead + 2, 0}, {ahead + 2, 4}, {ahead - 2, 4}}},
                                      .cameras = {std::array<double, 4>{0.3, 0.4, 0.5, 0.7}, std::nullopt}};
  return object;
}

}  // namespace

int main(int argument_count, char** arguments) {
  const int frames = argument_count > 2 ? std::atoi(arguments[2]) : 4, width = 320, height = 180;
  report::ScenePage page{.title = "scene-<1>",
                         .subtitle = "made up",
                         .window_note = "White areas are the windows.",
                         .range = 40,
                         .interval = 0.2,
                         .has_run = true,
                         .policy = "verified_bias",
                         .threshold = 0.16,
                         .conditions = {"clean", "camera_off:1"},
                         .sensors = {"LiDAR", "cameras"},
                         .cameras = {{"CAM_FRONT", width, height}, {"CAM_BACK", width, height}},
                         .camera_order = {0, 1}};
  // Ahead and behind, 60 degrees wide, 1.5 m above the ground, as shares of the image.
  const std::array<double, 12> ahead = {0.5, -0.87, 0, 0, 0.5, 0, -1.55, 2.3, 1, 0, 0, 0};
  const std::array<double, 12> behind = {-0.5, 0.87, 0, 0, -0.5, 0, -1.55, 2.3, -1, 0, 0, 0};
  for (int frame = 0; frame < frames; ++frame) {
    const double distance = 10 + 2.0 * frame;
    report::SceneFrame shown{.time = 0.5 * frame, .pose = {5.0 * frame, 0, 0}};
    shown.truth = {car(distance, false)};
    shown.truth[0].object = 3;
    shown.truth[0].points = 42;
    std::vector<std::int16_t> cloud;
    for (int i = 0; i < 400; ++i)
      cloud.insert(cloud.end(), {static_cast<std::int16_t>(100 * distance - 200 + i),
                                 static_cast<std::int16_t>(150 + i % 90), static_cast<std::int16_t>(i % 160)});
    page.points.push_back(cloud);
    for (int camera = 0; camera < 2; ++camera) page.images.push_back(image_of(frame, camera, width, height));
    const std::int64_t first_image = std::int64_t{2} * frame;
    shown.views = {{.images = {first_image, first_image + 1},
                    .matrices = {ahead, behind},
                    .points = frame,
                    .found = {found_car(distance + 0.4, 0.7)},
                    .agreement = 0.4 + 0.02 * (frame % 10),
                    .camera_agreement = {0.45, std::nullopt},
                    .alarms = {{.age = frame == 1 ? 1.0 : 0.1, .state = frame == 1 ? "dropped" : "none"},
                               {.age = 0.1},
                               {.age = 0.2}}},
                   {.images = {first_image, -1},
                    .matrices = {ahead, std::nullopt},
                    .points = frame,
                    .found = {found_car(distance + 1.5, -0.4)},
                    .agreement = frame + 1 == frames ? std::nullopt : std::optional(-0.05),
                    .camera_agreement = {-0.05, std::nullopt},
                    .alarms = {{.age = 0.1}, {.age = 0.9, .state = "kept"}, {.age = 1, .state = "off"}}}};
    page.frames.push_back(std::move(shown));
  }
  camber::storage::write_file(arguments[1], report::to_html(page));
}
