#include "camber/config/renamed.h"

#include <gtest/gtest.h>

#include "camber/config/options.h"

namespace camber::config {
namespace {

struct Encoder {
  std::int64_t image_width = 8;
  std::string kind = "folders";
  std::vector<std::string> conditions{};

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("image_width", image_width, "width of the network's image", Range{.min = 1});
    visitor("kind", kind, "what the data are");
    visitor("conditions", conditions, "faults");
  }
};

struct EncoderOptions {
  Encoder encoder{};

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("encoder", encoder, "a table");
  }
};

template <class Action>
std::string sentence(const Action& action) {
  try {
    action();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

TEST(Renamed, AFileOfAPersonIsAnsweredWithThePresentName) {
  EXPECT_EQ(sentence([] { parse<EncoderOptions>("[encoder]\npicture_width = 3\n", "own.toml"); }),
            "[config] own.toml:2:1: encoder.picture_width is called encoder.image_width now");
  EXPECT_EQ(sentence([] { load<EncoderOptions>({.arguments = {"--encoder.picture_width=3"}}); }),
            "[config] command line: --encoder.picture_width is called --encoder.image_width now");
}

TEST(Renamed, WhereThePresentNameIsUnknownTooTheNearestIsNamed) {
  EXPECT_EQ(sentence([] { parse<EncoderOptions>("picture_width = 3\n", "own.toml"); }),
            "[config] own.toml:1:1: unknown option picture_width; the nearest known is encoder");
}

TEST(Renamed, WhatTheProgramStoredIsTranslated) {
  const auto read = parse_stored<EncoderOptions>(
      "[encoder]\npicture_width = 3\nkind = \"picture_folders\"\n"
      "conditions = [\"clean\", \"frozen:5:lying\", \"stale:2:honest,dark\"]\n",
      "run/config.toml");
  EXPECT_EQ(read.encoder.image_width, 3);
  EXPECT_EQ(read.encoder.kind, "image_folders");
  EXPECT_EQ(read.encoder.conditions,
            (std::vector<std::string>{"clean", "frozen:5:false_timestamps", "stale:2:true_timestamps,dark"}));
}

TEST(Renamed, PresentNamesStayAsTheyAre) {
  EXPECT_FALSE(present_name("image_width"));
  EXPECT_FALSE(present_value("kind", "image_folders"));
  EXPECT_EQ(present_condition("frozen:5:false_timestamps"), "frozen:5:false_timestamps");
  EXPECT_EQ(present_metric("effective_bias/lidar/mean"), "effective_bias/lidar/mean");
  EXPECT_EQ(present_metric("lean/lidar/mean"), "effective_bias/lidar/mean");
  EXPECT_EQ(present_metric("clean/mean"), "clean/mean");
}

}  // namespace
}  // namespace camber::config
