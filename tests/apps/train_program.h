#pragma once
#include <fstream>
#include <regex>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apps/called_suite.h"

// A world of a few frames and a run trained on it, made once for all tests of the suite.
namespace camber::app {

using Json = nlohmann::json;

// A metric that is not defined is a bare NaN, as the devkit's JSON library writes it.
inline Json json_of(const std::string& text) {
  return Json::parse(std::regex_replace(text, std::regex(": NaN"), ": null"));
}

class TrainProgram : public CalledSuite {
 protected:
  static void SetUpTestSuite() {
    if (!begin("train_program")) return;
    ASSERT_EQ(call("simulate --out world --scenes 5 --world.frames=3 --seed 7").code, 0);
    ASSERT_EQ(call("train --out run " + kSmall).code, 0) << storage::read_file(folder_ / "errors");
  }
  static std::string world_config() { return " --config '" + source_ + "/configs/evaluation/world.json'"; }

  static inline const std::string kSmall =
      "--data.root=world --data.batch_size=2 --loop.steps=6 --loop.checkpoint_every=2 --loop.average.enabled=true "
      "--detector.router.mode=learned --detector.bias.segments=true --seed 3 --threads 1 --log_every=1";
};

}  // namespace camber::app
