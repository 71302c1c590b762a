#include "health/event_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "camber/storage/file.h"

namespace camber::health {
namespace {

constexpr std::string_view kPrefix = "events.out.tfevents.";
constexpr std::size_t kHeaderBytes = 12, kFooterBytes = 4;

// Keys of the fields: number << 3 | wire type (0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes).
constexpr char kDouble1 = 0x09, kVarint1 = 0x08, kVarint2 = 0x10, kBytes1 = 0x0a, kBytes3 = 0x1a, kBytes5 = 0x2a;
constexpr char kBytes7 = 0x3a, kBytes8 = 0x42, kBytes9 = 0x4a, kFloat2 = 0x15;

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0x82f63b78u : 0u);
    table[byte] = value;
  }
  return table;
}

template <class Number>
std::string little_endian(Number number) {
  static_assert(std::endian::native == std::endian::little);
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

template <class Number>
Number read_number(std::string_view bytes) {
  Number number{};
  std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

std::uint32_t masked(std::uint32_t crc) {
  return std::rotr(crc, 15) + 0xa282ead8u;
}

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes += static_cast<char>(value);
}

std::string message_field(char key, std::string_view bytes) {
  return key + varint(bytes.size()).append(bytes);
}

std::string event(double time, std::int64_t step) {
  std::string payload = kDouble1 + little_endian(time);
  if (step != 0) payload += kVarint2 + varint(static_cast<std::uint64_t>(step));
  return payload;
}

// The step of a payload that this writer made: wall_time first, then the step unless it is 0.
std::int64_t step_of(std::string_view payload) {
  std::uint64_t step = 0;
  if (payload.size() < 10 || payload[9] != kVarint2) return 0;
  int shift = 0;
  for (std::size_t position = 10; position < payload.size() && shift < 64; ++position, shift += 7) {
    step |= static_cast<std::uint64_t>(payload[position] & 0x7f) << shift;
    if ((payload[position] & 0x80) == 0) break;
  }
  return static_cast<std::int64_t>(step);
}

std::vector<std::filesystem::path> event_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().filename().string().starts_with(kPrefix)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::int64_t second_in_name(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  std::int64_t second = 0;
  std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), second);
  return second;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "host";
  return name.data();
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<std::uint32_t, 256> kTable = make_table();
  std::uint32_t value = ~0u;
  for (const char byte : bytes) value = (value >> 8) ^ kTable[(value ^ static_cast<unsigned char>(byte)) & 0xff];
  return ~value;
}

std::string event_record(std::string_view payload) {
  std::string record = little_endian(static_cast<std::uint64_t>(payload.size()));
  record += little_endian(masked(crc32c(record)));
  record += payload;
  return record += little_endian(masked(crc32c(payload)));
}

std::string version_event(double time) {
  return event(time, 0) + message_field(kBytes3, "brain.Event:2");
}

std::string session_start_event(double time, std::int64_t step) {
  return event(time, step) + message_field(kBytes7, kVarint1 + varint(1));
}

std::string scalar_event(double time, std::int64_t step, const Metrics& metrics) {
  std::string summary;
  for (const Metric& metric : metrics)
    summary += message_field(
        kBytes1, message_field(kBytes1, metric.name) + kFloat2 + little_endian(static_cast<float>(metric.value)));
  return event(time, step) + message_field(kBytes5, summary);
}

std::string text_event(double time, std::int64_t step, std::string_view tag, std::string_view text) {
  constexpr std::uint64_t kStringType = 7;
  const std::string tensor = kVarint1 + varint(kStringType) + message_field(kBytes8, text);
  const std::string metadata = message_field(kBytes1, message_field(kBytes1, "text"));
  const std::string value =
      message_field(kBytes1, tag) + message_field(kBytes8, tensor) + message_field(kBytes9, metadata);
  return event(time, step) + message_field(kBytes5, message_field(kBytes1, value));
}

std::int64_t event_bytes_until(std::string_view file, std::int64_t last_step) {
  std::size_t position = 0;
  while (file.size() - position >= kHeaderBytes + kFooterBytes) {
    const std::string_view rest = file.substr(position);
    const auto length = read_number<std::uint64_t>(rest);
    if (masked(crc32c(rest.substr(0, 8))) != read_number<std::uint32_t>(rest.substr(8))) break;
    if (length > rest.size() - kHeaderBytes - kFooterBytes) break;
    const std::string_view payload = rest.substr(kHeaderBytes, length);
    if (masked(crc32c(payload)) != read_number<std::uint32_t>(rest.substr(kHeaderBytes + length))) break;
    if (step_of(payload) > last_step) break;
    position += kHeaderBytes + length + kFooterBytes;
  }
  return static_cast<std::int64_t>(position);
}

AppendFile start_event_file(const std::filesystem::path& folder, double time, std::optional<std::int64_t> resume_step) {
  const std::vector<std::filesystem::path> old = event_files(folder);
  auto second = static_cast<std::int64_t>(time);
  for (const std::filesystem::path& file : old) second = std::max(second, second_in_name(file) + 1);
  if (resume_step)
    for (const std::filesystem::path& file : old)
      AppendFile(file, event_bytes_until(storage::read_file(file), *resume_step));
  AppendFile file(folder / fmt::format("{}{}.{}.{}.0", kPrefix, second, host_name(), getpid()), 0);
  file.append(event_record(version_event(time)));
  if (resume_step) file.append(event_record(session_start_event(time, *resume_step + 1)));
  return file;
}

}  // namespace camber::health
