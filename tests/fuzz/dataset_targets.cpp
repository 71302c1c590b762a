#include <algorithm>
#include <exception>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "camber/eval/evaluation_config.h"
#include "camber/eval/results_file.h"
#include "camber/nuscenes/kitti.h"
#include "camber/nuscenes/tables.h"
#include "fuzz/fuzzing.h"
#include "nuscenes/small_world.h"

namespace camber::tests {
namespace {

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
  static const TemporaryFolder folder(fast_folder());
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
  seeds.reserve(table_names().size());
  for (std::size_t i = 0; i < table_names().size(); ++i)
    seeds.push_back(std::string(1, static_cast<char>(i)) + tables.at(table_names()[i]));
  return seeds;
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

// ---- KITTI: text files of one frame beside its points

const Files& kitti_files() {
  static const Files files = {
      {"calib/000000.txt",
       "P2: 721.5377 0 609.5593 44.85728 0 721.5377 172.854 0.2163791 0 0 1 0.002745884\n"
       "R0_rect: 0.9999239 0.00983776 -0.007445048 -0.009869795 0.9999421 -0.004278459 0.007402527 0.004351614 "
       "0.9999631\n"
       "Tr_velo_to_cam: 0.007533745 -0.9999714 -0.000616602 -0.004069766 0.01480249 0.0007280733 -0.9998902 "
       "-0.07631618 0.9998621 0.00752379 0.01480755 -0.2717806\n"},
      {"label_2/000000.txt",
       "Car 0.00 0 -1.56 564.62 174.59 616.43 224.74 1.61 1.66 3.20 -0.69 1.69 25.01 -1.59\n"
       "Pedestrian 0.00 2 0.21 423.17 173.67 433.17 224.03 1.60 0.38 0.30 -5.87 1.63 23.11 -0.03\n"
       "DontCare -1 -1 -10 503.89 169.71 590.61 190.13 -1 -1 -1 -1000 -1000 -1000 -10\n"},
      {"ImageSets/train.txt", "000000\n"},
      {"velodyne/000000.bin", std::string(32, '\x3d')},
      {"image_2/notes.txt", "no image is needed"}};
  return files;
}

std::vector<std::string> kitti_seeds() {
  return {joined_files(kitti_files())};
}

void run_kitti(Bytes bytes) {
  static ChangedFolder folder(kitti_files());
  static const TemporaryFolder written(fast_folder());
  const std::filesystem::path &from = folder.path(), to = written.path() / "to";
  std::filesystem::remove_all(to);
  folder.change(bytes);
  refuse_in_a_sentence([&] {
    const nuscenes::KittiImport imported = nuscenes::import_kitti(from, to, {.threads = 1});
    // What was written must be what we read.
    const nuscenes::Tables tables = nuscenes::load_tables(to, "v1.0-kitti", 1);
    if (static_cast<std::int64_t>(tables.sample_annotation.size()) != imported.counts.boxes)
      throw std::logic_error("another number of boxes");
  });
}

}  // namespace

std::vector<FuzzTarget> dataset_targets() {
  return {{"tables", run_tables, table_seeds, json_words, Structure::kTableJson},
          {"results", run_results, results_seeds, json_words, Structure::kJson},
          {"evaluation_config", run_config, config_seeds, json_words, Structure::kJson},
          {"kitti", run_kitti, kitti_seeds, toml_words, Structure::kFiles}};
}

}  // namespace camber::tests
