#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apps/called_program.h"

// The sub-commands that make and look over data, called as a person calls them.
namespace camber::app {
namespace {

namespace fs = std::filesystem;

class WorldProgram : public CalledProgram {};

TEST_F(WorldProgram, SimulatesFaultsAndInspects) {
  const Answer simulated = call("simulate --out world --scenes 4 --world.frames=3 --seed 7 --format json");
  ASSERT_EQ(simulated.code, 0) << simulated.errors;
  const auto summary = nlohmann::json::parse(simulated.output);
  EXPECT_EQ(summary["frames"], 12);
  EXPECT_EQ(summary["scenes"], 4);
  EXPECT_TRUE(fs::exists(folder_ / "world/v1.0-simulated/sample_annotation.json"));

  const Answer faults = call("faults --data world --split test --faults frozen:2:other_scene --out frozen");
  EXPECT_EQ(faults.code, 2);  // one test scene: there is no other to take images from
  EXPECT_NE(faults.errors.find("a frame to repeat must exist"), std::string::npos);
  const Answer dark = call("faults --data world --faults dark:4,beams --out dark --format json");
  ASSERT_EQ(dark.code, 0) << dark.errors;
  EXPECT_EQ(nlohmann::json::parse(dark.output)["changed_files"], 12 * (6 + 3));

  const Answer counts = call("inspect --data world --read --format json");
  ASSERT_EQ(counts.code, 0) << counts.errors;
  EXPECT_EQ(nlohmann::json::parse(counts.output)["tables"]["sample"], 12);
  EXPECT_EQ(nlohmann::json::parse(counts.output)["sensors"][0]["damaged"], 0);
  const Answer gates = call("inspect --data world --gates --format json");
  ASSERT_EQ(gates.code, 0) << gates.errors;
  EXPECT_EQ(nlohmann::json::parse(gates.output)["frames"], 12);
  const Answer image = call("inspect --data world --image a.png --frame 5 --faults rain:3 --sheet b.jpg");
  ASSERT_EQ(image.code, 0) << image.errors;
  EXPECT_EQ(storage::read_file(folder_ / "a.png").substr(1, 3), "PNG");
  EXPECT_EQ(storage::read_file(folder_ / "b.jpg").substr(0, 2), "\xFF\xD8");
}

TEST_F(WorldProgram, WritesAnyRigAndTheReferenceSize) {
  std::ofstream(folder_ / "rig.toml")
      << "[world]\nframes = 1\n[rig.lidar]\nbeams = 4\n[[rig.cameras]]\nname = \"ONE\"\n"
         "width = 64\nheight = 40\n";
  ASSERT_EQ(call("simulate --out one --scenes 1 --config rig.toml").code, 0);
  EXPECT_TRUE(fs::exists(folder_ / "one/samples/ONE"));
  EXPECT_FALSE(fs::exists(folder_ / "one/samples/CAM_FRONT"));
  const Answer both = call("simulate --out two --scenes 1 --config rig.toml --reference-size");
  EXPECT_EQ(both.code, 2);
  EXPECT_EQ(both.errors, "camber: [simulate] --reference-size must not be given with a rig of your own\n");
  ASSERT_EQ(call("simulate --out large --scenes 1 --reference-size --world.frames=1").code, 0);
  const auto rows = nlohmann::json::parse(storage::read_file(folder_ / "large/v1.0-simulated/sample_data.json"));
  EXPECT_EQ(rows[3]["width"], 1600);
  EXPECT_EQ(rows[3]["height"], 900);
}

TEST_F(WorldProgram, AnswersMistakesInASentence) {
  EXPECT_EQ(call("simulate --scenes 2").code, 2);
  EXPECT_NE(call("simulate --out x --world.frmes=2").errors.find("frames"), std::string::npos);
  EXPECT_EQ(call("simulate --out x --scenes 0").errors, "camber: [simulate] scenes must be 1 to 9999, got 0\n");
  EXPECT_NE(call("faults --data x --faults drak --out y").errors.find("did you mean 'dark'"), std::string::npos);
  const std::string refused = " must be faults of sensors, got the cue error 'misses:0.1': ";
  EXPECT_EQ(call("faults --data x --faults dark,misses:0.1 --out y").errors,
            "camber: [faults] --faults" + refused + "a copy of a data set has no cues\n");
  EXPECT_EQ(call("inspect --data x --image a.png --faults misses:0.1").errors,
            "camber: [inspect] --faults" + refused + "a drawn frame shows no cues\n");
  EXPECT_EQ(
      call("calibrate-agreement --checkpoint x --faults misses:0.1 --out y").errors,
      "camber: [calibrate-agreement] --faults" + refused + "agreement is what the sensors show, and looks at no cue\n");
  EXPECT_EQ(call("inspect --data nowhere --read --tables-only").errors,
            "camber: [inspect] --tables-only and --read must not be given together\n");
  EXPECT_EQ(call("inspect --data nowhere --gates").code, 2);
}

TEST_F(WorldProgram, RefusesNumbersThatCannotBe) {
  const auto refused = [&](const std::string& arguments, const std::string& sentence) {
    const Answer answer = call(arguments);
    EXPECT_EQ(answer.code, 2) << arguments << "\n" << answer.errors;
    EXPECT_EQ(answer.errors, "camber: " + sentence + "\n") << arguments;
  };
  ASSERT_EQ(call("simulate --out world --scenes 2 --world.frames=2").code, 0);
  for (const char* severity : {"9", "0", "-1"})
    refused(std::string("inspect --data world --sheet sheet.png --severity ") + severity,
            std::string("[inspect] --severity must be 1 to 5, got ") + severity);
  refused("simulate --out crowd --scenes 1 --threads 100000", "[simulate] --threads must be at most 1024, got 100000");
  refused("inspect --data world --threads -1", "[inspect] --threads must be at least 0, got -1");
  EXPECT_FALSE(fs::exists(folder_ / "crowd"));
  // As many threads as may be given, and far more than there is work for.
  EXPECT_EQ(call("simulate --out crowd --scenes 2 --world.frames=1 --threads 1024").code, 0);
}

// --points is a flag here and a list of numbers elsewhere.
TEST_F(WorldProgram, AFlagBeforeANumberTakesNoNumber) {
  ASSERT_EQ(call("simulate --out world --scenes 1 --world.frames=2").code, 0);
  const Answer drawn = call("inspect --data world --image a.png --points --frame 1");
  EXPECT_EQ(drawn.code, 0) << drawn.errors;
  EXPECT_TRUE(fs::exists(folder_ / "a.png"));
  const Answer beyond = call("inspect --data world --image a.png --points --frame 87");
  EXPECT_EQ(beyond.errors, "camber: [inspect] --frame must be 0 to 1, got 87\n");
  EXPECT_EQ(call("inspect --data world --split val --scenes list.txt").errors,
            "camber: [inspect] --split and --scenes must not be given together\n");
  const Answer late = call("inspect --data world --image nowhere/a.png");
  EXPECT_EQ(late.code, 1);
  EXPECT_EQ(late.output, "") << "refused before anything is counted";
}

TEST_F(WorldProgram, TheDocumentationHoldsTheTableOfFaults) {
  const char* source = std::getenv("CAMBER_SOURCE");
  ASSERT_NE(source, nullptr);
  const std::string page = storage::read_file(fs::path(source) / "docs/world.md");
  const std::string tables = call("faults --list").output;
  const std::size_t between = tables.find("\n\n") + 1;
  for (const std::string& table : {tables.substr(0, between), tables.substr(between + 1)}) {
    EXPECT_TRUE(table.starts_with("| ")) << table;
    EXPECT_NE(page.find(table), std::string::npos) << table;
  }
  const std::string configured = storage::read_file(fs::path(source) / "configs/simulate.toml");
  EXPECT_EQ(configured, call("simulate --print-config").output);
}

}  // namespace
}  // namespace camber::app
