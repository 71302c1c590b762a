// What the calibration of agreement says, also of what cannot be known.
#include <cmath>
#include <stdexcept>

#include <camber/runs/agreement_calibration.h>
#include <gtest/gtest.h>

#include "sensors/simulated_world.h"

namespace camber::runs {
namespace {

TEST(AgreementCalibration, SaysWhatIsNotKnownInWords) {
  AgreementCalibration found{.threshold = 0.4, .clean_mean = 0.7, .frames = 4};
  found.faults = {{.fault = "frozen:5", .mean = 0.1, .area = 0.9, .area_of_five = 0.95}};
  const std::string known = found.to_text();
  EXPECT_NE(known.find("0.1000      0.9000          0.9500\n"), std::string::npos) << known;
  EXPECT_EQ(known.find("not known, for want"), std::string::npos) << known;
  found.faults.front().area_of_five = NAN;
  const std::string text = found.to_text();
  EXPECT_EQ(text.find("nan"), std::string::npos) << text;
  EXPECT_NE(text.find("0.1000      0.9000               -\n"
                      "-: not known, for want of five frames in a row of one scene\n"),
            std::string::npos)
      << text;
}

TEST(AgreementCalibration, SaysWhichPolicyAModelWasGiven) {
  AgreementCalibration found{.threshold = 0.4};
  EXPECT_EQ(found.to_json().find("policy"), std::string::npos) << "no model keeps it";
  found.policy = "verified_rule";
  found.policy_before = "bias";
  EXPECT_TRUE(found.to_text().ends_with("policy: verified_rule (before: bias)\n")) << found.to_text();
  EXPECT_TRUE(found.to_json().ends_with(R"("policy": "verified_rule", "policy_before": "bias"})"
                                        "\n"))
      << found.to_json();
}

TEST(AgreementCalibration, NeedsFramesWhoseAgreementIsKnown) {
  detection::DetectorOptions options = detection::DetectorOptions::small();
  options.head.dense_auxiliary = true;
  nuscenes::Split split = tests::simulated_world().all;
  split.samples.resize(2);
  try {
    calibrate_agreement(detection::Detector(options, 5), {.dataset = tests::simulated_world().dataset, .split = split},
                        {sensors::parse_fault("lidar_off")});
    ADD_FAILURE() << "frames without a LiDAR have no agreement";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("frames under lidar_off:3 must be known, got no frame where it is"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace camber::runs
