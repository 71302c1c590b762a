#include "camber/episodes/tabular_sets.h"

#include <array>
#include <cstring>
#include <optional>
#include <stdexcept>

#include "camber/config/numbers.h"
#include "camber/storage/file.h"
#include "camber/storage/safetensors.h"

namespace camber::episodes {
namespace {

constexpr std::size_t kLetterFeatures = 16;

std::vector<std::string> table_lines(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    lines.push_back(text.substr(start, end - start));
    if (!lines.back().empty() && lines.back().back() == '\r') lines.back().pop_back();
    start = end + 1;
  }
  return lines;
}

// The numbers of one line of the Letter table; nothing when it has another form.
std::optional<std::array<float, kLetterFeatures>> letter_line(const std::string& line) {
  if (line.size() < 2 || line[0] < 'A' || line[0] > 'Z' || line[1] != ',') return std::nullopt;
  std::array<float, kLetterFeatures> values{};
  std::size_t start = 2;
  for (std::size_t i = 0; i < kLetterFeatures; ++i) {
    const bool last = i + 1 == kLetterFeatures;
    const std::size_t end = last ? line.size() : line.find(',', start);
    if (end == std::string::npos) return std::nullopt;
    const auto number = config::read_number(line.substr(start, end - start));
    if (!number || *number < 0 || *number > 15) return std::nullopt;
    values[i] = static_cast<float>(*number / 7.5 - 1);
    start = end + 1;
  }
  return values;
}

std::vector<std::int64_t> whole_numbers(const storage::SafetensorsFile& file, const std::string& name,
                                        const std::string& path, std::int64_t count) {
  const storage::TensorView& tensor = file.at(name);
  if (tensor.type != storage::DataType::kI64 || tensor.shape != std::vector{count})
    throw std::runtime_error("[features] tensor '" + name + "' of " + path + " must be I64 with one number an example");
  std::vector<std::int64_t> values(static_cast<std::size_t>(count));
  if (!values.empty()) std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

std::string label_name(const std::vector<std::string>& names, std::int64_t label, const std::string& path) {
  if (names.empty()) return std::to_string(label);
  if (label < 0 || label >= static_cast<std::int64_t>(names.size()))
    throw std::runtime_error("[features] a label of " + path + " must be from 0 to " +
                             std::to_string(names.size() - 1) + ", got " + std::to_string(label));
  return names[static_cast<std::size_t>(label)];
}

std::string joined_lines(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += name + "\n";
  return text;
}

}  // namespace

ExampleSet read_letter(const std::filesystem::path& path) {
  ExampleSet set{.name = path.filename().string(), .shape = {kLetterFeatures}};
  // The classes in the order of the alphabet, whatever the order of the lines.
  for (char letter = 'A'; letter <= 'Z'; ++letter) set.class_names.emplace_back(1, letter);
  const auto lines = table_lines(storage::read_file(path));
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].empty()) continue;
    const auto values = letter_line(lines[i]);
    if (!values)
      throw std::runtime_error("[letter] " + path.string() + ":" + std::to_string(i + 1) +
                               " must be a capital letter and 16 numbers from 0 to 15, got '" + lines[i].substr(0, 60) +
                               "'");
    set.add(*values, std::string(1, lines[i][0]), "all", std::to_string(i + 1));
  }
  if (set.size() == 0) throw std::runtime_error("[letter] " + path.string() + " must have lines, and has none");
  return set;
}

ExampleSet read_features(const std::filesystem::path& path) {
  const storage::SafetensorsFile file(path);
  const storage::TensorView& features = file.at("features");
  if (features.type != storage::DataType::kF32 || features.shape.size() != 2 || features.shape[0] < 1)
    throw std::runtime_error("[features] tensor 'features' of " + path.string() + " must be F32 [examples, width]");
  const std::int64_t count = features.shape[0], width = features.shape[1];
  const auto labels = whole_numbers(file, "labels", path.string(), count);
  const auto domains = file.find("domains") != nullptr ? whole_numbers(file, "domains", path.string(), count)
                                                       : std::vector<std::int64_t>();
  const auto names = [&](const char* key) {
    const auto found = file.metadata().find(key);
    return found == file.metadata().end() ? std::vector<std::string>() : table_lines(found->second);
  };
  const auto class_names = names("class_names"), domain_names = names("domain_names");
  ExampleSet set{.name = path.filename().string(), .shape = {width}};
  std::vector<float> row(static_cast<std::size_t>(width));
  for (std::int64_t i = 0; i < count; ++i) {
    std::memcpy(row.data(), features.bytes.data() + static_cast<std::size_t>(i * width) * sizeof(float),
                row.size() * sizeof(float));
    const std::string domain =
        domains.empty() ? "all" : label_name(domain_names, domains[static_cast<std::size_t>(i)], path.string());
    set.add(row, label_name(class_names, labels[static_cast<std::size_t>(i)], path.string()), domain,
            std::to_string(i));
  }
  return set;
}

void write_features(const std::filesystem::path& path, const ExampleSet& set) {
  const auto bytes = [](const auto& values) { return std::as_bytes(std::span(values)); };
  using storage::DataType;
  storage::write_safetensors(
      path,
      {{.name = "features", .type = DataType::kF32, .shape = {set.size(), set.width()}, .bytes = bytes(set.values)},
       {.name = "labels", .type = DataType::kI64, .shape = {set.size()}, .bytes = bytes(set.class_of)},
       {.name = "domains", .type = DataType::kI64, .shape = {set.size()}, .bytes = bytes(set.domain_of)}},
      {{"class_names", joined_lines(set.class_names)}, {"domain_names", joined_lines(set.domain_names)}});
}

}  // namespace camber::episodes
