#pragma once
#include <filesystem>

#include <camber/detection/detector.h>

namespace camber::train {

/// The detector of a checkpoint or of exported weights, with the running average where the file has one, in evaluation
/// mode. Throws std::runtime_error with a sentence when the file is damaged or lacks a tensor.
detection::Detector load_detector(const std::filesystem::path& file);

/// The exported weights of a run, else its last checkpoint, else the one before.
std::filesystem::path weights_of_run(const std::filesystem::path& folder);

}  // namespace camber::train
