#include "camber/config/options.h"
#include "camber/health/run_diagnosis.h"
#include "camber/nuscenes/rig.h"
#include "camber/simulation/simulate.h"
#include "camber/study/analysis.h"
#include "camber/study/fewshot_plan.h"
#include "camber/study/findings.h"
#include "camber/study/record.h"
#include "camber/study/tables.h"
#include "fuzz/fuzzing.h"

namespace camber::tests {
namespace {

// ---- metrics.jsonl and health.jsonl of a run

std::vector<std::string> record_seeds() {
  return {
      R"({"step":1,"time":1700000000.125,"loss/total":3.5,"scale/decoder.0/value":1.5,"scale/decoder.0/min":0.5}
{"step":2,"time":1700000001.250,"loss/total":"NaN","learning_rate":2e-3,"gradient_norm":"Infinity"}
)",
      R"({"step":5,"time":1700000000.5,"severity":"warning","rule":"scale","subject":"decoder.0","value":0.5,"sentence":"it is near its bound"}
)"};
}

void run_records(Bytes bytes) {
  const MemoryFile file(bytes);
  refuse_in_a_sentence([&] {
    const std::vector<health::Record> records = health::read_records(file.path());
    const health::RunDiagnosis diagnosis = health::diagnose(records, {});
    to_text(diagnosis);
    to_json(diagnosis);
    to_csv(diagnosis);
  });
  refuse_in_a_sentence([&] { health::diagnose({}, health::read_findings(file.path())); });
}

// ---- the record of one run of a study

study::StudyPlan small_plan() {
  study::StudyPlan plan;
  plan.conditions = {"clean", "frozen:5", "stale:5"};
  plan.seeds = 1;
  plan.few_seeds = 1;
  plan.arms = {{.name = "plain"}, {.name = "constant"}, {.name = "trust"}, {.name = "oracle"}};
  return plan;
}

study::RunRecord small_record(const std::string& arm) {
  study::RunRecord record{.arm = arm, .seed = 0, .steps = 700, .scales = {{"decoder.0", 1.25}}};
  for (const char* condition : {"clean", "frozen:5", "stale:5"})
    record.measurements.push_back({.condition = condition,
                                   .mean_ap = 0.5,
                                   .nd_score = 0.4,
                                   .by_distance = {0.25, 0.75},
                                   .trust_lidar = 0.5,
                                   .trust_camera = -0.5,
                                   .replicates = {4950, 5050}});
  record.curves["scale"] = {.steps = {0, 700}, .values = {1, 1.25}};
  return record;
}

std::vector<std::string> study_record_seeds() {
  return {study::to_json(small_record("trust"))};
}

void run_study_record(Bytes bytes) {
  refuse_in_a_sentence([&] {
    const study::RunRecord record = study::parse_record(text_of(bytes), "fuzz");
    const study::StudyResults results{.plan = small_plan(), .records = {small_record("constant"), record}};
    study::analyze(results.plan, results.records);
    study::findings(results);
    study::all_tables(results);
    // What was read is written and read again to the same.
    const std::string text = study::to_json(record);
    if (study::to_json(study::parse_record(text, "again")) != text) throw std::logic_error("another record");
  });
}

// ---- TOML

// A struct that was accepted is written in full and reads back to the same text.
template <class Options>
void run_options(Bytes bytes) {
  refuse_in_a_sentence([&] {
    const auto options = config::parse<Options>(text_of(bytes), "fuzz.toml");
    const std::string complete = config::to_toml(options);
    if (config::to_toml(config::parse<Options>(complete, "again.toml")) != complete)
      throw std::logic_error("other options when read again");
  });
  refuse_in_a_sentence([&] { config::parse_stored<Options>(text_of(bytes), "fuzz.toml"); });
}

std::vector<std::string> plan_seeds() {
  return {config::to_toml(small_plan()),
          "seeds = 2\n[[arms]]\nname = \"plain\"\n[[arms]]\nname = \"trust\"\nrole = \"notes\"\noptions = [\"a=b\"]\n"
          "[[arms]]\nname = \"constant\"\n[gates]\noracle_arm = \"\"\n"};
}

std::vector<std::string> fewshot_plan_seeds() {
  study::FewshotPlan plan;
  plan.parts = {{.name = "letters",
                 .config = "configs/letters.toml",
                 .reference = "none",
                 .arms = {{.name = "none", .options = {"model.purifier=none"}}, {.name = "learned"}}}};
  return {config::to_toml(plan)};
}

std::vector<std::string> rig_seeds() {
  const nuscenes::Rig rig{{{.channel = "LIDAR_TOP", .modality = nuscenes::Modality::kLidar},
                           {.channel = "FRONT",
                            .modality = nuscenes::Modality::kCamera,
                            .translation = {1.7, 0, 1.5},
                            .rotation = {0.5, -0.5, 0.5, -0.5},
                            .intrinsic = {1266, 0, 816, 0, 1266, 491, 0, 0, 1},
                            .width = 1600,
                            .height = 900}}};
  return {config::to_toml(rig)};
}

void run_rig(Bytes bytes) {
  run_options<nuscenes::Rig>(bytes);
  refuse_in_a_sentence([&] {
    const auto rig = config::parse<nuscenes::Rig>(text_of(bytes), "fuzz.toml");
    rig.lidar_to_ego();
    rig.cameras(320, 128, 16);
  });
}

std::vector<std::string> simulation_seeds() {
  return {config::to_toml(simulation::SimulationOptions{})};
}

}  // namespace

std::vector<FuzzTarget> run_targets() {
  return {{"records", run_records, record_seeds, json_words, Structure::kJsonLines},
          {"study_record", run_study_record, study_record_seeds, json_words, Structure::kJson},
          {"study_plan", run_options<study::StudyPlan>, plan_seeds, toml_words, Structure::kToml},
          {"fewshot_plan", run_options<study::FewshotPlan>, fewshot_plan_seeds, toml_words, Structure::kToml},
          {"rig", run_rig, rig_seeds, toml_words, Structure::kToml},
          {"simulation", run_options<simulation::SimulationOptions>, simulation_seeds, toml_words, Structure::kToml}};
}

}  // namespace camber::tests
