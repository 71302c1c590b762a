// Detector::detect beside DetectorSession::detect on six images of 1600 x 900 and 30,000 points: time, and the bytes
// that C++ containers take for a call (tensors, which torch allocates, are not among them).
//   detector_session_bench [REPEATS]
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <vector>

#include <ATen/Parallel.h>

#include "camber/detection/detector_session.h"
#include "camber/random/stream.h"

namespace {
std::atomic<std::size_t> allocated{0};
}

// Not inline: GCC 12 takes the pair for a mismatch where it sees malloc and free.
[[gnu::noinline]] void* operator new(std::size_t size) {
  allocated += size;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace {

using namespace camber;

constexpr std::int64_t kWidth = 1600, kHeight = 900, kCameras = 6, kPoints = 30000;

struct Arrays {
  std::vector<float> points;
  std::vector<std::uint8_t> image;
  detection::Frame frame;

  Arrays() {
    random::Stream stream(5, "bench");
    for (std::int64_t i = 0; i < 4 * kPoints; ++i) points.push_back(static_cast<float>(stream.uniform(-25, 25)));
    for (std::int64_t i = 0; i < 3 * kWidth * kHeight; ++i)
      image.push_back(static_cast<std::uint8_t>(stream.integer(256)));
    frame.points = {.data = points.data(), .count = kPoints, .stride = 4};
    for (std::int64_t i = 0; i < kCameras; ++i)
      frame.cameras.push_back({.name = std::to_string(i),
                               .image = {.data = image.data(), .width = kWidth, .height = kHeight},
                               .intrinsic = {1260, 0, 800, 0, 1260, 450, 0, 0, 1},
                               .lidar_to_camera = {.rotation = {1, 0, 0, 0, 0, -1, 0, 1, 0}}});
  }
};

template <class Action>
void report(const char* name, int repeats, const Action& action) {
  std::vector<double> times;
  std::size_t bytes = 0;
  for (int i = 0; i < repeats + 3; ++i) {
    const std::size_t before = allocated;
    const auto begin = std::chrono::steady_clock::now();
    action();
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
    bytes = allocated - before;
  }
  times.erase(times.begin(), times.begin() + 3);
  std::sort(times.begin(), times.end());
  std::printf("%-24s p50 %7.2f ms   p95 %7.2f ms   %7.2f MB\n", name, times[times.size() / 2],
              times[times.size() * 95 / 100], static_cast<double>(bytes) / 1e6);
}

}  // namespace

int main(int argc, char** argv) {
  const int repeats = argc > 1 ? std::max(1, std::atoi(argv[1])) : 30;
  at::set_num_threads(1);
  auto options = detection::DetectorOptions::small();
  options.router.mode = nn::RouterMode::kLearned;
  options.bias.segments = true;
  detection::Detector detector(options, 1);
  detector->eval();
  Arrays arrays;
  report("Detector::detect", repeats, [&] { detector.detect(arrays.frame); });
  detection::DetectorSession session(detector);
  std::int64_t time = 0;
  report("DetectorSession::detect", repeats, [&] {
    arrays.frame.timestamp = time += 500000;
    session.detect(arrays.frame);
  });
}
