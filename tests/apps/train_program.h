#pragma once
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "apps/called_program.h"

// A world of a few frames and a run trained on it, made once for all tests of the suite.
namespace camber::app {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// A metric that is not defined is a bare NaN, as the devkit's JSON library writes it.
inline Json json_of(const std::string& text) {
  return Json::parse(std::regex_replace(text, std::regex(": NaN"), ": null"));
}

class TrainProgram : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const char* program = std::getenv("CAMBER_PROGRAM");
    const char* source = std::getenv("CAMBER_SOURCE");
    if (program == nullptr || source == nullptr) return;
    program_ = program;
    source_ = source;
    folder_ = fs::temp_directory_path() / ("camber_train_program_" + std::to_string(getpid()));
    fs::create_directories(folder_);
    ASSERT_EQ(call("simulate --out world --scenes 5 --world.frames=3 --seed 7").code, 0);
    ASSERT_EQ(call("train --out run " + kSmall).code, 0) << storage::read_file(folder_ / "errors");
  }
  static void TearDownTestSuite() { fs::remove_all(folder_); }
  void SetUp() override {
    if (program_.empty()) GTEST_SKIP() << "CAMBER_PROGRAM names no program to test";
  }

  static Answer call(const std::string& arguments) { return call_program(arguments, folder_, folder_); }
  static std::string world_config() { return " --config '" + source_ + "/configs/evaluation/world.json'"; }

  static inline const std::string kSmall =
      "--data.root=world --data.batch_size=2 --loop.steps=6 --loop.checkpoint_every=2 --loop.average.enabled=true "
      "--detector.router.mode=learned --detector.bias.segments=true --seed 3 --threads 1 --log_every=1";
  static inline std::string program_, source_;
  static inline fs::path folder_;
};

}  // namespace camber::app
