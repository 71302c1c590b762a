#include "camber/detection/weights.h"

#include <stdexcept>

#include "camber/config/options.h"
#include "camber/weights/load.h"

namespace camber::detection {

bool holds_options(const storage::SafetensorsFile& file) {
  return file.metadata().contains(kOptionsKey);
}

DetectorOptions options_in(const storage::SafetensorsFile& file, const std::string& name) {
  if (!holds_options(file))
    throw std::runtime_error("[Detector] " + name + " must hold a detector's options under \"" + kOptionsKey +
                             "\" in its metadata: it was not written as a detector");
  return config::parse_stored<DetectorOptions>(file.metadata().at(kOptionsKey), name);
}

void save(const DetectorImpl& detector, const std::filesystem::path& file, storage::Metadata metadata) {
  metadata[kOptionsKey] = config::to_toml(detector.options());
  weights::write_state(file, weights::tensors_of(detector), std::move(metadata));
}

Detector Detector::load(const std::filesystem::path& file, torch::Device device, std::optional<Precision> precision) {
  const weights::StateFile state(file);
  auto options = options_in(state, file.string());
  if (precision) options.precision = *precision;
  Detector detector(std::move(options));
  weights::load_whole(state, *detector);
  detector->to(device);
  detector->eval();
  return detector;
}

}  // namespace camber::detection
