#include <gtest/gtest.h>

#include "camber/config/options.h"
#include "config/sample_options.h"

namespace camber::config {
namespace {

using sample::Camera;
using sample::Options;

std::string sentence(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

std::string file_error(const std::string& text) {
  return sentence([&] { parse<Options>(text, "demo.toml"); });
}

std::string argument_error(const std::string& argument, const Options& defaults = {}) {
  return sentence([&] { load<Options>({.arguments = {argument}}, defaults); });
}

TEST(ConfigErrors, UnknownKeysComeWithPositionAndNearestName) {
  EXPECT_EQ(file_error("\n[train]\n  lerning_rate = 1\n"),
            "[config] demo.toml:3:3: unknown option train.lerning_rate; the nearest known is train.learning_rate");
  EXPECT_EQ(file_error("[trian]\nsteps = 1\n"),
            "[config] demo.toml:1:2: unknown option trian; the nearest known is train");
  EXPECT_EQ(file_error("[[cameras]]\nwidht = 1\n"),
            "[config] demo.toml:2:1: unknown option cameras[0].widht; the nearest known is cameras[0].width");
  // The right name in the wrong table.
  EXPECT_EQ(file_error("learning_rate = 1\n"),
            "[config] demo.toml:1:1: unknown option learning_rate; the nearest known is train.learning_rate");
  EXPECT_EQ(argument_error("--train.stps=4"),
            "[config] command line: unknown option --train.stps; the nearest known is train.steps");
}

TEST(ConfigErrors, WrongTypesSayWhatCameAndWhatIsAllowed) {
  EXPECT_EQ(file_error("seed = \"seven\"\n"),
            "[config] demo.toml:1:8: seed must be a whole number, got the text \"seven\"");
  EXPECT_EQ(file_error("[train]\nsteps = 2.0\n"),
            "[config] demo.toml:2:9: train.steps must be a whole number of at least 1, got 2.0");
  EXPECT_EQ(file_error("verbose = 1\n"), "[config] demo.toml:1:11: verbose must be true or false, got 1");
  EXPECT_EQ(file_error("out = true\n"), "[config] demo.toml:1:7: out must be a text, got true");
  EXPECT_EQ(file_error("train = 3\n"), "[config] demo.toml:1:9: train must be a table, got 3");
  EXPECT_EQ(file_error("flags = true\n"),
            "[config] demo.toml:1:9: flags must be a list, each element true or false, got true");
  EXPECT_EQ(file_error("grid = [[1], [2, \"x\"]]\n"),
            "[config] demo.toml:1:18: grid[1][1] must be a whole number, got the text \"x\"");
  EXPECT_EQ(file_error("seed = {a = 1}\n"), "[config] demo.toml:1:8: seed must be a whole number, got a table");
  EXPECT_EQ(file_error("out = 1979-05-27\n"), "[config] demo.toml:1:7: an option must not be a date or a time");
  EXPECT_EQ(argument_error("--train.steps=many"),
            "[config] command line: --train.steps must be a whole number of at least 1, got 'many'");
  EXPECT_EQ(argument_error("--verbose=yes"), "[config] command line: --verbose must be true or false, got 'yes'");
  EXPECT_EQ(argument_error("--train.decay=0.1,,0.2"),
            "[config] command line: --train.decay[1] must be a number from 0 to 1, got ''");
  EXPECT_EQ(
      argument_error("--grid=1,2"),
      "[config] command line: --grid must be a list, each element a list, each element a whole number, got '1,2'; "
      "write it as --grid=[...]");
  EXPECT_EQ(argument_error("--train=3"),
            "[config] command line: --train must be a table, got '3'; set its parts, as in --train.learning_rate=...");
}

TEST(ConfigErrors, ValuesOutOfRangeSayTheRange) {
  EXPECT_EQ(file_error("[train]\nlearning_rate = -1e-3\n"),
            "[config] demo.toml:2:17: train.learning_rate must be a number of at least 0, got -0.001");
  EXPECT_EQ(file_error("[train]\nlearning_rate = nan\n"),
            "[config] demo.toml:2:17: train.learning_rate must be a number of at least 0, got nan");
  EXPECT_EQ(file_error("[train]\ndecay = [0.5, 2]\n"),
            "[config] demo.toml:2:15: train.decay[1] must be a number from 0 to 1, got 2");
  EXPECT_EQ(file_error("[[cameras]]\nwidth = 0\n"),
            "[config] demo.toml:2:9: cameras[0].width must be a whole number from 1 to 8192, got 0");
  // What the field's type cannot hold.
  EXPECT_EQ(argument_error("--level=256"),
            "[config] command line: --level must be a whole number from 0 to 255, got '256'");
  EXPECT_NE(argument_error("--seed=-1").find("--seed must be a whole number from 0 to"), std::string::npos);
  EXPECT_NE(argument_error("--seed=18446744073709551615").find("--seed must be a whole number"), std::string::npos);
}

TEST(ConfigErrors, WordsThatAreNoChoiceComeWithTheNearest) {
  EXPECT_EQ(
      file_error("[train]\noptimizer = \"adamx\"\n"),
      "[config] demo.toml:2:13: train.optimizer must be sgd, adam or adamw, got the text \"adamx\"; the nearest is "
      "adam");
  EXPECT_EQ(argument_error("--train.optimizer=sdg"),
            "[config] command line: --train.optimizer must be sgd, adam or adamw, got 'sdg'; the nearest is sgd");
  EXPECT_EQ(file_error("[train]\noptimizer = 3\n"),
            "[config] demo.toml:2:13: train.optimizer must be sgd, adam or adamw, got 3");
}

TEST(ConfigErrors, RulesBetweenFieldsGetThePath) {
  EXPECT_EQ(file_error("[train.scale]\ninit = 9\n"),
            "[config] demo.toml:1:1: train.scale: [scale] init must lie inside [min, max]");
  EXPECT_EQ(argument_error("--train.scale.init=9"),
            "[config] command line: train.scale: [scale] init must lie inside [min, max]");
  EXPECT_EQ(file_error("[[cameras]]\n[[cameras]]\nscale = { init = 9 }\n"),
            "[config] demo.toml:3:9: cameras[1].scale: [scale] init must lie inside [min, max]");
}

TEST(ConfigErrors, BrokenTomlAndBrokenArgumentsSayWhere) {
  EXPECT_EQ(file_error("seed = \n").substr(0, 41), "[config] demo.toml:1:8: not valid TOML: E");
  EXPECT_NE(file_error("seed = 1\nseed = 2\n").find("demo.toml:2:"), std::string::npos);
  EXPECT_EQ(argument_error("--seed"), "[config] command line: an option must be given as --name=value, got '--seed'");
  EXPECT_EQ(argument_error("--seed.x=1"), "[config] command line: --seed is one value and has no part 'x'");
  Options two;
  two.cameras = {Camera{}, Camera{}};
  EXPECT_EQ(argument_error("--cameras.2.width=1", two),
            "[config] command line: --cameras is a list of 2, so that its elements are 0 to 1, got '2'");
  EXPECT_EQ(argument_error("--out=\xFF"), "[config] command line: --out must be UTF-8 text, got other bytes");
}

TEST(ConfigErrors, AFileThatCannotBeReadIsAFailureOfTheWorld) {
  try {
    load<Options>({.file = "no/such/file.toml"});
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "[storage] no/such/file.toml cannot be read: No such file or directory");
  }
}

}  // namespace
}  // namespace camber::config
