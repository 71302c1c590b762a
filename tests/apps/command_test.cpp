#include "apps/camber/command.h"

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include <gtest/gtest.h>

#include "config/sample_options.h"

namespace camber::app {
namespace {

using Words = std::vector<const char*>;

struct Arguments {
  std::int64_t scenes = 10;
  std::uint64_t first = 0;
  double rate = 0.5;
  std::string out{};
  std::string input{};
  bool fast = false;
  std::vector<double> scales = {1, 2.5};
  std::vector<std::string> faults{};
  std::size_t mode = 0;
};

// A program with two sub-commands of every kind of option.
class CommandTest : public testing::Test {
 protected:
  CommandTest() {
    Command& group = program_.root().add({.name = "world", .summary = "worlds", .example = "camber world make x"});
    Command& make = group.add({.name = "make", .summary = "make a world", .example = "camber world make x --out y"});
    make.option("INPUT", arguments_.input, "what to read");
    make.option("--out", arguments_.out, "folder to write", Presence::kRequired);
    make.option("--scenes", arguments_.scenes, "how many scenes");
    make.option("--first", arguments_.first, "number of the first");
    make.option("--rate", arguments_.rate, "share of something");
    make.option("--fast", arguments_.fast, "do less");
    make.option("--scales", arguments_.scales, "scales to try");
    make.option("--faults", arguments_.faults, "faults to try");
    make.choice(
        "--mode", {"plain", "fancy"}, 0, [this](std::size_t index) { arguments_.mode = index; }, "how");
    make.run([this](const CommonOptions& common) {
      common_ = common;
      return 7;
    });
    Command& train = program_.root().add({.name = "train", .summary = "train", .example = "camber train --out y"});
    train.option("--out", arguments_.out, "folder of the run", Presence::kRequired);
    train.configuration(configuration_);
    train.run([](const CommonOptions&) { return 0; });
  }

  int run(Words words) {
    words.insert(words.begin(), "camber");
    return program_.run(static_cast<int>(words.size()), words.data());
  }

  std::string sentence(const Words& words) {
    try {
      run(words);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "no error";
  }

  std::string printed(const Words& words) {
    testing::internal::CaptureStdout();
    const int code = run(words);
    std::string text = testing::internal::GetCapturedStdout();
    EXPECT_EQ(code, kSuccess);
    return text;
  }

  Arguments arguments_;
  config::sample::Options configuration_;
  CommonOptions common_;
  Program program_{"A program.", "1.2.3"};
};

TEST_F(CommandTest, AnArgumentMayBeCalledLikeASubCommand) {
  for (const char* name : {"train", "world", "make"}) {
    EXPECT_EQ(run({"world", "make", name, "--out", "y"}), 7) << name;
    EXPECT_EQ(arguments_.input, name);
  }
}

TEST_F(CommandTest, TakesEveryKindOfOption) {
  EXPECT_EQ(
      run({"world",  "make",      "data",   "--out",    "a b",     "--scenes=-3", "--first",   "18446744073709551615",
           "--rate", "-.5",       "--fast", "--scales", "-.6,1e1", "--faults",    "dark,rain", "--mode",
           "fancy",  "--threads", "2",      "--seed",   "9",       "--quiet",     "--format",  "json"}),
      7);
  EXPECT_EQ(arguments_.input, "data");
  EXPECT_EQ(arguments_.out, "a b");
  EXPECT_EQ(arguments_.scenes, -3);
  EXPECT_EQ(arguments_.first, 18446744073709551615ULL);
  EXPECT_EQ(arguments_.rate, -0.5);
  EXPECT_TRUE(arguments_.fast);
  EXPECT_EQ(arguments_.scales, (std::vector<double>{-0.6, 10}));
  EXPECT_EQ(arguments_.faults, (std::vector<std::string>{"dark", "rain"}));
  EXPECT_EQ(arguments_.mode, 1U);
  EXPECT_EQ(common_.threads, 2);
  EXPECT_EQ(common_.seed, 9U);
  EXPECT_TRUE(common_.seed_given);
  EXPECT_TRUE(common_.quiet);
  EXPECT_EQ(common_.format, Format::kJson);
}

TEST_F(CommandTest, KeepsTheDefaultsOfWhatIsNotGiven) {
  EXPECT_EQ(run({"world", "make", "--out", "x"}), 7);
  EXPECT_EQ(arguments_.scenes, 10);
  EXPECT_EQ(arguments_.scales, (std::vector<double>{1, 2.5}));
  EXPECT_FALSE(common_.seed_given);
  EXPECT_EQ(common_.format, Format::kText);
}

TEST_F(CommandTest, ListsMayBeSeparatedBySpacesToo) {
  EXPECT_EQ(run({"world", "make", "--out", "x", "--scales", "0", ".8", "-.6", "3", "--scenes", "4"}), 7);
  EXPECT_EQ(arguments_.scales, (std::vector<double>{0, 0.8, -0.6, 3}));
  EXPECT_EQ(arguments_.scenes, 4);
}

TEST_F(CommandTest, AnswersBadInputWithOneSentence) {
  EXPECT_EQ(sentence({}), "needs a sub-command: world or train");
  EXPECT_EQ(sentence({"world"}), "[world] needs a sub-command: make");
  EXPECT_EQ(sentence({"wrold"}), "unknown sub-command 'wrold'; the nearest is world; known are world and train");
  EXPECT_EQ(sentence({"world", "mak"}), "[world] unknown sub-command 'mak'; the nearest is make; known are make");
  EXPECT_EQ(sentence({"--versoin"}), "unknown option '--versoin'; the nearest is --version");
  EXPECT_EQ(sentence({"world", "make", "--otu", "x"}), "[world make] unknown option '--otu'; the nearest is --out");
  EXPECT_EQ(sentence({"world", "make", "--otu=x"}), "[world make] unknown option '--otu'; the nearest is --out");
  EXPECT_EQ(sentence({"world", "make", "--fast"}), "[world make] --out is required: folder to write");
  EXPECT_EQ(sentence({"world", "make", "--out"}), "[world make] --out needs a value");
  EXPECT_EQ(sentence({"world", "make", "--fast=1"}), "[world make] --fast takes no value");
  EXPECT_EQ(sentence({"world", "make", "--out", "x", "--out", "y"}),
            "[world make] --out must be given once, got it 2 times");
  EXPECT_EQ(sentence({"world", "make", "--scenes", "1.5"}), "[world make] --scenes must be a whole number, got '1.5'");
  EXPECT_EQ(sentence({"world", "make", "--first", "-1"}),
            "[world make] --first must be a whole number of at least 0, got '-1'");
  EXPECT_EQ(sentence({"world", "make", "--rate", "half"}), "[world make] --rate must be a number, got 'half'");
  EXPECT_EQ(sentence({"world", "make", "--scales", "1,,2"}),
            "[world make] --scales must be a comma-separated list of numbers, got '1,,2'");
  EXPECT_EQ(sentence({"world", "make", "--mode", "fancyy"}),
            "[world make] --mode must be plain or fancy, got 'fancyy'; the nearest is fancy");
  EXPECT_EQ(sentence({"world", "make", "--format", "csv"}),
            "[world make] --format must be text or json, got 'csv'; the nearest is json");
  EXPECT_EQ(sentence({"world", "make", "--threads", "-1", "--out", "x"}),
            "[world make] --threads must be at least 0, got -1");
  EXPECT_EQ(sentence({"train", "extra"}), "[train] takes options alone, got the argument 'extra'");
}

TEST_F(CommandTest, HelpShowsOptionsDefaultsAndAnExample) {
  const std::string help = printed({"world", "make", "--help"});
  EXPECT_EQ(help.find("usage: camber world make INPUT --out TEXT [options]\n"), 0U) << help;
  EXPECT_NE(help.find("how many scenes [10]"), std::string::npos) << help;
  EXPECT_NE(help.find("--mode plain|fancy"), std::string::npos) << help;
  EXPECT_NE(help.find("example:\n  camber world make x --out y\n"), std::string::npos) << help;
  EXPECT_NE(printed({"--help"}).find("sub-commands:\n  world "), std::string::npos);
  EXPECT_NE(printed({"world", "--help"}).find("example:\n"), std::string::npos);
  EXPECT_EQ(printed({"--version"}), "camber 1.2.3\n");
  for (std::size_t begin = 0; begin < help.size();) {
    const std::size_t end = help.find('\n', begin);
    EXPECT_LE(end - begin, 80U) << help.substr(begin, end - begin);
    begin = end + 1;
  }
}

TEST_F(CommandTest, ConfigurationComesFromFileAndCommandLine) {
  const auto path = std::filesystem::temp_directory_path() / "camber_command_test.toml";
  std::ofstream(path) << "verbose = true\n[train]\nsteps = 5\ndecay = [0.5]\n";
  EXPECT_EQ(run({"train", "--out", "x", "--config", path.c_str(), "--train.steps=6", "--level=9"}), 0);
  std::filesystem::remove(path);
  EXPECT_TRUE(configuration_.verbose);
  EXPECT_EQ(configuration_.train.steps, 6);
  EXPECT_EQ(configuration_.train.decay, std::vector<double>{0.5});
  EXPECT_EQ(configuration_.level, 9);
}

TEST_F(CommandTest, ConfigurationIsPrintedCompleteWithoutTheRequiredOptions) {
  const std::string text = printed({"train", "--train.steps=6", "--print-config"});
  EXPECT_EQ(config::parse<config::sample::Options>(text, "printed"), configuration_);
  EXPECT_EQ(configuration_.train.steps, 6);
}

TEST_F(CommandTest, OptionsArePrintedAsATableWithTheirValues) {
  const std::string text = printed({"train", "--train.steps=6", "--print-options"});
  EXPECT_EQ(text, config::write_markdown(config::describe(configuration_)));
  EXPECT_NE(text.find("| `train.steps` | whole number | `6` |"), std::string::npos) << text;
}

TEST_F(CommandTest, ConfigurationErrorsNameTheOption) {
  EXPECT_EQ(sentence({"train", "--out", "x", "--train.stps=6"}),
            "[config] command line: unknown option --train.stps; the nearest known is train.steps");
  EXPECT_EQ(sentence({"train", "--out", "x", "--leevl=6"}), "[train] unknown option '--leevl'; the nearest is --level");
  EXPECT_EQ(sentence({"train", "--out", "x", "--level", "6"}), "[train] --level must be given as --level=value");
  EXPECT_EQ(sentence({"train", "--train.steps=6"}), "[train] --out is required: folder of the run");
  EXPECT_NE(printed({"train", "--help"}).find("--train.learning_rate=number"), std::string::npos);
}

}  // namespace
}  // namespace camber::app
