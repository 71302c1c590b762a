#include "camber/analysis/bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace camber::analysis {
namespace {

constexpr double kLastDigit = 0.5e-6;

std::string sentence(const BoundOptions& options) {
  try {
    analyze_bound(options);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

TEST(Bound, GivesTheMassOfAWindow) {
  EXPECT_NEAR(window_mass(22384, 64, 0), .002859, kLastDigit);
  EXPECT_NEAR(window_mass(22384, 64, 2.5), .033753, kLastDigit);
  EXPECT_NEAR(window_mass(22384, 64, 5), .298520, kLastDigit);
  EXPECT_NEAR(window_mass(22384, 64, 8), .895261, kLastDigit);
  EXPECT_DOUBLE_EQ(window_mass(22384, 64, 5000), 1);
  EXPECT_DOUBLE_EQ(window_mass(22384, 64, -5000), 0);
}

TEST(Bound, GivesTheBiasForAMass) {
  EXPECT_NEAR(bias_for_mass(22384, 64, .5), 5.854355, kLastDigit);
  EXPECT_NEAR(bias_for_mass(22384, 64, .9), 8.051580, kLastDigit);
  EXPECT_NEAR(bias_for_mass(22384, 225, .5), 4.589899, kLastDigit);
}

TEST(Bound, MovesSoMuchAndNoMore) {
  for (const double bias : {0.5, 2.5, 8.0}) {
    double most = 0;
    for (double mass = 1e-4; mass < 1; mass += 1e-4) most = std::max(most, mass_after(mass, bias) - mass);
    EXPECT_NEAR(most_moved(bias), most, 1e-6) << bias;
    const double before = 0.4 / (1 + std::exp(bias / 2));
    EXPECT_NEAR(mass_before(mass_after(before, bias) - before, bias), before, 1e-12);
    EXPECT_TRUE(std::isnan(mass_before(1.001 * most_moved(bias), bias)));
  }
  EXPECT_TRUE(std::isnan(mass_before(0, 2.5)));
  EXPECT_TRUE(std::isnan(mass_before(std::nan(""), 2.5)));
}

TEST(Bound, MassAndBiasAreInverse) {
  for (const std::int64_t window : {1, 5, 64, 225, 22383})
    for (const double mass : {1e-9, .01, .3, .5, .9, 1 - 1e-9})
      EXPECT_NEAR(window_mass(22384, window, bias_for_mass(22384, window, mass)), mass, 1e-12);
}

TEST(Bound, ScaleMaxIsTheBiasForWeightsUpToOne) {
  const BoundAnalysis analysis = analyze_bound({.keys = 100, .window = 10, .mass = .7});
  EXPECT_EQ(analysis.scale_max, analysis.bias);
  ASSERT_EQ(analysis.mass_at.size(), 4U);
  EXPECT_EQ(analysis.mass_at[3].bias, 8);
}

TEST(Bound, RefusesWhatHasNoAnswer) {
  EXPECT_EQ(sentence({.keys = 1}), "[analyze bound] keys must be at least 2, got 1");
  EXPECT_EQ(sentence({.keys = 10, .window = 10}), "[analyze bound] window must lie between 1 and keys - 1 = 9, got 10");
  EXPECT_EQ(sentence({.keys = 10, .window = 0}), "[analyze bound] window must lie between 1 and keys - 1 = 9, got 0");
  EXPECT_EQ(sentence({.mass = 1}), "[analyze bound] mass must lie between 0 and 1, both excluded, got 1");
  EXPECT_EQ(sentence({.mass = std::numeric_limits<double>::quiet_NaN()}),
            "[analyze bound] mass must lie between 0 and 1, both excluded, got nan");
}

TEST(Bound, JsonHasItsKeysAndFullPrecision) {
  const BoundAnalysis analysis = analyze_bound({.mass = .9});
  const auto json = nlohmann::json::parse(to_json(analysis));
  EXPECT_EQ(json.size(), 6U);
  EXPECT_EQ(json.at("keys"), 22384);
  EXPECT_EQ(json.at("window"), 64);
  EXPECT_EQ(json.at("mass").get<double>(), .9);
  EXPECT_EQ(json.at("bias").get<double>(), analysis.bias);
  EXPECT_EQ(json.at("scale_max").get<double>(), analysis.bias);
  EXPECT_EQ(json.at("mass_at").at(2).at("mass").get<double>(), analysis.mass_at[2].mass);
}

TEST(Bound, CsvHasTheWantedMassAmongItsRows) {
  EXPECT_EQ(to_csv(analyze_bound({.keys = 4, .window = 1, .mass = .25, .biases = {-1, 1}})),
            "bias,mass\n-1,0.10923177257303593\n0,0.25\n1,0.4753668864186717\n");
}

}  // namespace
}  // namespace camber::analysis
