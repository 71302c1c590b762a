#include <filesystem>
#include <map>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apps/called_program.h"
#include "camber/storage/atomic_file.h"

// `camber study fewshot`, called as a person calls it, on a study of seconds.
namespace camber::app {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

// Two arms with two seeds.
constexpr const char* kStudy = R"(
seeds = [1, 2]
processes = 2

[[parts]]
name = "tiny"
config = "tiny.toml"
table = "leaks"
reference = "none"
arms = [
  { name = "none", title = "no purification", options = ["model.purifier=none"] },
  { name = "sap", title = "SAP" },
]
)";

constexpr const char* kTinySource = R"(
leak_episodes = 2
source = { kind = "glyphs", test_classes = 6, glyphs = { classes = 14, hands = 6, size = 16 } }
episode = { n_way = 5, k_shot = 2, queries = 2, cross_domain = true }
model = { purifier = "sap", encoder = { kind = "conv4", channels = 8 } }
training = { episodes = EPISODES, checkpoint_every = 1, log_every = 1 }
tests = [{ n_way = 5, k_shot = 1, queries = 1, episodes = 4 }, { n_way = 5, k_shot = 5, queries = 1, episodes = 4 }]
)";

class FewshotStudyProgram : public CalledProgram {
 protected:
  void write(const std::string& episodes, const std::string& study = kStudy) const {
    std::string source = kTinySource;
    source.replace(source.find("EPISODES"), 8, episodes);
    storage::write_file(folder_ / "tiny.toml", source);
    storage::write_file(folder_ / "study.toml", study);
  }
  // Every record without its times.
  std::map<std::string, OrderedJson> records(const std::string& study) const {
    std::map<std::string, OrderedJson> all;
    for (const auto& entry : fs::directory_iterator(folder_ / study / "records")) {
      if (entry.path().extension() != ".json") continue;
      OrderedJson record = OrderedJson::parse(storage::read_file(entry.path()));
      for (const char* time : {"milliseconds_a_step", "training_seconds"}) record.erase(time);
      all[entry.path().stem()] = record;
    }
    return all;
  }
};

TEST_F(FewshotStudyProgram, RunsEveryArmWithEverySeedAndRepeatsNone) {
  write("3");
  const Answer answer = call("study fewshot run --config study.toml --out study");
  ASSERT_EQ(answer.code, 0) << answer.errors;
  const auto all = records("study");
  ASSERT_EQ(all.size(), 4U);
  EXPECT_NE(answer.output.find("| no purification |"), std::string::npos) << answer.output;
  EXPECT_NE(answer.output.find("| SAP |"), std::string::npos) << answer.output;
  EXPECT_TRUE(fs::is_empty(folder_ / "study/runs")) << "a run leaves its record alone";

  // The numbers are those of the same run by itself.
  const Answer alone = call("fewshot --config tiny.toml --seed 2 --threads 1 --quiet --format json");
  ASSERT_EQ(alone.code, 0) << alone.errors;
  const auto result = OrderedJson::parse(alone.output);
  const OrderedJson& values = all.at("tiny_sap_s2")["values"];
  EXPECT_EQ(values["5-way 5-shot/accuracy"], result["settings"][1]["accuracy"]);
  EXPECT_EQ(values["leak/purified/leak_index"], result["leak"][1]["leak_index"]);
  EXPECT_EQ(all.at("tiny_sap_s2")["scales"].begin().value(), result["scale"][0]["value"]);
  EXPECT_NE(all.at("tiny_sap_s1")["values"], values);

  const auto time = fs::last_write_time(folder_ / "study/records/tiny_sap_s1.json");
  fs::remove(folder_ / "study/records/tiny_none_s1.json");
  const Answer again = call("study fewshot run --resume --out study --format json");
  ASSERT_EQ(again.code, 0) << again.errors;
  EXPECT_EQ(nlohmann::json::parse(again.output)["done_before"], 3);
  EXPECT_EQ(fs::last_write_time(folder_ / "study/records/tiny_sap_s1.json"), time);
  EXPECT_EQ(records("study"), all);

  const Answer tables = call("study fewshot tables --from study");
  EXPECT_EQ(tables.output, answer.output);
  const Answer published = call("study publish --from study --to published");
  ASSERT_EQ(published.code, 0) << published.errors;
  const Answer taken = call("study fewshot run --config study.toml --out other --start published --format json");
  ASSERT_EQ(taken.code, 0) << taken.errors;
  EXPECT_EQ(nlohmann::json::parse(taken.output)["done_before"], 4);

  write("4");
  const Answer mixed = call("study fewshot run --config study.toml --out study");
  EXPECT_EQ(mixed.code, 2);
  EXPECT_NE(mixed.errors.find("must hold runs of this configuration"), std::string::npos) << mixed.errors;
}

TEST_F(FewshotStudyProgram, GoesOnAfterAKillToTheSameNumbers) {
  write("60");
  const Answer whole = call("study fewshot run --config study.toml --only tiny_sap --out whole");
  ASSERT_EQ(whole.code, 0) << whole.errors;
  {
    Process process("study fewshot run --config study.toml --only tiny_sap --out killed", folder_, folder_, "killed");
    for (int i = 0; i < 6000 && !fs::exists(folder_ / "killed/runs/tiny_sap_s1/checkpoints/last.safetensors"); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ASSERT_TRUE(fs::exists(folder_ / "killed/runs/tiny_sap_s1/checkpoints/last.safetensors"));
  EXPECT_FALSE(fs::exists(folder_ / "killed/records/tiny_sap_s1.json"));
  const Answer again = call("study fewshot run --resume --only tiny_sap --out killed");
  ASSERT_EQ(again.code, 0) << again.errors;
  EXPECT_EQ(records("killed"), records("whole"));
}

TEST_F(FewshotStudyProgram, ARunKilledAfterItsLastStepHasTheSameRecord) {
  write("3");
  ASSERT_EQ(call("study fewshot run --config study.toml --only tiny_sap --out whole").code, 0);
  fs::create_directories(folder_ / "late/runs");
  ASSERT_EQ(call("fewshot --config tiny.toml --seed 1 --threads 1 --out late/runs/tiny_sap_s1").code, 0);
  const Answer late = call("study fewshot run --config study.toml --only tiny_sap --out late");
  ASSERT_EQ(late.code, 0) << late.errors;
  EXPECT_EQ(records("late"), records("whole"));
}

TEST_F(FewshotStudyProgram, SaysWhatIsWrongBeforeAnyRunAndKeepsWhatFailed) {
  write("2");
  const Answer unknown = call("study fewshot run --config study.toml --out none --only tiny_sp");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.errors.find("did you mean 'tiny_sap'?"), std::string::npos) << unknown.errors;
  std::string study = kStudy;
  write("2", study.replace(study.find("model.purifier=none"), 19, "model.purifier=nune"));
  EXPECT_EQ(call("study fewshot run --config study.toml --out none").code, 2);
  EXPECT_FALSE(fs::exists(folder_ / "none"));

  // More classes than the test has: only the run itself can see it.
  study = kStudy;
  write("2", study.replace(study.find("model.purifier=none\""), 20, "tests.0.n_way=7\", \"model.purifier=none\""));
  const Answer partly = call("study fewshot run --config study.toml --out partly");
  EXPECT_EQ(partly.code, 1) << partly.errors;
  EXPECT_EQ(records("partly").size(), 2U) << "the other arm's runs";
  EXPECT_TRUE(fs::exists(folder_ / "partly/failed/tiny_none_s1.txt"));
  EXPECT_NE(partly.errors.find("tiny_none_s1 failed: "), std::string::npos) << partly.errors;
  EXPECT_NE(partly.errors.find("camber: [study] "), std::string::npos) << partly.errors;
}

}  // namespace
}  // namespace camber::app
