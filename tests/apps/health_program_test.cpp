#include <chrono>
#include <cstdlib>
#include <thread>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apps/called_program.h"
#include "camber/storage/atomic_file.h"
#include "health/made_run_folder.h"

// analyze run and report, called as a person calls them, on made-up runs.
namespace camber::app {
namespace {

class HealthProgram : public CalledProgram {};

TEST_F(HealthProgram, AnalyzeRunSaysWhatIsWrongInEveryFormat) {
  health::write_made_run(folder_ / "run", {.run = {.situation = health::Situation::kNoGradient}, .finished = false});
  const Answer text = call("analyze run run");
  ASSERT_EQ(text.code, 0) << text.errors;
  EXPECT_NE(text.output.find("Scale bias gets no gradient"), std::string::npos) << text.output;
  const auto json = nlohmann::json::parse(call("analyze run run --format json").output);
  EXPECT_EQ(json["findings"][0]["rule"], "no_gradient");
  EXPECT_EQ(json["last_step"], 600);
  EXPECT_TRUE(call("analyze run run --format csv").output.starts_with("severity,step,rule"));
}

TEST_F(HealthProgram, AnalyzeRunIsContentWithAHealthyRun) {
  health::write_made_run(folder_ / "run", {});
  EXPECT_NE(call("analyze run run").output.find("No rule has anything to say"), std::string::npos);
}

TEST_F(HealthProgram, RefusesWhatIsNoRunWithOneSentence) {
  for (const std::string command : {"analyze run nothing", "report nothing", "report . --interval 0"}) {
    const Answer answer = call(command);
    EXPECT_EQ(answer.code, 2) << command;
    EXPECT_EQ(std::count(answer.errors.begin(), answer.errors.end(), '\n'), 1) << answer.errors;
  }
}

TEST_F(HealthProgram, ReportWritesAPageAndWatchEndsWithTheRun) {
  health::write_made_run(folder_ / "run", {.steps = 40, .finished = false});
  const Answer once = call("report run --out page.html --format json");
  ASSERT_EQ(once.code, 0) << once.errors;
  EXPECT_EQ(nlohmann::json::parse(once.output)["out"], "page.html");
  EXPECT_NE(storage::read_file(folder_ / "page.html").find("\"refresh_seconds\":0"), std::string::npos);
  std::thread finish([this] {
    for (int wait = 0; wait < 300 && !std::filesystem::exists(folder_ / "run" / "report.html"); ++wait)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_NE(storage::read_file(folder_ / "run" / "report.html").find("\"refresh_seconds\":0.2"), std::string::npos);
    storage::write_file(folder_ / "run" / "result.json", "{\"clean\": {\"mean_ap\": 0.5, \"nd_score\": 0.5}}");
  });
  const Answer watched = call("report run --watch --interval 0.2");
  finish.join();
  EXPECT_EQ(watched.code, 0) << watched.errors;
  EXPECT_NE(storage::read_file(folder_ / "run" / "report.html").find("a finished run"), std::string::npos);
}

}  // namespace
}  // namespace camber::app
