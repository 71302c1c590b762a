#include "camber/eval/results_file.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <unordered_map>

#include "camber/json/fields.h"
#include "camber/json/file.h"
#include "eval/results_source.h"

namespace camber::eval {

namespace {

using json::Value;
using json::ValueError;

// The samples of one chunk. A box usually names the sample that it stands under; where it names another, `elsewhere`
// keeps the name, because the devkit compares it with that sample's true objects.
struct ParsedChunk {
  SampleBoxes boxes{};
  std::vector<std::pair<std::size_t, std::string>> elsewhere{};  // box of this chunk, token
};

void read_numbers(Value value, std::string_view field, std::span<double> numbers) {
  json::any_numbers(value, field, numbers);
  for (const double number : numbers)
    if (std::isnan(number)) throw ValueError(std::string(field) + " must not be NaN");
}

// Python's int(): towards zero.
std::int32_t read_points(Value value) {
  const double number = json::any_number(value, "num_pts");
  if (!std::isfinite(number)) throw ValueError("num_pts must be a whole number");
  return static_cast<std::int32_t>(std::clamp(std::trunc(number), -2147483648.0, 2147483647.0));
}

DetectionClass read_class(Value value) {
  const std::string_view name = json::text(value, "detection_name");
  const auto label = detection_class(name);
  if (!label) throw ValueError("detection_name '" + json::shown_text(name) + "' is unknown");
  return *label;
}

AttributeNumber read_attribute(Value value) {
  const std::string_view name = json::text(value, "attribute_name");
  const auto attribute = attribute_number(name);
  if (!attribute) throw ValueError("attribute_name '" + json::shown_text(name) + "' is unknown");
  return *attribute;
}

// Reads one box and returns the token of its sample.
std::string_view read_box(Value value, DetectionBox& box) {
  std::string_view token;
  read_fields(value, "a box", json::required("sample_token", [&](Value v) { token = json::text(v, "sample_token"); }),
              json::required("translation", [&](Value v) { read_numbers(v, "translation", box.translation); }),
              json::required("size", [&](Value v) { read_numbers(v, "size", box.size); }),
              json::required("rotation", [&](Value v) { read_numbers(v, "rotation", box.rotation); }),
              json::required("velocity", [&](Value v) { json::any_numbers(v, "velocity", box.velocity); }),
              json::required("detection_name", [&](Value v) { box.label = read_class(v); }),
              json::optional("detection_score",
                             [&](Value v) {
                               box.score = json::any_number(v, "detection_score");
                               if (std::isnan(box.score)) throw ValueError("detection_score must not be NaN");
                             }),
              json::required("attribute_name", [&](Value v) { box.attribute = read_attribute(v); }),
              json::optional("ego_translation",
                             [&](Value v) {
                               std::array<double, 3> ego{};
                               read_numbers(v, "ego_translation", ego);
                               box.ego_distance = std::sqrt(ego[0] * ego[0] + ego[1] * ego[1]);
                             }),
              json::optional("num_pts", [&](Value v) { box.points = read_points(v); }));
  return token;
}

ParsedChunk parse_chunk(simdjson::ondemand::parser& parser, json::RecordChunk& chunk, const std::filesystem::path& path,
                        const std::unordered_set<std::string_view>* wanted) {
  ParsedChunk parsed;
  std::string token;
  try {
    const auto read_sample = [&](std::string_view name, Value boxes) {
      token = name;
      if (wanted != nullptr && !wanted->contains(name)) return json::skip(boxes);
      parsed.boxes.open_sample(token);
      json::for_each_element(
          boxes, "the boxes of a sample",
          [&](Value value) {
            DetectionBox box;
            const std::string_view own = read_box(value, box);
            if (own != token) parsed.elsewhere.emplace_back(parsed.boxes.boxes.size(), own);
            parsed.boxes.push(box);
          });
    };
    json::read_text(parser, chunk, [&](Value members) { json::for_each_field(members, "results", read_sample); });
  } catch (const ValueError& error) {
    std::string sentence = "[read_results] " + path.string();
    if (!token.empty()) sentence += ", sample '" + json::shown_text(token) + "'";
    const SampleBoxes& boxes = parsed.boxes;
    if (!boxes.tokens.empty() && boxes.tokens.back() == token)
      sentence += ", box " + std::to_string(boxes.of(boxes.samples() - 1).size() + 1);
    throw std::runtime_error(sentence + ": " + error.what());
  }
  return parsed;
}

// Boxes that room is made for in advance: a file that lies about its size must not take the memory.
constexpr double kMostReserved = 4e6;

// Puts the chunks together. A sample that stands twice keeps its first place and its last boxes, as in Python.
class Collector {
 public:
  /// `share` of the file that the first chunk is: how much room all of them will need.
  explicit Collector(double share) : share_(share) {}

  void add(ParsedChunk&& chunk) {
    if (boxes_.empty() && share_ > 0)
      boxes_.reserve(static_cast<std::size_t>(
          std::min(kMostReserved, 1.05 * static_cast<double>(chunk.boxes.boxes.size()) / share_)));
    for (auto& [box, token] : chunk.elsewhere) elsewhere_.emplace_back(boxes_.size() + box, std::move(token));
    for (std::size_t sample = 0; sample < chunk.boxes.samples(); ++sample) {
      const std::size_t first = boxes_.size() + chunk.boxes.offsets[sample];
      const std::size_t last = boxes_.size() + chunk.boxes.offsets[sample + 1];
      const auto [found, is_new] = positions_.try_emplace(chunk.boxes.tokens[sample], entries_.size());
      if (is_new)
        entries_.push_back({first, last});
      else {
        entries_[found->second] = {first, last};
        repeated_ = true;
      }
      if (is_new) tokens_.push_back(chunk.boxes.tokens[sample]);
    }
    boxes_.insert(boxes_.end(), chunk.boxes.boxes.begin(), chunk.boxes.boxes.end());
  }

  SampleBoxes finish() {
    for (std::size_t entry = 0; entry < entries_.size(); ++entry)
      for (std::size_t box = entries_[entry].first; box < entries_[entry].last; ++box)
        boxes_[box].sample = static_cast<std::int32_t>(entry);
    for (const auto& [box, token] : elsewhere_) {
      const auto found = positions_.find(token);
      boxes_[box].sample = found == positions_.end() ? -1 : static_cast<std::int32_t>(found->second);
    }
    SampleBoxes result;
    result.tokens = std::move(tokens_);
    if (!repeated_) {
      result.boxes = std::move(boxes_);
      for (const Entry& entry : entries_) result.offsets.push_back(entry.last);
      return result;
    }
    for (const Entry& entry : entries_) {
      result.boxes.insert(result.boxes.end(), boxes_.begin() + static_cast<std::ptrdiff_t>(entry.first),
                          boxes_.begin() + static_cast<std::ptrdiff_t>(entry.last));
      result.offsets.push_back(result.boxes.size());
    }
    return result;
  }

 private:
  struct Entry {
    std::size_t first = 0, last = 0;
  };
  std::vector<std::string> tokens_;
  std::vector<Entry> entries_;
  std::vector<DetectionBox> boxes_;
  std::vector<std::pair<std::size_t, std::string>> elsewhere_;
  std::unordered_map<std::string, std::size_t> positions_;
  bool repeated_ = false;
  double share_;
};

SampleBoxes read_boxes(ResultsSource& source, const std::filesystem::path& path, const ResultsOptions& options) {
  std::error_code no_size;  // a pipe has none
  const auto bytes = static_cast<double>(std::filesystem::file_size(path, no_size));
  Collector collector(no_size || bytes < 10.0 * json::kChunkBytes ? 0 : static_cast<double>(json::kChunkBytes) / bytes);
  json::parse_chunks(
      source, options.threads,
      [&](simdjson::ondemand::parser& parser, json::RecordChunk& chunk) {
        return parse_chunk(parser, chunk, path, options.wanted);
      },
      [&](ParsedChunk&& chunk) { collector.add(std::move(chunk)); });
  if (!source.has_results())
    throw std::runtime_error("[read_results] " + path.string() + " must have the field 'results'");
  return collector.finish();
}

}  // namespace

ResultsFile read_results(const std::filesystem::path& path, const ResultsOptions& options) {
  ResultsSource source(path, false);
  ResultsFile file{.boxes = read_boxes(source, path, options)};
  file.meta = source.meta();
  if (file.meta.empty()) throw std::runtime_error("[read_results] " + path.string() + " must have the field 'meta'");
  if (file.meta.front() != '{')
    throw std::runtime_error("[read_results] " + path.string() + ": 'meta' must be an object");
  for (std::size_t sample = 0; sample < file.boxes.samples(); ++sample) {
    const std::size_t count = file.boxes.of(sample).size();
    if (std::cmp_greater(count, options.max_boxes_per_sample))
      throw std::runtime_error("[read_results] " + path.string() + ", sample '" +
                               json::shown_text(file.boxes.tokens[sample]) + "' must have at most " +
                               std::to_string(options.max_boxes_per_sample) + " boxes, got " + std::to_string(count));
  }
  return file;
}

SampleBoxes read_ground_truth(const std::filesystem::path& path, int threads) {
  ResultsSource source(path, true);
  return read_boxes(source, path, {.threads = threads});
}

}  // namespace camber::eval
