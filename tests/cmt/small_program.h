#pragma once
#include <fstream>

#include "apps/called_program.h"
#include "camber/config/options.h"
#include "camber/runs/detector_options.h"
#include "cmt/recipe.h"

namespace camber::cmt_tests {

// The program in a folder of the test's own, where small.toml is the configuration of the reduced CMT.
class SmallCmtProgram : public app::CalledProgram {
 protected:
  void SetUp() override {
    CalledProgram::SetUp();
    if (IsSkipped()) return;
    runs::DetectorTrainingOptions options;
    options.detector = small_options();
    std::ofstream(folder_ / "small.toml") << config::to_toml(options);
  }
};

}  // namespace camber::cmt_tests
