// What a session knows of its sensors' agreement, and what it does with alarms by it.
#include <cmath>

#include "detection/drive.h"
#include "support/comparison.h"

namespace camber::detection {
namespace {

using camber::proof::error_of;
using examples::Drive;
using examples::same_boxes;

// Dense heads that see something, though nobody trained them.
void open_eyes(Detector& detector, double bias = -2) {
  const torch::NoGradGuard guard;
  for (auto& parameter : detector->named_parameters())
    if (parameter.key().find("_classes.weight") != std::string::npos)
      parameter.value().mul_(4);
    else if (parameter.key().find("_classes.bias") != std::string::npos)
      parameter.value().fill_(bias);
}

void set_alarms(Detector& detector, const AlarmOptions& alarms) {
  detector->set_alarms(alarms);
}

TEST(SessionAgreement, IsThatOfTheFrameAndAMeanOverTheLast) {
  Drive drive(5);
  open_eyes(drive.detector);
  set_alarms(drive.detector, {.smoothing = 3});
  DetectorSession session(drive.detector);
  EXPECT_TRUE(std::isnan(session.agreement().frame));
  std::vector<double> own;
  for (const Frame& frame : drive.frames) {
    const auto found = session.detect(frame);
    const SessionAgreement& agreement = session.agreement();
    own.push_back(agreement.frame);
    ASSERT_FALSE(std::isnan(agreement.frame));
    ASSERT_FALSE(found.empty());
    for (const Detection& one : found) EXPECT_EQ(one.agreement, agreement.frame);
    EXPECT_EQ(drive.detector.detect(frame)[0].agreement, agreement.frame) << "it has no history";
    const std::size_t counted = std::min<std::size_t>(3, own.size());
    double mean = 0;
    for (std::size_t i = own.size() - counted; i < own.size(); ++i) mean += own[i] / static_cast<double>(counted);
    EXPECT_NEAR(agreement.smoothed, mean, 1e-12);
    ASSERT_EQ(agreement.cameras.size(), frame.cameras.size());
  }
  EXPECT_GT(*std::max_element(own.begin(), own.end()) - *std::min_element(own.begin(), own.end()), 1e-6);
  session.reset();
  EXPECT_TRUE(std::isnan(session.agreement().smoothed));
  session.detect(drive.frames[2]);
  EXPECT_EQ(session.agreement().frame, own[2]);
  EXPECT_EQ(session.agreement().smoothed, own[2]) << "a new scene has no past";
}

TEST(SessionAgreement, OneFrameOfSmoothingIsTheFrame) {
  Drive drive(2);
  open_eyes(drive.detector);
  set_alarms(drive.detector, {.smoothing = 1});
  DetectorSession session(drive.detector);
  for (const Frame& frame : drive.frames) {
    session.detect(frame);
    EXPECT_EQ(session.agreement().smoothed, session.agreement().frame);
  }
}

TEST(SessionAgreement, IsNotKnownWithoutASensorAndTheLastKnownSpeakOn) {
  Drive drive(3);
  open_eyes(drive.detector);
  DetectorSession session(drive.detector);
  session.detect(drive.frames[0]);
  const double first = session.agreement().frame;
  Frame blind = drive.frames[1];
  blind.lidar_available = false;
  session.detect(blind);
  EXPECT_TRUE(std::isnan(session.agreement().frame));
  EXPECT_EQ(session.agreement().smoothed, first);
  for (const double camera : session.agreement().cameras) EXPECT_TRUE(std::isnan(camera));
  Frame dark = drive.frames[2];
  for (std::size_t i = 1; i < dark.cameras.size(); ++i) dark.cameras[i].available = false;
  session.detect(dark);
  ASSERT_FALSE(std::isnan(session.agreement().frame)) << "one camera is enough";
  EXPECT_EQ(session.agreement().frame, session.agreement().cameras[0]);
  for (std::size_t i = 1; i < dark.cameras.size(); ++i) EXPECT_TRUE(std::isnan(session.agreement().cameras[i]));
  // A frame that is refused changes nothing.
  const SessionAgreement before = session.agreement();
  EXPECT_NE(error_of([&] { session.detect(drive.frames[0]); }), "");
  EXPECT_EQ(session.agreement().smoothed, before.smoothed);
}

TEST(SessionAgreement, ACarWithOneCameraHasTheAgreementOfThatCamera) {
  Drive drive(1);
  open_eyes(drive.detector);
  Frame frame = drive.frames[0];
  frame.cameras.resize(1);
  DetectorSession session(drive.detector);
  session.detect(frame);
  ASSERT_EQ(session.agreement().cameras.size(), 1U);
  EXPECT_EQ(session.agreement().frame, session.agreement().cameras[0]);
  frame.cameras.clear();
  session.reset();
  session.detect(frame);
  EXPECT_TRUE(std::isnan(session.agreement().frame));
  EXPECT_TRUE(session.agreement().cameras.empty());
}

TEST(SessionAgreement, AWorldWithoutObjectsSpeaksAgainstNoAlarm) {
  Drive drive(2);
  open_eyes(drive.detector, -200);  // neither map shows an object anywhere
  set_alarms(drive.detector, {.threshold = -1});
  DetectorSession verified(drive.detector, TrustPolicy::kVerifiedRule), rule(drive.detector, TrustPolicy::kRule);
  Frame late = drive.frames[1];
  late.lidar_timestamp = drive.frames[0].lidar_timestamp;
  for (auto* session : {&verified, &rule}) session->detect(drive.frames[0]);
  EXPECT_TRUE(same_boxes(verified.detect(late), rule.detect(late)));
  EXPECT_GT(verified.cues()[0].age, 0.9);
  EXPECT_TRUE(std::isnan(verified.agreement().smoothed));
}

TEST(SessionAgreement, IsNotKnownWithoutDenseHeads) {
  auto options = examples::tiny_options();
  options.head.dense_auxiliary = false;
  Detector detector(options, 1);
  detector->eval();
  Drive drive(1);
  DetectorSession session(detector);
  ASSERT_FALSE(session.detect(drive.frames[0]).empty());
  EXPECT_TRUE(std::isnan(session.agreement().frame));
  EXPECT_TRUE(session.agreement().cameras.empty());
}

// A LiDAR that falls behind raises an alarm. What a verified policy makes of it is decided by the threshold.
TEST(SessionPolicies, VerifiedOnesDropOrKeepAnAlarmByAgreement) {
  Drive drive(3);
  open_eyes(drive.detector);
  const auto boxes = [&](TrustPolicy policy, double threshold) {
    set_alarms(drive.detector, {.threshold = threshold});
    DetectorSession session(drive.detector, policy);
    EXPECT_EQ(session.policy(), policy);
    session.detect(drive.frames[0]);
    session.detect(drive.frames[1]);
    Frame late = drive.frames[2];
    late.lidar_timestamp = drive.frames[0].lidar_timestamp;
    auto found = session.detect(late);
    EXPECT_GT(session.cues()[0].age, 0.9);
    return found;
  };
  constexpr double kAllAgree = -1, kNobodyAgrees = 1;
  EXPECT_FALSE(same_boxes(boxes(TrustPolicy::kRule, 0), boxes(TrustPolicy::kNone, 0)));
  EXPECT_TRUE(same_boxes(boxes(TrustPolicy::kVerifiedRule, kAllAgree), boxes(TrustPolicy::kNone, 0)));
  EXPECT_TRUE(same_boxes(boxes(TrustPolicy::kVerifiedRule, kNobodyAgrees), boxes(TrustPolicy::kRule, 0)));
  EXPECT_TRUE(same_boxes(boxes(TrustPolicy::kVerifiedBias, kNobodyAgrees), boxes(TrustPolicy::kBias, 0)));
  EXPECT_FALSE(same_boxes(boxes(TrustPolicy::kVerifiedBias, kAllAgree), boxes(TrustPolicy::kBias, 0)));
}

TEST(SessionPolicies, AreTheDetectorsOwnOrRefused) {
  Drive drive(1);
  set_alarms(drive.detector, {.policy = TrustPolicy::kRule});
  EXPECT_EQ(DetectorSession(drive.detector).policy(), TrustPolicy::kRule);
  EXPECT_EQ(error_of([&] { DetectorSession session(drive.detector, TrustPolicy::kVerifiedBias); }),
            "[Detector] alarms.policy must be none, rule or bias before alarms.threshold is known (camber "
            "calibrate-agreement finds it), got verified_bias");
}

}  // namespace
}  // namespace camber::detection
