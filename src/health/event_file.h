#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "camber/health/metric.h"
#include "health/append_file.h"

/// TensorBoard's event files, without protobuf. A file is a row of records
///
///   u64 length | u32 masked crc32c(length) | payload | u32 masked crc32c(payload),   little-endian,
///
/// and a payload is an Event message: 1 wall_time double, 2 step int64, 3 file_version, 5 summary, 7 session_log.
namespace camber::health {

/// Castagnoli's CRC, reflected: crc32c("123456789") = 0xe3069283.
std::uint32_t crc32c(std::string_view bytes);

/// A payload with its length and checksums.
std::string event_record(std::string_view payload);

/// Payloads.
std::string version_event(double time);
std::string session_start_event(double time, std::int64_t step);
std::string scalar_event(double time, std::int64_t step, const Metrics& metrics);
std::string text_event(double time, std::int64_t step, std::string_view tag, std::string_view text);

/// How many bytes of an event file are whole records of steps up to `last_step`; what lies after them is unfinished,
/// damaged or to be forgotten.
std::int64_t event_bytes_until(std::string_view file, std::int64_t last_step);

/// Starts an event file in the folder. Its name sorts after those that are there: TensorBoard reads in that order.
/// With a resumed step the old files are cut after it, and the new one begins a session at the step that follows.
AppendFile start_event_file(const std::filesystem::path& folder, double time, std::optional<std::int64_t> resume_step);

}  // namespace camber::health
