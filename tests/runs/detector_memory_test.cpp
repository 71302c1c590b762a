#include "camber/runs/detector_memory.h"

#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

namespace camber::runs {
namespace {

TEST(TrainingMemory, GrowsWithWhatIsHeld) {
  const DetectorTrainingOptions options;
  const double plain = training_gigabytes(options, 6);
  EXPECT_GT(plain, 0);
  EXPECT_LT(plain, 1);
  DetectorTrainingOptions larger = options;
  larger.data.batch_size = 4096;
  const double many = training_gigabytes(larger, 6);
  larger.data.batch_size = 8;
  const double frames = training_gigabytes(larger, 6) - plain;  // four more of them
  EXPECT_NEAR(many - plain, 1023 * frames, 1e-9 * many);
  larger = options;
  larger.detector.space.pillar_cell = 0.01;
  EXPECT_GT(training_gigabytes(larger, 6), 10);
  larger = options;
  larger.detector.head.num_queries = 100'000'000;
  EXPECT_GT(training_gigabytes(larger, 6), 100);
  larger = options;
  larger.detector.head.decoder.num_layers = 1'000'000;
  EXPECT_GT(training_gigabytes(larger, 6), 100);
}

TEST(TrainingMemory, IsRefusedWithBothNumbers) {
  DetectorTrainingOptions options;
  options.data.batch_size = 4096;
  EXPECT_GT(machine_gigabytes(), 0.1);
  EXPECT_NO_THROW(check_training_memory(options, 6, 0));
  EXPECT_NO_THROW(check_training_memory(options, 6, 1e6));
  try {
    check_training_memory(options, 6, 4);
    FAIL() << "4096 frames do not fit 4 GB";
  } catch (const std::invalid_argument& error) {
    const std::string said = error.what();
    EXPECT_NE(said.find("data.batch_size 4096"), std::string::npos) << said;
    EXPECT_NE(said.find("GB, this machine has 4"), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace camber::runs
