#include "fuzz/targets.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <filesystem>
#include <stdexcept>

#include <nlohmann/json.hpp>
#include <sys/mman.h>
#include <unistd.h>

#include "camber/eval/evaluation_config.h"
#include "camber/eval/results_file.h"
#include "camber/nuscenes/tables.h"
#include "camber/random/stream.h"
#include "camber/sensors/image.h"
#include "camber/sensors/points.h"
#include "nuscenes/small_world.h"

namespace camber::tests {
namespace {

using Bytes = std::span<const std::uint8_t>;

std::string text_of(Bytes bytes) {
  return {bytes.begin(), bytes.end()};
}

// A file in memory that can be opened by its path.
class MemoryFile {
 public:
  explicit MemoryFile(Bytes bytes) : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) {
    if (descriptor_ < 0 || write(descriptor_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
      throw std::logic_error("no file in memory");
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

// Runs an action that may refuse; the refusal must be one sentence with its origin in brackets.
template <class Action>
void refuse_in_a_sentence(Action&& action) {
  std::string sentence;
  try {
    action();
    return;
  } catch (const std::logic_error& error) {
    // std::invalid_argument is a sentence too; any other logic error is a broken promise.
    if (dynamic_cast<const std::invalid_argument*>(&error) == nullptr) throw;
    sentence = error.what();
  } catch (const std::runtime_error& error) {
    sentence = error.what();
  }
  if (sentence.empty() || sentence.front() != '[' || sentence.find('\n') != std::string::npos || sentence.size() > 2000)
    throw std::logic_error("not a sentence: " + sentence);
}

// Python reads more than JSON: such texts are not compared with another parser.
bool is_plain_json(const std::string& text) {
  return text.find("NaN") == std::string::npos && text.find("Infinity") == std::string::npos;
}

// What was accepted must be JSON for another parser too; numbers too large for it aside.
nlohmann::json parse_elsewhere(const std::string& text) {
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::out_of_range&) {
    return nullptr;
  } catch (const nlohmann::json::exception& error) {
    throw std::logic_error(std::string("accepted what is no JSON: ") + error.what());
  }
}

// ---- tables: the first byte says which one the rest replaces.

const std::vector<std::string>& table_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const auto& [name, text] : small_tables()) list.push_back(name);
    return list;
  }();
  return names;
}

void run_tables(Bytes bytes) {
  // In memory where the system has such a folder: a disk would make thousands of small writes slow.
  static const TemporaryFolder folder(std::filesystem::exists("/dev/shm") ? "/dev/shm"
                                                                          : std::filesystem::temp_directory_path());
  static const TableTexts tables = [] {
    write_small_world(folder.path(), small_tables(), false);
    return small_tables();
  }();
  if (bytes.empty()) return;
  const std::string& name = table_names()[bytes[0] % table_names().size()];
  const std::filesystem::path path = folder.path() / kSmallVersion / (name + ".json");
  const std::string text = text_of(bytes.subspan(1));
  write_text(path, text);
  refuse_in_a_sentence([&] {
    const nuscenes::Tables loaded = nuscenes::load_tables(folder.path(), kSmallVersion, 1);
    if (!is_plain_json(text)) return;
    const nlohmann::json other = parse_elsewhere(text);
    const std::size_t rows = name == "sample" ? loaded.sample.size() : name == "scene" ? loaded.scene.size() : 0;
    if (rows != 0 && !other.is_null() && other.size() != rows) throw std::logic_error("another number of rows");
  });
  write_text(path, tables.at(name));
}

std::vector<std::string> table_seeds() {
  std::vector<std::string> seeds;
  const TableTexts tables = small_tables();
  for (std::size_t i = 0; i < table_names().size(); ++i)
    seeds.push_back(std::string(1, static_cast<char>(i)) + tables.at(table_names()[i]));
  return seeds;
}

std::vector<std::string> json_words() {
  return {"NaN",
          "Infinity",
          "-Infinity",
          "null",
          "true",
          "[]",
          "{}",
          "\"\"",
          "[[[[[[",
          "}}}}",
          "1e400",
          "-0",
          "1e-400",
          "01",
          "\\u0000",
          "\\ud800",
          "\\",
          "\"",
          ",",
          ":",
          "../..",
          "/etc",
          "\xff\xfe",
          "\xe2\x82",
          std::string(1, '\0'),
          "9223372036854775808",
          "1.5",
          "-1",
          "\"prev\": \"sample-0-0\"",
          "\"token\"",
          "\"results\"",
          "\"meta\""};
}

// ---- results

std::string results_seed(const char* layout) {
  std::string boxes;
  for (int i = 0; i < 3; ++i)
    boxes +=
        std::string(i > 0 ? ", " : "") +
        R"({"sample_token": "a", "translation": [1.0, 2.5, -3e2], "size": [1, 2, 3], "rotation": [1.0, 0, 0, 0.5],)"
        R"( "velocity": [NaN, 0.25], "detection_name": "car", "detection_score": 0.5, "attribute_name": "",)"
        R"( "num_pts": 3, "ego_translation": [1, 2, 3], "more": {"x": [null, true, "\u00e9"]}})";
  std::string text = layout;
  const std::size_t position = text.find('#');
  return text.replace(position, 1, "{\"a\": [" + boxes + "], \"b\": []}");
}

std::vector<std::string> results_seeds() {
  std::vector<std::string> seeds = {results_seed("{\"meta\": {\"use_lidar\": true}, \"results\": #}"),
                                    results_seed("{\"results\": #, \"meta\": {}, \"other\": [1, {}]}"),
                                    results_seed("#")};
  std::string plain = seeds[0];
  for (std::size_t at = plain.find("NaN"); at != std::string::npos; at = plain.find("NaN")) plain.replace(at, 3, "1.5");
  seeds.push_back(plain);
  return seeds;
}

void check_boxes(const eval::SampleBoxes& boxes, const nlohmann::json& samples) {
  std::size_t count = 0;
  for (const auto& [token, list] : samples.items()) count += list.size();
  if (boxes.samples() != samples.size() || boxes.boxes.size() != count)
    throw std::logic_error("another number of samples or boxes than another parser finds");
}

void run_results(Bytes bytes) {
  const MemoryFile file(bytes);
  const std::string text = text_of(bytes);
  refuse_in_a_sentence([&] {
    const eval::ResultsFile results = eval::read_results(file.path(), {.threads = 1});
    if (!is_plain_json(text)) return;
    if (const nlohmann::json other = parse_elsewhere(text); !other.is_null())
      check_boxes(results.boxes, other["results"]);
  });
  refuse_in_a_sentence([&] {
    const eval::SampleBoxes truth = eval::read_ground_truth(file.path(), 1);
    if (!is_plain_json(text)) return;
    const nlohmann::json other = parse_elsewhere(text);
    if (!other.is_null()) check_boxes(truth, other.contains("results") ? other["results"] : other);
  });
}

// ---- evaluation configuration

void run_config(Bytes bytes) {
  const MemoryFile file(bytes);
  refuse_in_a_sentence([&] { eval::EvaluationConfig::read(file.path()); });
}

std::vector<std::string> config_seeds() {
  return {R"({"class_range": {"car": 50, "truck": 50.5}, "dist_fcn": "center_distance", "dist_ths": [0.5, 1, 2.0],)"
          R"( "dist_th_tp": 2.0, "min_recall": 0.1, "min_precision": 0.1, "max_boxes_per_sample": 500,)"
          R"( "mean_ap_weight": 5})"};
}

// ---- point files

void run_points(Bytes bytes) {
  const MemoryFile file(bytes);
  refuse_in_a_sentence([&] {
    std::int64_t left_out = 0;
    std::vector<sensors::LidarPoint> points = sensors::read_lidar_file(file.path(), &left_out);
    if ((points.size() + static_cast<std::size_t>(left_out)) * 20 != bytes.size())
      throw std::logic_error("another number of points");
    for (const sensors::LidarPoint& point : points)
      if (!std::isfinite(point.x + point.y + point.z)) throw std::logic_error("a point that is not finite");
    if (left_out == 0 && !points.empty() && std::memcmp(&points.back(), bytes.data() + bytes.size() - 20, 20) != 0)
      throw std::logic_error("another point");
    sensors::keep_range(points, {});
    for (const sensors::LidarPoint& point : points)
      if (!sensors::PointRange{}.contains(point)) throw std::logic_error("a point out of range");
  });
}

std::vector<std::string> point_seeds() {
  const std::vector<std::uint8_t> bytes = make_lidar(40);
  return {std::string(bytes.begin(), bytes.end()), ""};
}

// ---- images: the first byte says at which scale.

void run_jpeg(Bytes bytes) {
  if (bytes.empty()) return;
  const double scale = 0.1 + (bytes[0] % 10) * 0.1;
  refuse_in_a_sentence([&] {
    const sensors::Image image = sensors::decode_jpeg(bytes.subspan(1), "fuzz", scale);
    const sensors::ImageSize size = sensors::jpeg_size(bytes.subspan(1), "fuzz");
    if (image.pixels.size() != static_cast<std::size_t>(3 * image.width * image.height) || image.width > size.width ||
        image.height > size.height)
      throw std::logic_error("an image of the wrong size");
    if (image.width * image.height < 100000)
      sensors::transform_image(image, size, geometry::ImageTransform::fit_bottom(size.width, size.height, 32, 16));
  });
}

std::vector<std::string> jpeg_seeds() {
  std::vector<std::string> seeds;
  for (const auto& [width, height] : {std::pair{24, 16}, {33, 47}}) {
    const std::vector<std::uint8_t> bytes = make_jpeg(width, height);
    seeds.push_back("\5" + std::string(bytes.begin(), bytes.end()));
  }
  return seeds;
}

std::vector<std::string> binary_words() {
  return {"\xff\xd8",         "\xff\xd9",           "\xff\xc0", "\xff\xc2", "\xff\xda",
          "\xff\xff\xff\xff", std::string(4, '\0'), "\xff\xc4", "\xff\xdb"};
}

}  // namespace

const std::vector<FuzzTarget>& fuzz_targets() {
  static const std::vector<FuzzTarget> targets = {{"tables", run_tables, table_seeds, json_words},
                                                  {"results", run_results, results_seeds, json_words},
                                                  {"config", run_config, config_seeds, json_words},
                                                  {"points", run_points, point_seeds, binary_words},
                                                  {"jpeg", run_jpeg, jpeg_seeds, binary_words}};
  return targets;
}

std::string mutate(const std::string& input, const std::vector<std::string>& words, std::uint64_t seed) {
  random::Stream draws(seed, "fuzz");
  std::string text = input;
  const auto position = [&](std::size_t size) { return static_cast<std::size_t>(draws.integer(size + 1)); };
  const std::uint64_t changes = 1 + draws.integer(4);
  for (std::uint64_t change = 0; change < changes; ++change) {
    const std::size_t at = position(text.size()), length = position(std::min<std::size_t>(text.size() - at, 64));
    switch (draws.integer(8)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << draws.integer(8)));
        break;
      case 1:
        if (at < text.size()) text[at] = static_cast<char>(draws.integer(256));
        break;
      case 2:
        text.erase(at, length);
        break;
      case 3:
        text.insert(position(text.size()), text.substr(at, length));
        break;
      case 4:
        text.insert(at, words[draws.integer(words.size())]);
        break;
      case 5:
        text.replace(at, length, words[draws.integer(words.size())]);
        break;
      case 6:
        text.resize(at);
        break;
      default:
        text.insert(at, std::to_string(static_cast<std::int64_t>(draws.bits64())));
        break;
    }
  }
  return text;
}

}  // namespace camber::tests
