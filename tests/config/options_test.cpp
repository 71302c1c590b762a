#include "camber/config/options.h"

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "camber/random/stream.h"
#include "config/sample_options.h"

namespace camber::config {
namespace {

using sample::Camera;
using sample::Optimizer;
using sample::Options;

Options filled() {
  Options options;
  options.seed = 9223372036854775807ULL;
  options.verbose = true;
  options.out = "a \"quoted\" \\ path\n\twith \x01 and \xC3\xA4";
  options.notes = {"", "# no comment", "[not.a.table]", "x = 1"};
  options.grid = {{}, {-5, 9}, {0}};
  options.flags = {false, true, true};
  options.level = 255;
  options.train = {.learning_rate = 0.1 + 0.2,
                   .optimizer = Optimizer::kSgd,
                   .decay = {1.0, 0.0, 5e-324},
                   .tried = {Optimizer::kAdam, Optimizer::kSgd},
                   .scale = {.init = 1e-17, .min = -1.7976931348623157e308, .max = 3},
                   .steps = 1};
  options.cameras = {Camera{}, Camera{.name = "back", .width = 800, .scale = {.init = 3, .min = -0.0, .max = 4}}};
  return options;
}

TEST(Toml, PrintedOptionsReadBackTheSame) {
  for (const Options& options : {Options{}, filled()}) {
    const std::string text = to_toml(options);
    const auto read = parse<Options>(text, "printed.toml");
    EXPECT_EQ(read, options) << text;
    EXPECT_TRUE(differences(read, options).empty());
    EXPECT_EQ(to_toml(read), text);
  }
}

TEST(Toml, NumbersReadBackToTheSameBits) {
  random::Stream stream(2, "toml numbers");
  for (int i = 0; i < 300; ++i) {
    Options options;
    options.train.learning_rate = std::fabs(std::bit_cast<double>(stream.bits64()));
    if (std::isnan(options.train.learning_rate)) continue;
    const double read = parse<Options>(to_toml(options), "x").train.learning_rate;
    ASSERT_EQ(std::bit_cast<std::uint64_t>(read), std::bit_cast<std::uint64_t>(options.train.learning_rate));
  }
}

TEST(Toml, EveryOptionIsPrintedWithItsMeaning) {
  const std::string text = to_toml(Options{});
  EXPECT_NE(text.find("learning_rate = 0.002  "), std::string::npos) << text;
  EXPECT_NE(text.find("# peak learning rate (at least 0)"), std::string::npos) << text;
  EXPECT_NE(text.find("optimizer = \"adamw\""), std::string::npos) << text;
  EXPECT_NE(text.find("# which optimiser (sgd, adam or adamw)"), std::string::npos) << text;
  EXPECT_NE(text.find("[train.scale]  # the bounded scale\n"), std::string::npos) << text;
  EXPECT_NE(text.find("cameras = []"), std::string::npos) << text;
  EXPECT_NE(text.find("(tables with name, width, scale)"), std::string::npos) << text;
  for (const OptionRow& row : option_rows(describe(Options{}))) {
    if (row.path.find("[]") != std::string::npos) continue;
    const std::string name = row.path.substr(row.path.rfind('.') + 1);
    EXPECT_NE(text.find(name + " = "), std::string::npos) << row.path;
    EXPECT_NE(text.find("# " + row.meaning), std::string::npos) << row.path;
  }
}

TEST(Toml, WhatAFileLeavesOutKeepsItsDefault) {
  const auto options = parse<Options>("[train]\nsteps = 3\nlearning_rate = 1\n", "x.toml");
  Options expected;
  expected.train.steps = 3;
  expected.train.learning_rate = 1.0;
  EXPECT_EQ(options, expected);
  EXPECT_EQ(parse<Options>("", "x.toml"), Options{});
}

TEST(Toml, ListsOfTablesReplaceTheDefaultAndTheirElementsStartFromTheirOwn) {
  Options defaults;
  defaults.cameras = {Camera{.name = "a"}, Camera{.name = "b"}};
  const auto options = parse<Options>("[[cameras]]\nwidth = 5\n[cameras.scale]\nmax = 9\n", "x.toml", defaults);
  ASSERT_EQ(options.cameras.size(), 1U);
  EXPECT_EQ(options.cameras[0], (Camera{.name = "front", .width = 5, .scale = {.max = 9}}));
}

class Arguments : public testing::Test {
 protected:
  static Options with(const std::vector<std::string>& arguments, const Options& defaults = {}) {
    return load<Options>({.arguments = arguments}, defaults);
  }
};

TEST_F(Arguments, SetEveryKindOfField) {
  const Options options = with({"--seed=11", "--verbose=true", "--out=some folder/x", "--train.learning_rate=1e-4",
                                "--train.optimizer=sgd", "--train.decay=0.5,.25", "--train.tried=adam,sgd",
                                "--grid=[[7], [8, 9]]", "--flags=false,true", "--notes=", "--train.scale.init=3",
                                "--level=0", R"(--cameras=[{name = "left", scale = {max = 8}}, {width = 3}])"});
  Options expected;
  expected.seed = 11;
  expected.verbose = true;
  expected.out = "some folder/x";
  expected.train.learning_rate = 1e-4;
  expected.train.optimizer = Optimizer::kSgd;
  expected.train.decay = {0.5, 0.25};
  expected.train.tried = {Optimizer::kAdam, Optimizer::kSgd};
  expected.grid = {{7}, {8, 9}};
  expected.flags = {false, true};
  expected.train.scale.init = 3;
  expected.level = 0;
  expected.cameras = {Camera{.name = "left", .scale = {.max = 8}}, Camera{.width = 3}};
  EXPECT_EQ(options, expected);
}

TEST_F(Arguments, ReachIntoListsByIndexAndTheLastOneWins) {
  Options defaults;
  defaults.cameras = {Camera{.name = "a"}, Camera{.name = "b", .width = 4}};
  const Options options = with({"--cameras.1.scale.max=7", "--train.decay.0=1", "--seed=1", "--seed=2"}, defaults);
  EXPECT_EQ(options.cameras[1], (Camera{.name = "b", .width = 4, .scale = {.max = 7}}));
  EXPECT_EQ(options.cameras[0], defaults.cameras[0]);
  EXPECT_EQ(options.train.decay, (std::vector<double>{1.0, 0.1}));
  EXPECT_EQ(options.seed, 2U);
}

TEST_F(Arguments, StandAboveTheFile) {
  const auto path = std::filesystem::temp_directory_path() / "camber_config_test.toml";
  std::ofstream(path) << "seed = 3\nout = \"file\"\n[train]\nsteps = 5\n";
  const auto options = load<Options>({.file = path.string(), .arguments = {"--train.steps=6", "--out=line"}});
  std::filesystem::remove(path);
  EXPECT_EQ(options.seed, 3U);
  EXPECT_EQ(options.out, "line");
  EXPECT_EQ(options.train.steps, 6);
}

struct WithFile {
  std::filesystem::path file = "standard.json";

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("file", file, "a file");
  }
};

TEST(Files, LieBesideTheFileThatNamesThemOrInTheWorkingFolder) {
  const auto root = std::filesystem::temp_directory_path() / "camber_config_files";
  std::filesystem::create_directories(root / "configs/near");
  std::ofstream(root / "configs/near/a.json") << "{}";
  const auto file = root / "configs/own.toml";
  const auto named = [&](const std::string& name) {
    std::ofstream(file) << "file = \"" << name << "\"\n";
    return load<WithFile>({.file = file.string()}).file;
  };
  const auto here = std::filesystem::current_path();
  EXPECT_EQ(named("near/a.json"), root / "configs/near/a.json");
  EXPECT_EQ(named("../configs/near/a.json"), root / "configs/near/a.json");
  EXPECT_EQ(named("/etc/b.json"), "/etc/b.json");
  EXPECT_EQ(named("absent.json"), root / "configs/absent.json") << "the sentence names where it is looked for";
  EXPECT_EQ(named(""), "");
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").lexically_relative(here).string();
  EXPECT_EQ(named(program), std::filesystem::absolute(program).lexically_normal());
  EXPECT_EQ(load<WithFile>({.file = file.string(), .arguments = {"--file=line.json"}}).file, here / "line.json");
  EXPECT_EQ(load<WithFile>({}).file, "standard.json");
  // What was read is written so that it reads back the same from anywhere.
  const WithFile read{named("near/a.json")};
  EXPECT_EQ(parse<WithFile>(to_toml(read), "/elsewhere/config.toml").file, read.file);
  std::filesystem::remove_all(root);
}

TEST(OptionRows, ShowPathTypeDefaultLimitsAndMeaning) {
  const auto rows = option_rows(describe(Options{}));
  const auto row = [&](const std::string& path) {
    for (const OptionRow& candidate : rows)
      if (candidate.path == path) return candidate;
    ADD_FAILURE() << "no row for " << path;
    return OptionRow{};
  };
  EXPECT_EQ(rows.front().path, "seed");
  EXPECT_EQ(row("train.learning_rate").limits, "at least 0");
  EXPECT_EQ(row("train.learning_rate").type, "number");
  EXPECT_EQ(row("train.learning_rate").standard, "0.002");
  EXPECT_EQ(row("train.decay").type, "list of numbers");
  EXPECT_EQ(row("train.decay").limits, "from 0 to 1");
  EXPECT_EQ(row("train.optimizer").type, "sgd|adam|adamw");
  EXPECT_EQ(row("grid").type, "list of lists of whole numbers");
  EXPECT_EQ(row("cameras").type, "list of tables");
  EXPECT_EQ(row("cameras[].width").standard, "1600");
  EXPECT_EQ(row("cameras[].scale.max").meaning, "upper bound");
}

TEST(Markdown, HasOneRowAnOptionAndEscapesBars) {
  const std::string text = write_markdown(describe(Options{}));
  EXPECT_NE(text.find("| `train.optimizer` | sgd\\|adam\\|adamw | `\"adamw\"` |  | which optimiser |\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'),
            static_cast<std::ptrdiff_t>(2 + option_rows(describe(Options{})).size()));
}

TEST(Differences, NameEveryOptionThatDiffers) {
  Options changed;
  changed.train.scale.max = 6;
  changed.cameras.push_back({});
  const auto found = differences(Options{}, changed);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].path, "train.scale.max");
  EXPECT_EQ(found[0].first, "5.0");
  EXPECT_EQ(found[0].second, "6.0");
  EXPECT_EQ(found[1].path, "cameras");
}

}  // namespace
}  // namespace camber::config
