#include <filesystem>

#include "camber/eval/metrics_report.h"
#include "camber/health/run_diagnosis.h"
#include "camber/nuscenes/splits.h"
#include "camber/report/run_report.h"
#include "camber/report/study_report.h"
#include "camber/sensors/fault_copy.h"
#include "camber/sensors/inspection.h"
#include "camber/storage/file.h"
#include "fuzz/fuzzing.h"
#include "nuscenes/small_world.h"

// Whole sub-commands on folders of which some files are replaced: what a person calls, without the command line. One
// input is several files (fuzzing.h); those of which the input does not tell are sound.
namespace camber::tests {
namespace {

namespace fs = std::filesystem;

std::string table_path(const std::string& name) {
  return kSmallVersion + "/" + name + ".json";
}

std::string box_of(const std::string& token) {
  return R"({"sample_token": ")" + token +
         R"(", "translation": [110, 205, 1], "size": [2, 4, 1.5], "rotation": [1, 0, 0, 0], "velocity": [1, 0],)"
         R"( "detection_name": "car", "detection_score": 0.5, "attribute_name": "vehicle.moving"})";
}

// One scene of two samples: every execution reads all of it.
Files dataset_files() {
  Files files;
  for (const auto& [name, text] : small_tables(1, 2)) files[table_path(name)] = text;
  files[kSmallVersion + "/splits.json"] = R"({"train": [], "val": ["small-0"]})";
  files["maps/small.png"] = "a map";
  // Two classes at two distances: the official ten at four make pages of curves, and an execution ten times as long.
  files["evaluation.json"] =
      R"({"class_range": {"car": 50, "pedestrian": 40.5}, "dist_fcn": "center_distance", "dist_ths": [1, 2.0],)"
      R"( "dist_th_tp": 2.0, "min_recall": 0.1, "min_precision": 0.1, "max_boxes_per_sample": 500,)"
      R"( "mean_ap_weight": 5})";
  files["results.json"] = R"({"meta": {"use_lidar": true}, "results": {"sample-0-0": [)" + box_of("sample-0-0") +
                          R"(], "sample-0-1": []}})";
  return files;
}

std::vector<std::string> dataset_seeds() {
  const Files files = dataset_files();
  std::vector<std::string> seeds;
  for (const std::vector<std::string>& some :
       {std::vector{table_path("sample_data"), table_path("calibrated_sensor")},
        std::vector{table_path("sample"), table_path("scene"), kSmallVersion + "/splits.json"},
        std::vector{table_path("sample_annotation"), table_path("instance"), table_path("category")},
        std::vector{table_path("ego_pose"), table_path("sensor"), table_path("map")},
        std::vector<std::string>{"results.json", "evaluation.json"}}) {
    Files chosen;
    for (const std::string& path : some) chosen[path] = files.at(path);
    seeds.push_back(joined_files(chosen));
  }
  return seeds;
}

// The tables, the results, and the files that the tables name.
Files all_dataset_files() {
  Files files = dataset_files();
  const TemporaryFolder whole(fast_folder());
  write_small_world(whole.path(), small_tables(1, 2));
  for (const auto& entry : fs::recursive_directory_iterator(whole.path())) {
    const std::string name = entry.path().lexically_relative(whole.path()).generic_string();
    if (entry.is_regular_file() && !files.contains(name)) files[name] = storage::read_file(entry.path());
  }
  return files;
}

ChangedFolder& dataset_folder() {
  static ChangedFolder folder(all_dataset_files());
  return folder;
}

void run_inspect(Bytes bytes) {
  dataset_folder().change(bytes);
  refuse_in_a_sentence([&] {
    const nuscenes::Dataset dataset(dataset_folder().path(), kSmallVersion, 1);
    const sensors::Inspection inspection = sensors::inspect(dataset, nuscenes::whole_data_set(dataset),
                                                            {.files = sensors::FileCheck::kRead, .threads = 1});
    to_text(inspection);
    to_json(inspection);
    to_csv(inspection);
  });
}

void run_metrics(Bytes bytes) {
  dataset_folder().change(bytes);
  refuse_in_a_sentence([&] {
    const eval::MetricsReport report = eval::evaluate_results({.results = dataset_folder().path() / "results.json",
                                                               .data = dataset_folder().path(),
                                                               .version = kSmallVersion,
                                                               .config = dataset_folder().path() / "evaluation.json",
                                                               .threads = 1});
    to_text(report);
    to_json(report);
    details_to_json(report);
  });
}

void run_faults(Bytes bytes) {
  static const TemporaryFolder scratch(fast_folder());
  const fs::path out = scratch.path() / "out";
  fs::remove_all(out);
  dataset_folder().change(bytes);
  refuse_in_a_sentence([&] {
    const nuscenes::Dataset dataset(dataset_folder().path(), kSmallVersion, 1);
    const nuscenes::Split split = nuscenes::whole_data_set(dataset);
    sensors::write_faulted_copy(dataset, split, sensors::parse_faults("frozen:3,beams:3"), 1, 1, out);
    // The copy must be a data set.
    const nuscenes::Dataset copy(out, kSmallVersion, 1);
    if (copy.tables().sample.size() != dataset.tables().sample.size()) throw std::logic_error("another data set");
  });
}

// ---- the page of a run and of a study

Files run_files() {
  return {
      {"metrics.jsonl", R"({"step":1,"time":1700000000.125,"loss/total":3.5,"scale/decoder.0/value":1.5}
{"step":2,"time":1700000001.250,"loss/total":"NaN","validation/mean_ap":0.5}
)"},
      {"health.jsonl",
       R"({"step":5,"time":1.5,"severity":"alarm","rule":"scale","subject":"x","value":0.5,"sentence":"near"}
)"},
      {"config.toml", "[data]\nroot = \"w\"\n"},
      {"environment.json", R"({"version": "0.1.0"})"},
      {"result.json",
       R"({"clean": {"mean_ap": 0.5, "nd_score": 0.4, "tp_errors": {"trans_err": 0.3}, "label_aps": {"car": {"0.5": 0.1}},)"
       R"( "mean_dist_aps": {"car": 0.2}}, "faults": {"frozen:4": {"mean_ap": 0.1, "nd_score": NaN}},)"
       R"( "mean_resilience": 0.7, "settings": [{"name": "5-way", "accuracy": 0.9}]})"},
      {"curves.json", R"({"car:0.5": {"recall": [0, 0.5, 1], "precision": [1, 0.5, NaN]}})"},
      {"images/captions.json", R"({"a.svg": "a caption"})"},
      {"images/a.svg", "<svg/>"}};
}

std::vector<std::string> run_seeds() {
  return {joined_files(run_files())};
}

void run_report(Bytes bytes) {
  static ChangedFolder folder(run_files());
  folder.change(bytes);
  refuse_in_a_sentence([&] {
    const report::Page page = report::run_page(folder.path());
    const std::string html = report::to_html(page);
    // Text of the folder's files must not become markup.
    if (html.find("<script>alert") != std::string::npos) throw std::logic_error("text that became a script");
  });
  refuse_in_a_sentence([&] { health::diagnose_run(folder.path()); });
}

Files study_files() {
  const std::string plan =
      "seeds = 1\nfew_seeds = 1\nconditions = [\"clean\", \"frozen:5\", \"stale:5\"]\n[[arms]]\nname = "
      "\"plain\"\n[[arms]]\n"
      "name = \"constant\"\n[[arms]]\nname = \"trust\"\n[[arms]]\nname = \"oracle\"\n";
  const auto record = [](const std::string& arm) {
    std::string measured;
    for (const char* condition : {"clean", "frozen:5", "stale:5"})
      measured += std::string(measured.empty() ? "" : ",") + R"({"condition":")" + condition +
                  R"(","control":"","mean_ap":0.5,"nd_score":0.4,"by_distance":[0.2,0.3],"replicates":[4900,5100]})";
    return R"({"arm":")" + arm +
           R"(","seed":0,"steps":700,"scale_lr_mult":1,"scales":{"decoder.0":1.5},"config_hash":"a",)"
           R"("data_fingerprint":"b","weights":"c","commit":"d","instruction_set":"avx2","numerics":1,)"
           R"("measurements":[)" +
           measured +
           R"(],"curves":[{"name":"scale","steps":[0,700],"values":[1,1.5]}],"milliseconds_a_step":100,)"
           R"("training_seconds":70,"evaluation_seconds":3})";
  };
  Files files = {{"plan.toml", plan}};
  for (const std::string arm : {"plain", "constant", "trust"}) files[arm + "_s0.json"] = record(arm);
  return files;
}

std::vector<std::string> study_seeds() {
  return {joined_files(study_files())};
}

void run_study(Bytes bytes) {
  static ChangedFolder folder(study_files());
  folder.change(bytes);
  // The page and the images read the same files: one of them for each input.
  refuse_in_a_sentence([&] {
    if (bytes.size() % 2 == 0)
      report::to_html(report::study_page(folder.path()));
    else
      report::study_images(study::read_study(folder.path()));
  });
}

}  // namespace

std::vector<FuzzTarget> command_targets() {
  return {{"inspect", run_inspect, dataset_seeds, json_words, Structure::kFiles},
          {"metrics", run_metrics, dataset_seeds, json_words, Structure::kFiles},
          {"faults", run_faults, dataset_seeds, json_words, Structure::kFiles},
          {"report", run_report, run_seeds, json_words, Structure::kFiles},
          {"study_page", run_study, study_seeds, json_words, Structure::kFiles}};
}

}  // namespace camber::tests
