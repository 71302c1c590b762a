// Metrics against a dense computation in double, on attention rows that are written down in full.
#include <cmath>
#include <map>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "camber/health/monitor.h"

namespace camber::health {
namespace {

std::map<std::string, double> by_name(const Metrics& metrics) {
  std::map<std::string, double> map;
  for (const Metric& metric : metrics) EXPECT_TRUE(map.emplace(metric.name, metric.value).second) << metric.name;
  return map;
}

// Two heads, three queries, four keys in two segments of two; the last row of head 1 has no key left.
struct DenseRows {
  std::vector<std::vector<double>> scores = {{0, 1, 2, 3}, {5, 0, 0, 0}, {1, 1, 1, 1}, {12, 0, 0, 0}, {0, 0, 4, 0}, {}};
  std::vector<float> entropy, largest, squares, left, mass;

  DenseRows() {
    for (const auto& row : scores) {
      double total = 0;
      for (const double score : row) total += std::exp(score);
      double h = 0, top = 0, square = 0, first = 0;
      for (std::size_t key = 0; key < row.size(); ++key) {
        const double p = std::exp(row[key]) / total;
        h -= p * std::log(p), top = std::max(top, p), square += p * p, first += key < 2 ? p : 0;
      }
      entropy.push_back(static_cast<float>(h)), largest.push_back(static_cast<float>(top));
      squares.push_back(static_cast<float>(square)), left.push_back(static_cast<float>(row.size()));
      mass.push_back(static_cast<float>(first)), mass.push_back(static_cast<float>(row.empty() ? 0 : 1 - first));
    }
  }

  AttentionSample sample() const {
    return {.name = "layer0",
            .batch = 1,
            .heads = 2,
            .queries = 3,
            .entropy = entropy,
            .largest_weight = largest,
            .sum_of_squares = squares,
            .keys_left = left,
            .segment_mass = mass,
            .segments = {"lidar", "camera"}};
  }
};

TEST(Metrics, OfAttentionAreMeansOverRowsWithAKey) {
  const DenseRows rows;
  const auto metrics = by_name(health_metrics({.attention = {rows.sample()}}));
  double entropy = 0, share = 0, keys = 0, top = 0, lidar = 0;
  for (std::size_t row = 0; row < 5; ++row) {
    entropy += rows.entropy[row] / 5., share += rows.entropy[row] / std::log(4.) / 5;
    keys += std::exp(static_cast<double>(rows.entropy[row])) / 5, top += rows.largest[row] / 5.,
        lidar += rows.mass[2 * row] / 5.;
  }
  EXPECT_NEAR(metrics.at("attention/layer0/entropy"), entropy, 1e-6);
  EXPECT_NEAR(metrics.at("attention/layer0/entropy_share"), share, 1e-6);
  EXPECT_NEAR(metrics.at("attention/layer0/effective_keys"), keys, 1e-6);
  EXPECT_NEAR(metrics.at("attention/layer0/largest_weight"), top, 1e-6);
  EXPECT_NEAR(metrics.at("attention/layer0/mass/lidar"), lidar, 1e-6);
  EXPECT_NEAR(metrics.at("attention/layer0/mass/camera"), 1 - lidar, 1e-6);
  // Rows 1 (.980), 3 (.99998) and 4 (.948) are over 0.9; only row 3 passes no gradient.
  EXPECT_NEAR(metrics.at("attention/layer0/saturated"), 3 / 5., 1e-12);
  EXPECT_NEAR(metrics.at("attention/layer0/nearly_saturated"), 3 / 5., 1e-12);
  EXPECT_NEAR(metrics.at("attention/layer0/dead"), 1 / 5., 1e-12);
  EXPECT_FALSE(metrics.contains("attention/layer0/change"));
}

TEST(Metrics, OfHeadsCountTheirOwnRows) {
  const DenseRows rows;
  const auto metrics = by_name(health_metrics({.attention = {rows.sample()}}));
  EXPECT_NEAR(metrics.at("attention/layer0/head0/saturated"), 1 / 3., 1e-12);
  EXPECT_NEAR(metrics.at("attention/layer0/head1/saturated"), 1, 1e-12);
  EXPECT_NEAR(metrics.at("attention/layer0/head1/largest_weight"), (rows.largest[3] + rows.largest[4]) / 2., 1e-6);
  EXPECT_FALSE(
      by_name(health_metrics({.attention = {rows.sample()}}, false)).contains("attention/layer0/head0/saturated"));
}

TEST(Metrics, RefuseRowsThatAreNotTheShape) {
  const DenseRows rows;
  AttentionSample sample = rows.sample();
  sample.queries = 4;
  EXPECT_THROW(health_metrics({.attention = {sample}}), std::invalid_argument);
}

TEST(Metrics, OfABiasAreItsMomentsAndPercentiles) {
  const std::vector<float> values = {-2, 0, 1, 3, -4};  // |.|: 0 1 2 3 4
  const auto metrics = by_name(health_metrics({.bias = {{.name = "lidar", .value = values}}}));
  EXPECT_NEAR(metrics.at("effective_bias/lidar/mean"), 2, 1e-12);
  EXPECT_NEAR(metrics.at("effective_bias/lidar/p05"), 0.2, 1e-6);
  EXPECT_NEAR(metrics.at("effective_bias/lidar/p50"), 2, 1e-12);
  EXPECT_NEAR(metrics.at("effective_bias/lidar/p95"), 3.8, 1e-6);
  EXPECT_NEAR(metrics.at("bias/lidar/mean"), -0.4, 1e-12);
  EXPECT_NEAR(metrics.at("bias/lidar/std"), std::sqrt(30 / 5. - 0.16), 1e-12);
  EXPECT_EQ(metrics.at("bias/lidar/min"), -4);
  EXPECT_EQ(metrics.at("bias/lidar/max"), 3);
}

TEST(Metrics, OfScalesAndTrust) {
  const std::vector<float> weight = {0.5F, -0.5F, 1, 0};
  const auto metrics = by_name(health_metrics(
      {.scales = {{.name = "bias", .value = 2, .raw = 2, .min = 0, .max = 8, .num_steps = 10, .steps_at_bound = 4}},
       .trust = {{.name = "camera", .weight = weight}}}));
  EXPECT_EQ(metrics.at("scale/bias/headroom"), 0.75);
  EXPECT_EQ(metrics.at("scale/bias/at_bound"), 0.4);
  EXPECT_FALSE(metrics.contains("scale/bias/gradient"));
  EXPECT_EQ(metrics.at("trust/camera/mean"), 0.25);
  EXPECT_EQ(metrics.at("trust/camera/mean_abs"), 0.5);
}

TEST(Metrics, AreNoNumbersWhereARowIsNone) {
  DenseRows rows;
  rows.entropy[1] = rows.largest[1] = rows.squares[1] = NAN;
  const auto metrics = by_name(health_metrics({.attention = {rows.sample()}}));
  // A row that broke is neither healthy nor small: nothing counts it as such.
  for (const char* name : {"entropy", "entropy_share", "entropy_share_p05", "largest_weight", "saturated",
                           "nearly_saturated", "dead", "head0/saturated", "head0/dead"}) {
    ASSERT_TRUE(metrics.contains(std::string("attention/layer0/") + name)) << name;
    EXPECT_TRUE(std::isnan(metrics.at(std::string("attention/layer0/") + name))) << name;
  }
  EXPECT_TRUE(std::isfinite(metrics.at("attention/layer0/head1/saturated")));
}

TEST(Metrics, OfABiasAreNoNumbersWhereAValueIsNone) {
  std::vector<float> values(99, 1.F);
  for (std::size_t i = 1; i < values.size(); i += 3) values[i] = NAN;
  const auto metrics = by_name(
      health_metrics({.bias = {{.name = "lidar", .value = values}}, .trust = {{.name = "lidar", .weight = values}}}));
  for (const auto& [name, value] : metrics)
    if (!name.ends_with("/learned")) {
      EXPECT_TRUE(std::isnan(value)) << name;
    }
}

TEST(Metrics, TellAGradientThatBrokeFromNone) {
  const auto gradient = [](std::optional<double> value) {
    return by_name(health_metrics({.scales = {{.name = "bias", .gradient = value, .max = 1}}}));
  };
  EXPECT_FALSE(gradient({}).contains("scale/bias/gradient"));
  ASSERT_TRUE(gradient(NAN).contains("scale/bias/gradient"));
  EXPECT_TRUE(std::isnan(gradient(NAN).at("scale/bias/gradient")));
}

TEST(Monitor, SamplesTheFirstStepAndEveryInterval) {
  const HealthMonitor monitor({.interval = 10}), none({.interval = 0});
  EXPECT_TRUE(monitor.due(1) && monitor.due(10) && monitor.due(200));
  EXPECT_FALSE(monitor.due(2) || monitor.due(15) || none.due(1) || none.due(10));
}

}  // namespace
}  // namespace camber::health
