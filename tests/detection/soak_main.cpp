// A detector in use for long: threads that each drive a session of their own on one detector, over frames with random
// points, faults, calibrations and image sizes. Prints resident memory and times as JSON (scripts/prove soak).
//   soak --frames 100000 --threads 4
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>

#include <unistd.h>

#include <ATen/Parallel.h>

#include "camber/detection/detector_session.h"
#include "camber/random/stream.h"

namespace camber::detection {
namespace {

using Clock = std::chrono::steady_clock;

struct SoakOptions {
  std::int64_t frames = 4000, threads = 4;
};

// Every part of the small detector, at a size at which a call takes about a millisecond.
Detector soaked_detector() {
  DetectorOptions options = DetectorOptions::small();
  options.space = {.x_min = -6.4, .x_max = 6.4, .y_min = -6.4, .y_max = 6.4, .cell = 1.6, .pillar_cell = 0.8};
  options.encoder.image_width = 32;
  options.encoder.image_height = 16;
  options.encoder.pillar_width = 8;
  options.encoder.bev_channels = 16;
  options.encoder.camera_channels = 16;
  options.head.num_queries = 8;
  options.head.head_width = 8;
  options.head.decoder.num_layers = 1;
  options.head.decoder.width = 16;
  options.head.decoder.num_heads = 2;
  options.head.decoder.feedforward_width = 16;
  options.router.mode = nn::RouterMode::kLearned;
  options.router.width = 16;
  options.router.num_heads = 2;
  options.router.feedforward_width = 16;
  options.bias.segments = true;
  options.bias.num_layers = 1;
  options.bias.num_heads = 2;
  Detector detector(options, 1);
  detector->eval();
  return detector;
}

double resident_megabytes() {
  std::ifstream numbers("/proc/self/statm");
  double total = 0, resident = 0;
  numbers >> total >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

// One car: its buffers are its own, a frame borrows them.
class Car {
 public:
  Car(Detector detector, std::uint64_t number) : session_(std::move(detector)), stream_(7, "soak") {
    stream_ = stream_.at(number);
    points_.resize(std::size_t{5} * kMostPoints);
    image_.resize(std::size_t{3} * kMostWidth * kMostHeight);
    for (float& value : points_) value = static_cast<float>(stream_.uniform() * 12 - 6);
    for (std::uint8_t& value : image_) value = static_cast<std::uint8_t>(stream_.integer(256));
  }

  // Milliseconds of one call.
  double drive() {
    if (stream_.chance(0.01)) session_.reset();
    const Frame frame = next();
    const auto start = Clock::now();
    const std::vector<Detection> found = session_.detect(frame);
    const double milliseconds = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    const bool delivers =
        frame.lidar_available || std::any_of(frame.cameras.begin(), frame.cameras.end(),
                                             [](const CameraInput& camera) { return camera.available; });
    if (delivers && found.empty()) throw std::logic_error("nothing was found, not even a bad box");
    return milliseconds;
  }

 private:
  static constexpr std::int64_t kMostPoints = 400, kMostWidth = 96, kMostHeight = 64, kCameras = 3;

  Frame next() {
    time_ += 50000 + static_cast<std::int64_t>(stream_.integer(100000));
    Frame frame{.lidar_available = !stream_.chance(0.1), .lidar_timestamp = time_};
    // Empty clouds, and points that are no numbers.
    const auto count = stream_.chance(0.05) ? 0 : static_cast<std::int64_t>(1 + stream_.integer(kMostPoints));
    points_[stream_.integer(points_.size())] =
        stream_.chance(0.5) ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(stream_.uniform());
    frame.points = {.data = points_.data(), .count = count};
    frame.timestamp = time_;
    frame.ego_to_global.translation = {1e-6 * static_cast<double>(time_), 0, 0};
    for (std::int64_t i = 0; i < kCameras; ++i) {
      const auto width = static_cast<std::int64_t>(8 + stream_.integer(kMostWidth - 8));
      const auto height = static_cast<std::int64_t>(8 + stream_.integer(kMostHeight - 8));
      // Now and then an old reading; a calibration of its own at one frame in ten.
      if (stream_.chance(0.1)) focal_ = 20 + 10 * stream_.uniform();
      CameraInput camera{.name = "CAM_" + std::to_string(i),
                         .image = {.data = image_.data(), .width = width, .height = height},
                         .timestamp = stream_.chance(0.1) ? time_ - 500000 : time_,
                         .available = !stream_.chance(0.1)};
      camera.intrinsic = {focal_, 0, static_cast<double>(width) / 2, 0, focal_, static_cast<double>(height) / 2, 0,
                          0,      1};
      camera.lidar_to_camera.rotation = {0, -1, 0, 0, 0, -1, 1, 0, 0};
      frame.cameras.push_back(camera);
    }
    return frame;
  }

  DetectorSession session_;
  random::Stream stream_;
  std::vector<float> points_;
  std::vector<std::uint8_t> image_;
  std::int64_t time_ = 1700000000000000;
  double focal_ = 25;
};

double percentile(std::vector<float> values, double share) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

int soak(const SoakOptions& options) {
  at::set_num_threads(1);  // the cars are the threads
  const Detector detector = soaked_detector();
  const std::int64_t warm_up = std::min<std::int64_t>(1000, options.frames / 4);
  std::vector<float> times(static_cast<std::size_t>(options.frames));
  std::atomic<std::int64_t> done{0};
  std::atomic<double> after_warm_up{0};
  const auto begin = Clock::now();
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(options.threads));
  for (std::int64_t number = 0; number < options.threads; ++number)
    threads.emplace_back([&, number] {
      Car car(detector, static_cast<std::uint64_t>(number));
      for (std::int64_t frame = done++; frame < options.frames; frame = done++) {
        times[static_cast<std::size_t>(frame)] = static_cast<float>(car.drive());
        if (frame == warm_up) after_warm_up = resident_megabytes();
      }
      while (done < options.frames + options.threads) std::this_thread::yield();  // memory is read while all live
      if (number == 0) {
        const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
        const std::vector<float> first(times.begin() + warm_up, times.begin() + options.frames / 4 + warm_up / 2);
        const std::vector<float> last(times.end() - options.frames / 4, times.end());
        std::printf(
            "{\"frames\": %ld, \"warm_up_frames\": %ld, \"seconds\": %.1f, \"megabytes_after_warm_up\": %.1f, "
            "\"megabytes_at_end\": %.1f, \"p50\": %.3f, \"p99_first\": %.3f, \"p99_last\": %.3f}\n",
            static_cast<long>(options.frames), static_cast<long>(warm_up), seconds, after_warm_up.load(),
            resident_megabytes(), percentile(times, 0.5), percentile(first, 0.99), percentile(last, 0.99));
        std::fflush(stdout);
      }
    });
  for (std::thread& thread : threads) thread.join();
  return 0;
}

}  // namespace
}  // namespace camber::detection

int main(int count, char** words) {
  camber::detection::SoakOptions options;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string name = words[i];
    (name == "--threads" ? options.threads : options.frames) = std::atoll(words[i + 1]);
  }
  return camber::detection::soak(options);
}
