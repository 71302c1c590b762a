#include <stdexcept>

#include <camber/detection/weights.h>
#include <camber/train/checkpoint.h>
#include <camber/train/load_detector.h>
#include <camber/train/run_folder.h>

namespace camber::train {

detection::Detector load_detector(const std::filesystem::path& file) {
  const storage::SafetensorsFile opened(file);
  detection::Detector detector(detection::options_in(opened, file.string()));
  const LoadReport report = load_weights(file, *detector);
  if (!report.complete()) {
    throw std::runtime_error("[detector] " + file.string() + " must hold every tensor of its detector, got " +
                             report.text());
  }
  detector->eval();
  return detector;
}

std::filesystem::path weights_of_run(const std::filesystem::path& folder) {
  const RunFolder run = RunFolder::open(folder);
  const CheckpointFolder checkpoints = run.checkpoints();
  for (const std::filesystem::path& file : {run.weights(), checkpoints.last(), checkpoints.previous()}) {
    if (std::filesystem::exists(file)) {
      return file;
    }
  }
  throw std::invalid_argument("[train] " + folder.string() + " must hold weights, got a run without a checkpoint");
}

}  // namespace camber::train
