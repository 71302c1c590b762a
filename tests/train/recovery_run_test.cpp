// Recovery after winding up: the metrics of docs/bounded_scale.md. `train_test --gtest_filter=Recovery*` prints them.
#include <cmath>
#include <cstdio>
#include <map>
#include <string>

#include <camber/train/recovery_run.h>
#include <gtest/gtest.h>

namespace camber::train {
namespace {

std::map<std::string, RecoveryResult> run_all(const char* title, RecoveryRun (*make)(nn::Constraint)) {
  std::map<std::string, RecoveryResult> results;
  std::printf("%-18s %16s %14s %12s %10s\n", title, "value at switch", "raw at switch", "steps back", "at end");
  for (const auto& [constraint, name] : config::enum_names<nn::Constraint>) {
    const RecoveryResult result = recovery_run(make(constraint));
    const std::string steps = result.steps_back ? std::to_string(*result.steps_back) : "never";
    std::printf("%-18s %16.3f %14.3f %12s %10.3f\n", std::string(name).c_str(), result.value_at_switch,
                result.raw_at_switch, steps.c_str(), result.last_value);
    results[std::string(name)] = result;
  }
  return results;
}

TEST(Recovery, InLogSpace) {
  auto results = run_all("log, 1..100", log_recovery);
  for (const char* name : {"clamp", "log_clamp", "straight_through", "projected", "sigmoid"}) {
    EXPECT_NEAR(results[name].value_at_switch, 100, 0.2) << name;
  }
  ASSERT_TRUE(results["projected"].steps_back);
  EXPECT_LE(*results["projected"].steps_back, 40);
  ASSERT_TRUE(results["none"].steps_back);
  EXPECT_LE(*results["none"].steps_back, 40);
  ASSERT_TRUE(results["straight_through"].steps_back);
  EXPECT_GE(*results["straight_through"].steps_back, 300);
  EXPECT_LE(*results["straight_through"].steps_back, 320);
  for (const char* name : {"clamp", "log_clamp", "sigmoid"}) {
    EXPECT_FALSE(results[name].steps_back) << name << " came back after " << *results[name].steps_back;
  }
  // Momentum carried the clamped ones past ln 100, where their gradient is 0 for ever.
  EXPECT_NEAR(results["log_clamp"].raw_at_switch, 5.42, 0.1);
  EXPECT_EQ(results["log_clamp"].last_value, 100);
  EXPECT_NEAR(results["projected"].raw_at_switch, std::log(100.0), 1e-6);
}

TEST(Recovery, InLinearSpace) {
  auto results = run_all("linear, 0.5..5", linear_recovery);
  for (const char* name : {"clamp", "log_clamp", "straight_through", "projected", "sigmoid"}) {
    EXPECT_NEAR(results[name].value_at_switch, 5, 0.01) << name;
  }
  ASSERT_TRUE(results["projected"].steps_back);
  EXPECT_LE(*results["projected"].steps_back, 40);
  EXPECT_EQ(results["projected"].raw_at_switch, 5);
  ASSERT_TRUE(results["straight_through"].steps_back);
  EXPECT_GE(*results["straight_through"].steps_back, 300);
  EXPECT_LE(*results["straight_through"].steps_back, 320);
  for (const char* name : {"clamp", "log_clamp", "sigmoid"}) {
    EXPECT_FALSE(results[name].steps_back) << name << " came back after " << *results[name].steps_back;
  }
  // Unbounded, it did reach 15: (15 - 2.5) / 0.1 steps at full speed, and some to gather it.
  EXPECT_NEAR(results["none"].value_at_switch, 15, 0.1);
  ASSERT_TRUE(results["none"].steps_back);
  EXPECT_GE(*results["none"].steps_back, 125);
  EXPECT_LE(*results["none"].steps_back, 145);
}

}  // namespace
}  // namespace camber::train
