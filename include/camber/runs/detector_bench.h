#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <camber/detection/detector.h>
#include <camber/nuscenes/dataset.h>
#include <camber/nuscenes/splits.h>

namespace camber::runs {

struct DetectorBenchOptions {
  std::int64_t repeats = 50;    ///< frames, and training steps, that are timed
  std::int64_t warmup = 5;      ///< of each that are not
  std::int64_t batch_size = 4;  ///< of the training steps
  bool training = true;         ///< also time training steps
  bool processor_time = false;  ///< processor time divided by the threads instead of wall time, on a busy machine
  std::uint64_t seed = 0;
  std::filesystem::path dump{};  ///< write the batch, the weights and the outputs there, for the peer; empty: nothing
};

/// Milliseconds of one stage.
struct StageTime {
  std::string stage{};
  double p50 = 0, p95 = 0;
};

struct DetectorBench {
  /// decode (files to points and images), cues, collate, voxelise, points and images (the encoders), positions (of the
  /// keys, anew as for a calibration that was never seen), head, boxes, and detect: all but decode, as a
  /// DetectorSession does it
  std::vector<StageTime> frame{};
  std::vector<StageTime> training{};         ///< forward, losses, backward, optimiser, and step: all of them
  std::vector<StageTime> training_on_one{};  ///< the same on one thread, in turns with the others; empty with one alone
  int threads = 1;                           ///< of the training steps
  std::int64_t parameters = 0;
  std::int64_t keys = 0;
  std::int64_t memory = 0;  ///< bytes by which the process's peak over all frames is above its size with the weights

  /// How many times as fast as on one thread a training step is, by the p50 of both.
  double speedup() const;

  std::string to_text() const;
  std::string to_json() const;
};

/// Times every stage, frame by frame over the split's frames in turn, and training steps on one batch of them: with
/// several threads every other step on one, to tell what the others are worth.
DetectorBench bench_detector(detection::Detector detector, const nuscenes::Dataset& dataset,
                             const nuscenes::Split& split, const DetectorBenchOptions& options);

}  // namespace camber::runs
