#pragma once
#include <filesystem>
#include <string>

#include "camber/detection/detector.h"
#include "camber/storage/safetensors.h"

namespace camber::detection {

/// The key under which a file's metadata holds the detector's options as TOML.
inline constexpr const char* kOptionsKey = "detector";

/// Whether a file holds a detector's options, and which.
bool holds_options(const storage::SafetensorsFile& file);
DetectorOptions options_in(const storage::SafetensorsFile& file, const std::string& name);

/// Writes the whole state (camber/weights/state_file.h) and the options, atomically.
void save(const DetectorImpl& detector, const std::filesystem::path& file, storage::Metadata metadata = {});

}  // namespace camber::detection
