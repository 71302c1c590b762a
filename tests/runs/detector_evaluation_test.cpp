// The fault table's metrics where there is nothing to divide by or to compare.
#include <cmath>

#include <camber/runs/detector_evaluation.h>
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

TEST(AreaUnderCurve, IsNoNumberWhereOneIsNone) {
  EXPECT_EQ(area_under_curve({1, 2}, {3, 4}), 1);
  EXPECT_EQ(area_under_curve({1, 2}, {1, 2}), 0.5);
  EXPECT_TRUE(std::isnan(area_under_curve({2, NAN, 1}, {1, 2})));
  EXPECT_TRUE(std::isnan(area_under_curve({2, 1}, {NAN, 2})));
}

}  // namespace
}  // namespace camber::runs
