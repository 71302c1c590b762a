#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apps/called_suite.h"

// camber study, called as a person calls it, on a study of seconds.
namespace camber::app {
namespace {

using OrderedJson = nlohmann::ordered_json;

class StudyProgram : public CalledStudies {
 protected:
  static void SetUpTestSuite() {
    if (!begin("study_program")) return;
    const Answer whole = call("study run --out whole " + kTiny);
    ASSERT_EQ(whole.code, 0) << whole.errors;
    whole_ = whole;
  }

  static inline const std::string kTiny =
      "--config configs/study_small.toml --world.root=world --world.scenes=8 --world.frames=3 --base_steps=4 "
      "--branch_steps=3 --frames=4 --replicates=4 --training.loop.checkpoint_every=1 --gates.doubled_seeds=0 --seeds 1 "
      "--only plain,trust,fixed_0,rule --threads 1";
  static inline Answer whole_;
};

TEST_F(StudyProgram, LeavesARecordARunAndTheBaseWeights) {
  EXPECT_EQ(records("whole").size(), 5U);
  EXPECT_TRUE(fs::exists(folder_ / "whole/runs/base_s0/model.safetensors"));
  EXPECT_FALSE(fs::exists(folder_ / "whole/runs/trust_s0"));
  const OrderedJson trust = records("whole").at("trust_s0");
  std::size_t controls = 0, swaps = 0;
  for (const OrderedJson& measured : trust["measurements"]) {
    const std::string control = measured["control"];
    controls += control == "zero" || control == "mean" || control == "shuffled" || control == "oracle";
    swaps += control.starts_with("cues of");
    EXPECT_EQ(measured["replicates"].size(), 4U);
  }
  EXPECT_EQ(controls, 8U);
  EXPECT_EQ(swaps, 2U);
  EXPECT_FALSE(trust["curves"].empty());
  for (const char* words : {"5 runs, 0 of them done", "trust_s0: clean mAP", "mAP of fusion"})
    EXPECT_NE(whole_.errors.find(words), std::string::npos) << words << "\n" << whole_.errors;
  EXPECT_NE(whole_.output.find("### mAP by arm and condition"), std::string::npos) << whole_.output;
}

TEST_F(StudyProgram, MeasuresWhatEvalMeasures) {
  const Answer evaluated = call(
      "eval --checkpoint whole/runs/base_s0/model.safetensors --data world --split test --limit 4 --threads 1 "
      "--faults frozen:5,stale:5,lidar_off --config configs/evaluation/world.json --format json");
  ASSERT_EQ(evaluated.code, 0) << evaluated.errors;
  const OrderedJson report = OrderedJson::parse(std::regex_replace(evaluated.output, std::regex(": NaN"), ": null"));
  const OrderedJson base = records("whole").at("base_s0");
  std::size_t compared = 0;
  for (const OrderedJson& measured : base["measurements"]) {
    const std::string condition = measured["condition"], name = condition == "lidar_off" ? "lidar_off:3" : condition;
    if (condition != "clean" && !report["faults"].contains(name)) continue;
    const OrderedJson& metrics = condition == "clean" ? report["clean"] : report["faults"][name];
    EXPECT_NEAR(measured["mean_ap"].get<double>(), metrics["mean_ap"].get<double>(), 1e-6) << condition;
    EXPECT_NEAR(measured["nd_score"].get<double>(), metrics["nd_score"].get<double>(), 1e-6) << condition;
    ++compared;
  }
  EXPECT_EQ(compared, 4U);
}

TEST_F(StudyProgram, AConditionThatIsNoneIsRefusedBeforeTheWork) {
  const Answer unknown =
      call("study run --out none " + kTiny + " --conditions='[\"clean\", \"frozen:5\", \"stale:5\", \"frozn\"]'");
  EXPECT_EQ(unknown.code, 2) << unknown.errors;
  EXPECT_NE(unknown.errors.find("did you mean 'frozen'?"), std::string::npos) << unknown.errors;
  EXPECT_FALSE(fs::exists(folder_ / "none"));
}

TEST_F(StudyProgram, ScaleZeroMeasuresWhatNoBiasMeasures) {
  const OrderedJson plain = records("whole").at("plain_s0"), zero = records("whole").at("fixed_0_s0");
  for (const OrderedJson& measured : plain["measurements"])
    for (const OrderedJson& other : zero["measurements"])
      if (other["condition"] == measured["condition"] && other["control"].get<std::string>().empty()) {
        EXPECT_EQ(other["replicates"], measured["replicates"]) << measured["condition"];
      }
}

TEST_F(StudyProgram, ARuleIsThePlainDetectorEvaluatedOtherwise) {
  const OrderedJson plain = records("whole").at("plain_s0"), rule = records("whole").at("rule_s0");
  EXPECT_EQ(rule["weights"], plain["weights"]);
  EXPECT_NE(rule["config_hash"], plain["config_hash"]);
  std::size_t swaps = 0;
  for (const OrderedJson& measured : rule["measurements"])
    swaps += measured["control"].get<std::string>().starts_with("cues of");
  EXPECT_EQ(swaps, 2U) << "false alarms and missed cues are measured as for trust";
}

TEST_F(StudyProgram, GoesOnAfterAKillToTheSameNumbers) {
  call_until("killed/runs/base_s0/checkpoints/last.safetensors", "study run --out killed " + kTiny);
  const Answer again = call("study run --out killed --resume --seeds 1 --only plain,trust,fixed_0,rule");
  ASSERT_EQ(again.code, 0) << again.errors;
  EXPECT_EQ(records("killed"), records("whole"));
}

TEST_F(StudyProgram, RepeatsNoRunAndRemakesABaseThatIsGone) {
  fs::copy(folder_ / "whole", folder_ / "copy", fs::copy_options::recursive);
  const auto written = [&](const char* name) { return fs::last_write_time(folder_ / "copy/records" / name); };
  fs::remove_all(folder_ / "copy/runs");
  fs::remove(folder_ / "copy/records/trust_s0.json");
  const auto plain = written("plain_s0.json"), base = written("base_s0.json");
  const Answer again = call("study run --out copy " + kTiny);
  ASSERT_EQ(again.code, 0) << again.errors;
  EXPECT_EQ(written("plain_s0.json"), plain);
  EXPECT_EQ(written("base_s0.json"), base);
  EXPECT_EQ(records("copy"), records("whole"));
}

TEST_F(StudyProgram, GoesOnElsewhereFromWhatWasPublished) {
  ASSERT_EQ(call("study publish --from whole --to published").code, 0);
  EXPECT_EQ(call("study tables --from published/records").output, call("study tables --from whole").output);
  fs::remove(folder_ / "published/records/trust_s0.json");
  const Answer again = call("study run --out elsewhere --start published " + kTiny);
  ASSERT_EQ(again.code, 0) << again.errors;
  EXPECT_NE(again.errors.find("5 runs, 4 of them done"), std::string::npos) << again.errors;
  EXPECT_EQ(records("elsewhere"), records("whole"));
}

// Records of another version of the arithmetic, with a base and without: told in a sentence, neither failed nor mixed.
TEST_F(StudyProgram, GoesOnFromRecordsOfOtherNumericsAndSaysSo) {
  ASSERT_EQ(call("study publish --from whole --to earlier").code, 0);
  for (const auto& entry : fs::directory_iterator(folder_ / "earlier/records")) {
    if (entry.path().extension() != ".json") continue;
    OrderedJson record = OrderedJson::parse(storage::read_file(entry.path()));
    EXPECT_EQ(record["numerics"], 5);
    record.erase("numerics");  // as records were before they said it
    std::ofstream(entry.path()) << record.dump();
  }
  fs::remove(folder_ / "earlier/records/trust_s0.json");
  EXPECT_EQ(call("study tables --from earlier/records").code, 0);
  const Answer going_on = call("study run --out later --start earlier " + kTiny);
  ASSERT_EQ(going_on.code, 0) << going_on.errors;
  EXPECT_NE(going_on.errors.find("(and 3 more) was made with numerics 1, this program computes with 5"),
            std::string::npos)
      << going_on.errors;
  EXPECT_NE(going_on.errors.find("5 runs, 4 of them done"), std::string::npos) << going_on.errors;
  EXPECT_EQ(records("later").size(), records("whole").size());

  // Without its weights the base is made again, and with it all that branched from it.
  fs::remove_all(folder_ / "earlier/bases");
  OrderedJson base = OrderedJson::parse(storage::read_file(folder_ / "earlier/records/base_s0.json"));
  base["weights"] = "0123456789abcdef";
  std::ofstream(folder_ / "earlier/records/base_s0.json") << base.dump();
  const Answer made_again = call("study run --out anew --start earlier " + kTiny);
  ASSERT_EQ(made_again.code, 0) << made_again.errors;
  EXPECT_EQ(records("anew"), records("whole"));
}

TEST_F(StudyProgram, RefusesABaseThatIsNotItsRecords) {
  ASSERT_EQ(call("study publish --from whole --to foreign").code, 0);
  fs::remove(folder_ / "foreign/records/trust_s0.json");
  const fs::path record = folder_ / "foreign/records/base_s0.json";
  OrderedJson other = OrderedJson::parse(storage::read_file(record));
  other["weights"] = "0123456789abcdef";
  std::ofstream(record) << other.dump();
  const Answer answer = call("study run --out stranger --start foreign " + kTiny);
  EXPECT_EQ(answer.code, 1);
  EXPECT_NE(answer.errors.find("must have the weights 0123456789abcdef of its record"), std::string::npos)
      << answer.errors;
}

TEST_F(StudyProgram, FailsOneRunWithoutFailingTheRest) {
  fs::copy(folder_ / "whole", folder_ / "failing", fs::copy_options::recursive);
  fs::remove(folder_ / "failing/records/trust_s0.json");
  fs::remove(folder_ / "failing/records/plain_s0.json");
  // Its weights are damaged: every branch that starts from them fails with a sentence.
  fs::resize_file(folder_ / "failing/runs/base_s0/model.safetensors", 1000);
  const Answer failing = call("study run --out failing " + kTiny);
  EXPECT_EQ(failing.code, 1);
  EXPECT_NE(failing.errors.find("trust_s0 failed: camber: "), std::string::npos) << failing.errors;
  const Answer quiet = call("study run --quiet --out failing " + kTiny);
  EXPECT_EQ(quiet.code, 1);
  EXPECT_EQ(quiet.errors.find("camber: [study] 2 of "), 0U) << quiet.errors;
  EXPECT_NE(quiet.errors.find("trust_s0"), std::string::npos) << quiet.errors;
  EXPECT_NE(storage::read_file(folder_ / "failing/failed/plain_s0.txt").find("model.safetensors"), std::string::npos);
  EXPECT_EQ(records("failing").size(), records("whole").size() - 2) << "all but the two that failed";
  fs::remove_all(folder_ / "failing/runs");
  const Answer mended = call("study run --out failing " + kTiny);
  EXPECT_EQ(mended.code, 0) << mended.errors;
  EXPECT_FALSE(fs::exists(folder_ / "failing/failed/plain_s0.txt"));
  EXPECT_EQ(records("failing"), records("whole"));
}

TEST_F(StudyProgram, MakesTablesFromRecordsAlone) {
  fs::copy(folder_ / "whole/records", folder_ / "records_only");
  const Answer tables = call("study tables --from records_only");
  ASSERT_EQ(tables.code, 0) << tables.errors;
  EXPECT_EQ(call("study tables --from whole").output, tables.output);
  std::ofstream(folder_ / "page.md") << "# Page\n<!-- tables -->\nold\n<!-- end of tables -->\nend\n";
  ASSERT_EQ(call("study tables --from records_only --into page.md").code, 0);
  EXPECT_EQ(storage::read_file(folder_ / "page.md"),
            "# Page\n<!-- tables -->\n" + tables.output + "<!-- end of tables -->\nend\n");
  ASSERT_EQ(call("study tables --from records_only --into page.md --images drawn/here").code, 0);
  EXPECT_NE(storage::read_file(folder_ / "drawn/here/arms.svg").find("<svg"), std::string::npos);
}

TEST_F(StudyProgram, TheDocumentedTablesAreThoseOfTheRecords) {
  const fs::path study = fs::path(std::getenv("CAMBER_SOURCE")) / "study";
  const auto made_again = [&](const fs::path& document, const fs::path& records, const std::string& images) {
    fs::copy_file(document, folder_ / "document.md", fs::copy_options::overwrite_existing);
    ASSERT_EQ(call("study tables --from '" + records.string() + "' --into document.md" + images).code, 0);
    EXPECT_EQ(storage::read_file(folder_ / "document.md"), storage::read_file(document));
  };
  for (const char* plan : {"2800_steps", "5600_steps"})
    made_again(study / "earlier_plans" / plan / "README.md", study / "earlier_plans" / plan, "");
  made_again(study / "tables.md", study / "records", " --images documented");
  for (const auto& image : fs::directory_iterator(folder_ / "documented"))
    EXPECT_EQ(storage::read_file(image.path()), storage::read_file(study / image.path().filename()));
}

TEST_F(StudyProgram, RunsAsManySeedsAsAreAskedFor) {
  const std::string plan = kTiny.substr(0, kTiny.find(" --seeds 1")) + " --only plain ";
  const auto runs_of = [&](const std::string& seeds) {
    const Answer answer = call("study estimate --out asked --format json " + plan + seeds);
    EXPECT_EQ(answer.code, 0) << answer.errors;
    return answer.code == 0 ? OrderedJson::parse(answer.output)["runs"].get<int>() : -1;
  };
  EXPECT_EQ(runs_of("--seeds=1"), 2) << "a base and a branch";
  EXPECT_EQ(runs_of("--seeds=4"), 8) << "more than the plan's own";
  EXPECT_EQ(runs_of("--seeds 4"), 8);
  EXPECT_EQ(call("study estimate --out asked --seeds -1 " + plan).errors,
            "camber: [study] --seeds must be at least 0, got -1\n");
}

TEST_F(StudyProgram, AnEstimateLeavesNothingBehind) {
  const auto names = [&] {
    std::set<std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) all.insert(entry.path().string());
    return all;
  };
  std::string absent = kTiny;
  absent.replace(absent.find("--world.root=world"), 18, "--world.root=no_world");
  call("study estimate --out none " + absent);  // its streams' files are there now
  const auto before = names();
  const Answer estimate = call("study estimate --out none " + absent);
  ASSERT_EQ(estimate.code, 0) << estimate.errors;
  EXPECT_NE(estimate.errors.find("5 runs, 0 of them done"), std::string::npos) << estimate.errors;
  EXPECT_FALSE(fs::exists(folder_ / "no_world"));
  EXPECT_FALSE(fs::exists(folder_ / "none"));
  const Answer known = call("study estimate --out whole " + kTiny);
  ASSERT_EQ(known.code, 0) << known.errors;
  EXPECT_NE(known.errors.find("5 runs, 5 of them done"), std::string::npos) << known.errors;
  EXPECT_EQ(names(), before);
}

// Every command of the list in a process of its own, from another folder, the base started twice at once.
// The gates stand on the bases that were chosen, not on those of all seeds of the plan.
TEST_F(StudyProgram, PassesItsGatesWithSomeOfTheSeeds) {
  const Answer part = call("study run --out part " + kTiny +
                           " --gates.stop=true --gates.fusion_gain=-1 "
                           "--gates.single_share=-1 --gates.fault_cut=-1 --gates.camera_gain=-1");
  EXPECT_EQ(part.code, 0) << part.errors;
  EXPECT_EQ(records("part").size(), 5U);
}

TEST_F(StudyProgram, RunsOneByOneAsListed) {
  std::string one_arm = kTiny;
  one_arm.replace(one_arm.find("plain,trust,fixed_0,rule"), 24, "plain");
  const auto list = [&] {
    const Answer answer = call("study list --out listed " + one_arm + " --format json");
    EXPECT_EQ(answer.code, 0) << answer.errors;
    return OrderedJson::parse(answer.output);
  };
  const OrderedJson before = list();
  std::vector<std::string> names;
  for (const OrderedJson& run : before) names.push_back(run["name"]);
  ASSERT_EQ(names, (std::vector<std::string>{"world", "base_s0", "plain_s0"}));
  EXPECT_EQ(before[2]["needs"], OrderedJson({"world", "base_s0"}));
  EXPECT_TRUE(before[0]["done"].get<bool>());  // that of the other study
  EXPECT_FALSE(before[1]["done"].get<bool>());

  const Answer early = call("study run plain_s0 --out listed --seeds 1 --only plain");
  EXPECT_EQ(early.code, 1);
  EXPECT_NE(early.errors.find("plain_s0 needs base_s0, which is not done"), std::string::npos) << early.errors;
  EXPECT_EQ(call("study run trst_s0 --out listed").code, 2);
  const auto command_of = [&](std::size_t run) {
    std::string words;
    for (const std::string word : before[run]["command"]) words += "'" + word + "' ";
    return "cd / && " + words;
  };
  const std::string twice = "(" + command_of(1) + ") & first=$!; " + command_of(1) + "; wait $first";
  ASSERT_EQ(std::system(("sh -c \"" + twice + "\" > /dev/null 2>&1").c_str()), 0);
  ASSERT_EQ(std::system(("sh -c \"" + command_of(2) + "\" > /dev/null 2>&1").c_str()), 0);
  EXPECT_TRUE(list()[2]["done"].get<bool>());
  for (const auto& [name, record] : records("listed")) EXPECT_EQ(record, records("whole").at(name)) << name;
  const Answer text = call("study list --out listed --resume --seeds 1 --only plain");
  EXPECT_NE(text.output.find("plain_s0\tworld,base_s0\tdone\t"), std::string::npos) << text.output;
}

TEST_F(StudyProgram, RefusesWithOneSentence) {
  const auto refused = [&](const std::string& arguments, const std::string& words) {
    const Answer answer = call(arguments);
    EXPECT_EQ(answer.code, 2) << arguments;
    EXPECT_NE(answer.errors.find(words), std::string::npos) << answer.errors;
  };
  refused("study", "needs a sub-command: run, list, estimate, tables, publish or fewshot");
  refused("study run", "--out is required");
  refused("study tables", "--from is required");
  refused("study publish --from whole", "--to is required");
  refused("study run --out new", "give a configuration with --config");
  refused("study run --out nowhere --resume", "without study.toml");
  refused("study publish --from nowhere --to there", "without records");
  refused("study run --out new " + kTiny + " --start configs", "--start must hold a published study");
  refused("study tables --from configs", "plan.toml");
  refused("study run --out new --config configs/study_small.toml --only trst", "did you mean 'trust'?");
  refused("study run --out whole " + kTiny + " --training.log_every=3", "of another");
  refused("study run --out new " + kTiny + " --arms.2.exempt=false", "must have scales that reach their bounds");
  EXPECT_FALSE(fs::exists(folder_ / "new/records/base_s0.json"));
}

TEST_F(StudyProgram, AnswersTheFormsOfEarlierVersionsWithTheNewOnes) {
  const auto answered = [&](const std::string& arguments, const std::string& sentence) {
    const Answer answer = call(arguments);
    EXPECT_EQ(answer.code, 2) << arguments;
    EXPECT_EQ(answer.errors, "camber: [study] " + sentence + "\n");
  };
  answered("study --config configs/study.toml --out new", "--config is now given as 'camber study run --out FOLDER'");
  answered("study --base_steps=4", "--base_steps is now given as 'camber study run --out FOLDER'");
  answered("study --out new --estimate", "--estimate is now given as 'camber study estimate --out FOLDER'");
  answered("study --out new --run trust_s0", "--run is now given as 'camber study run RUN --out FOLDER'");
  answered("study --tables --out whole", "--tables is now given as 'camber study tables --from FOLDER'");
  answered("study --out whole --publish there",
           "--publish is now given as 'camber study publish --from FOLDER --to FOLDER'");
}

TEST_F(StudyProgram, TwoProgramsDoNotWorkInOneStudy) {
  Process first("study run --out shared " + kTiny, folder_, folder_, "shared");
  ASSERT_TRUE(appears(folder_ / "shared/study.toml"));
  first.send(SIGSTOP);
  const Answer second = call("study run --out shared " + kTiny);
  EXPECT_EQ(second.code, 1) << second.errors;
  EXPECT_NE(second.errors.find("shared must be free, but process " + std::to_string(first.id()) + " on " + host_name() +
                               " works there"),
            std::string::npos)
      << second.errors;
  first.send(SIGKILL);
  first.wait();
  const Answer third = call("study list --out shared " + kTiny);
  EXPECT_EQ(third.code, 0) << "a lock vanishes with its process: " << third.errors;
}

}  // namespace
}  // namespace camber::app
