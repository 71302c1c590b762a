#include <map>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apps/called_suite.h"

// The plan of the second study, in small: from the published bases, on a test world of its own.
namespace camber::app {
namespace {

class StudyAlarmsProgram : public CalledStudies {
 protected:
  static void SetUpTestSuite() {
    if (!begin("study_alarms")) return;
    begin_ = "--start '" + (fs::path(source_) / "study").string() + "' " + kSmall;
    const Answer whole = call("study run --out whole " + begin_);
    ASSERT_EQ(whole.code, 0) << whole.errors;
    errors_ = whole.errors;
  }
  static std::map<std::string, double> cells(const Record& record) {
    std::map<std::string, double> all;
    for (const Record& measured : record["measurements"])
      all[measured["condition"].get<std::string>() + "/" + measured["control"].get<std::string>()] =
          measured["mean_ap"];
    return all;
  }

  static inline const std::string kOnly = "--seeds 1 --only verified_rule,verified_bias";
  static inline const std::string kSmall =
      "--config configs/study_alarms.toml --world.root=world --world.scenes=20 --test_world.root=test_world "
      "--test_world.scenes=20 --branch_steps=3 --frames=6 --replicates=4 --training.loop.checkpoint_every=1 "
      "--training.detector.bias.scale.learnable=false --training.detector.bias.segment_scale.learnable=false "
      "--gates.stop=false --conditions='[\"clean\", \"frozen:5\", \"stale:5\"]' --threads 1 " +
      kOnly;
  static inline std::string begin_, errors_;
};

TEST_F(StudyAlarmsProgram, TrainsOneModelForAllPoliciesThatShareIt) {
  const auto all = records("whole");
  ASSERT_EQ(all.size(), 6U);  // base; plain, rule, verified rule; bias, verified bias
  EXPECT_NE(errors_.find("3 runs, 0 of them done"), std::string::npos) << errors_;
  EXPECT_EQ(all.at("rule_s0")["weights"], all.at("plain_s0")["weights"]);
  EXPECT_EQ(all.at("verified_bias_s0")["weights"], all.at("bias_s0")["weights"]);
  EXPECT_NE(all.at("verified_bias_s0")["config_hash"], all.at("bias_s0")["config_hash"]);
  EXPECT_EQ(all.at("base_s0")["steps"], 8400) << "a published base is evaluated, not trained";
  EXPECT_GT(all.at("bias_s0")["values"]["agreement/threshold"].get<double>(), 0);
  EXPECT_TRUE(all.at("bias_s0")["values"].contains("agreement/test/stale:5/area_of_five"));
}

TEST_F(StudyAlarmsProgram, MeasuresEveryCellAndStream) {
  const auto rule = cells(records("whole").at("rule_s0")), plain = cells(records("whole").at("plain_s0"));
  for (const char* name :
       {"clean/", "clean/cues of frozen:5", "clean/cues of stale:5", "frozen:5/", "frozen:5/cues of clean",
        "frozen:5/cues of stale:5", "stale:5/cues of frozen:5", "stream/", "bursts/", "wrong culprits/"})
    EXPECT_TRUE(rule.contains(name)) << name;
  EXPECT_EQ(rule.at("clean/"), plain.at("clean/"));
  EXPECT_EQ(rule.at("stale:5/cues of clean"), plain.at("stale:5/")) << "a rule that is told nothing does nothing";
  EXPECT_LT(rule.at("clean/cues of stale:5"), plain.at("clean/")) << "a false alarm takes the LiDAR out";
  EXPECT_FALSE(plain.contains("clean/cues of stale:5")) << "no policy, no cues";
  EXPECT_TRUE(plain.contains("stream/"));
}

TEST_F(StudyAlarmsProgram, GoesOnAfterAKillToTheSameNumbers) {
  call_until("killed/runs/plain_s0/checkpoints/last.safetensors", "study run --out killed " + begin_);
  // A record of an arm that shares a model may be there without that of the model's own arm.
  fs::remove(folder_ / "killed/records/plain_s0.json");
  const Answer again = call("study run --out killed --resume " + kOnly);
  ASSERT_EQ(again.code, 0) << again.errors;
  EXPECT_EQ(records("killed"), records("whole"));
}

TEST_F(StudyAlarmsProgram, AdvisesFromItsRecords) {
  const Answer text = call("advise --from whole --false-alarms 0.1 --misses 0.1 --prevalence 0.2");
  ASSERT_EQ(text.code, 0) << text.errors;
  EXPECT_NE(text.output.find("20 % of the frames are faulty"), std::string::npos) << text.output;
  const Answer json = call("advise --from whole --format json");
  EXPECT_EQ(Record::parse(json.output)["policies"].size(), 5U) << json.output;
  EXPECT_EQ(call("advise --from whole --misses 2").code, 2);
  const Answer tables = call("study tables --from whole");
  for (const char* title : {"### Right, missed and false alarms", "### Which policy wins", "### What agreement tells"})
    EXPECT_NE(tables.output.find(title), std::string::npos) << title;
}

TEST_F(StudyAlarmsProgram, RefusesBasesThatAreNotThere) {
  fs::create_directories(folder_ / "nothing");
  const Answer missing = call("study run --out none --start nothing " + kSmall);
  EXPECT_EQ(missing.code, 2) << missing.errors;
  EXPECT_NE(missing.errors.find("--start must hold base_s0 with its record"), std::string::npos) << missing.errors;
}

}  // namespace
}  // namespace camber::app
