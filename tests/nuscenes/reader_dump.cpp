#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "camber/nuscenes/splits.h"
#include "camber/sensors/points.h"

/// Prints what the reader found, for comparison with the devkit by tests/eval/devkit/reader.py:
///   reader_dump splits
///   reader_dump velocities ROOT VERSION
///   reader_dump sweeps ROOT VERSION SAMPLE PREVIOUS
namespace {

using namespace camber::nuscenes;

void print_splits() {
  for (const std::string& name : official_split_names()) {
    std::printf("%s", name.c_str());
    for (const std::string& scene : official_split(name)) std::printf(" %s", scene.c_str());
    std::printf("\n");
  }
}

void print_velocities(const Dataset& dataset) {
  for (const SampleAnnotation& annotation : dataset.tables().sample_annotation) {
    const auto velocity = dataset.velocity_of(annotation);
    std::printf("%s %a %a %a\n", std::string(annotation.token).c_str(), velocity[0], velocity[1], velocity[2]);
  }
}

void print_sweeps(const Dataset& dataset, const char* sample, const char* previous) {
  const auto points =
      camber::sensors::aggregate_sweeps(dataset, dataset.tables().sample.find(sample), {"LIDAR_TOP"}, "LIDAR_TOP",
                                        {.previous = std::atoll(previous), .filter_key_frame = true});
  for (const camber::sensors::LidarPoint& point : points)
    std::printf("%a %a %a %a %a %a\n", point.x, point.y, point.z, point.intensity, point.ring, point.time_lag);
}

}  // namespace

int main(int count, char** arguments) {
  const std::string job = count > 1 ? arguments[1] : "";
  try {
    if (job == "splits" && count == 2)
      print_splits();
    else if (job == "velocities" && count == 4)
      print_velocities({arguments[2], arguments[3]});
    else if (job == "sweeps" && count == 6)
      print_sweeps({arguments[2], arguments[3]}, arguments[4], arguments[5]);
    else
      return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
