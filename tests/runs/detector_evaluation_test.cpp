// The fault table's metrics where there is nothing to divide by or to compare.
#include <cmath>

#include <camber/runs/detector_evaluation.h>
#include <camber/runs/detector_options.h>
#include <gtest/gtest.h>

namespace camber::runs {
namespace {

FaultReport report_of(double clean, double faulty) {
  FaultReport report;
  for (const auto& [name, score] : {std::pair("clean", clean), {"frozen:4", faulty}}) {
    ConditionReport& condition = report.conditions.emplace_back();
    condition.name = name;
    condition.metrics.evaluation.metrics.nd_score = score;
  }
  return report;
}

TEST(FaultReport, ResilienceOfADetectorThatFindsNothingIsNotDefined) {
  EXPECT_EQ(report_of(0.5, 0.25).mean_resilience(), 0.5);
  for (const double faulty : {0.0, 0.1}) {
    const FaultReport report = report_of(0, faulty);
    EXPECT_TRUE(std::isnan(report.mean_resilience()));
    // Bare, as every metric of the metrics that is not defined: the page reads it so.
    EXPECT_NE(report.to_json().find("\"mean_resilience\": NaN"), std::string::npos) << report.to_json();
    EXPECT_EQ(report.to_csv().find("inf"), std::string::npos) << report.to_csv();
  }
}

TEST(FaultReport, TellsEveryClassUnderEveryFaultInAllFormats) {
  FaultReport report = report_of(0.5, 0.25);
  for (std::size_t i = 0; i < report.conditions.size(); ++i) {
    eval::DetectionMetrics& metrics = report.conditions[i].metrics.evaluation.metrics;
    for (const auto& [label, precision] : {std::pair(eval::DetectionClass::kCar, 0.75 - 0.5 * static_cast<double>(i)),
                                           {eval::DetectionClass::kTrafficCone, 0.125}}) {
      eval::ClassMetrics& entry = metrics.classes.emplace_back();
      entry.label = label;
      entry.mean_average_precision = precision;
    }
    report.conditions[i].trust = {.lidar = {0.5, 0.25}, .camera = {i == 0 ? 0.5 : -0.5}};
  }
  const std::string text = report.to_text();
  EXPECT_NE(text.find("AP               car  traffic_cone\n"), std::string::npos) << text;
  EXPECT_NE(text.find("clean         0.7500        0.1250\n"), std::string::npos) << text;
  EXPECT_NE(text.find("frozen:4      0.2500        0.1250\n"), std::string::npos) << text;
  const std::string csv = report.to_csv();
  EXPECT_NE(csv.find(",ap_car,ap_traffic_cone,trust_lidar,trust_lidar_auc,trust_camera,trust_camera_auc\n"),
            std::string::npos)
      << csv;
  EXPECT_NE(csv.find(",0.25,0.125,0.375,0.5,-0.5,1.0\n"), std::string::npos) << csv;
}

TEST(FaultReport, TellsAgreementInAllFormatsAndLeavesOutWhatIsNotKnown) {
  FaultReport report = report_of(0.5, 0.25);
  report.conditions[0].agreement = {0.75, NAN, 0.5};
  report.conditions[1].agreement = {NAN};
  EXPECT_NE(report.to_text().find("clean         0.6250  0.5000\nfrozen:4           -       -\n"), std::string::npos)
      << report.to_text();
  EXPECT_NE(report.to_json().find("\"clean\": {\"mean\": 0.625, \"area_under_curve\": 0.5}"), std::string::npos);
  EXPECT_NE(report.to_csv().find(",agreement,agreement_auc\n"), std::string::npos);
  EXPECT_NE(report.to_csv().find(",0.625,0.5\n"), std::string::npos) << report.to_csv();
  EXPECT_NE(report.to_csv().find(",,\n"), std::string::npos) << report.to_csv();
}

TEST(UnusedOptions, AreNamedWithTheSwitch) {
  DetectorTrainingOptions options;
  options.detector.router.mode = nn::RouterMode::kLearned;
  EXPECT_EQ(unused_options(options, {}), std::vector<std::string>{});
  options.detector.bias.segment_scale.init = 3;
  options.data.faults.share = 0;
  options.data.faults.kinds = {"lidar_off"};
  options.data.faults.weights = {1};
  EXPECT_EQ(unused_options(options, {}),
            (std::vector<std::string>{
                "data.faults.kinds = [\"lidar_off\"] has no effect: data.faults.share is 0",
                "data.faults.weights = [1.0] has no effect: data.faults.share is 0",
                "detector.bias.segment_scale.init = 3.0 has no effect: detector.bias.segments is off"}));
  options.data.faults = {};
  options.detector.bias.segments = true;
  EXPECT_EQ(unused_options(options, {}), std::vector<std::string>{});
  options.detector.bias.locality_scale.init = 3;
  EXPECT_EQ(unused_options(options, {}),
            (std::vector<std::string>{
                "detector.bias.locality_scale.init = 3.0 has no effect: detector.bias.locality is off"}));
  options.detector.bias.locality = true;
  options.detector.bias.window_trust = false;
  options.detector.bias.scale.init = 3;
  EXPECT_EQ(
      unused_options(options, {}),
      (std::vector<std::string>{"detector.bias.scale.init = 3.0 has no effect: detector.bias.window_trust is off"}));
  options.detector.bias = detection::DetectorOptions::small().bias;
  options.detector.bias.segments = true;
  options.detector.bias.segment_scale.init = 3;
  options.detector.router.mode = nn::RouterMode::kOff;
  EXPECT_EQ(
      unused_options(options, {}),
      (std::vector<std::string>{"detector.bias.segments = true has no effect: detector.router.mode is off",
                                "detector.bias.segment_scale.init = 3.0 has no effect: detector.router.mode is off"}));
}

TEST(AreaUnderCurve, IsNoNumberWhereOneIsNone) {
  EXPECT_EQ(area_under_curve({1, 2}, {3, 4}), 1);
  EXPECT_EQ(area_under_curve({1, 2}, {1, 2}), 0.5);
  EXPECT_TRUE(std::isnan(area_under_curve({2, NAN, 1}, {1, 2})));
  EXPECT_TRUE(std::isnan(area_under_curve({2, 1}, {NAN, 2})));
}

}  // namespace
}  // namespace camber::runs
