#include "camber/analysis/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace camber::analysis {
namespace {

constexpr double kLastPrintedDigit = 0.5e-6;

TEST(Response, IsTheGoldenTable) {
  const double golden[][3] = {{0, .500000, .250000}, {1, .731059, .196612}, {2, .880797, .104994},
                              {3, .952574, .045177}, {5, .993307, .006648}, {10, .999955, .000045}};
  const SoftmaxAnalysis analysis = analyze_softmax({});
  ASSERT_EQ(analysis.curve.size(), 6U);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(analysis.curve[i].difference, golden[i][0]);
    EXPECT_NEAR(analysis.curve[i].weight, golden[i][1], kLastPrintedDigit);
    EXPECT_NEAR(analysis.curve[i].gradient, golden[i][2], kLastPrintedDigit);
  }
}

TEST(Response, IsSymmetricAndItsGradientIsTheSlope) {
  for (const double d : {0.0, 0.3, 1.7, 4.0, 30.0, 800.0}) {
    const ResponsePoint up = softmax_response(d), down = softmax_response(-d);
    EXPECT_NEAR(up.weight + down.weight, 1, 1e-15);
    EXPECT_EQ(up.gradient, down.gradient);
    const double step = 1e-5;
    EXPECT_NEAR((softmax_response(d + step).weight - softmax_response(d - step).weight) / (2 * step), up.gradient,
                1e-10);
  }
}

TEST(Response, ZonesEndAtTwoThreeAndFive) {
  const auto zone = [](double d) { return std::string(name(response_zone(d))); };
  EXPECT_EQ(zone(0), "sensitive");
  EXPECT_EQ(zone(2), "sensitive");
  EXPECT_EQ(zone(2.001), "safe");
  EXPECT_EQ(zone(-3), "safe");
  EXPECT_EQ(zone(3.001), "edge");
  EXPECT_EQ(zone(5), "edge");
  EXPECT_EQ(zone(-5.001), "saturated");
}

TEST(Verdict, TurnsAtSeventyAndNinetyPercent) {
  const auto word = [](double weight) { return std::string(name(verdict(weight))); };
  EXPECT_EQ(word(.7), "normal");
  EXPECT_EQ(word(.700001), "nearly");
  EXPECT_EQ(word(.9), "nearly");
  EXPECT_EQ(word(.900001), "saturated");
}

TEST(Attention, IsTheGoldenTable) {
  struct Row {
    double scale;
    double attention[4];
    double entropy;
    const char* verdict;
  };
  const Row golden[] = {{1, {.195152, .434319, .107102, .263428}, 1.271754, "normal"},
                        {2.5, {.093204, .688687, .020797, .197312}, 0.878803, "normal"},
                        {5, {.016631, .908007, .000828, .074534}, 0.355156, "saturated"},
                        {10, {.000333, .992975, .000001, .006691}, 0.043179, "saturated"},
                        {20, {.000000, .999954, .000000, .000045}, 0.000501, "saturated"}};
  const SoftmaxAnalysis analysis = analyze_softmax({});
  ASSERT_EQ(analysis.scales.size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) {
    const AttentionAtScale& row = analysis.scales[i];
    EXPECT_EQ(row.scale, golden[i].scale);
    for (std::size_t key = 0; key < 4; ++key)
      EXPECT_NEAR(row.attention[key], golden[i].attention[key], kLastPrintedDigit);
    EXPECT_NEAR(row.entropy, golden[i].entropy, kLastPrintedDigit);
    EXPECT_STREQ(name(row.verdict), golden[i].verdict);
    EXPECT_EQ(row.max_attention, *std::max_element(row.attention.begin(), row.attention.end()));
  }
}

TEST(Attention, OfCameraAgainstLidarIsClipped) {
  const SoftmaxAnalysis analysis =
      analyze_softmax({.scores = {2.0, 2.5}, .weights = {.8, 0}, .scales = {0, 1, 2, 5, 10, 20}, .clip = 10});
  const double golden[] = {.377541, .574443, .750260, .970688, .999447, .999925};
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(analysis.scales[i].attention[0], golden[i], kLastPrintedDigit);
  EXPECT_EQ(analysis.scales[5].bias[0], 10);
}

TEST(Attention, StaysADistributionAtAnySize) {
  const SoftmaxAnalysis analysis = analyze_softmax(
      {.scores = {1e4, -1e4, 0}, .weights = {-1, 1, .5}, .scales = {0, 1e3, 1e4, 1e5, -7}, .differences = {-1e4, 1e4}});
  for (const AttentionAtScale& row : analysis.scales) {
    EXPECT_NEAR(std::accumulate(row.attention.begin(), row.attention.end(), 0.0), 1, 1e-15);
    EXPECT_TRUE(std::isfinite(row.entropy));
    EXPECT_GE(row.entropy, -1e-15);
  }
  EXPECT_EQ(analysis.curve[0].weight, 0);
  EXPECT_EQ(analysis.curve[1].weight, 1);
  const SoftmaxAnalysis flat = analyze_softmax({.weights = {1, 1, 1, 1}, .scales = {3}});
  EXPECT_NEAR(flat.scales[0].entropy, std::log(4), 1e-15);
}

TEST(Softmax, RefusesWhatHasNoAnswer) {
  const auto sentence = [](const SoftmaxOptions& options) -> std::string {
    try {
      analyze_softmax(options);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(sentence({.scores = {1, 2}}), "[analyze softmax] scores must be as many as the weights, 4, got 2");
  EXPECT_EQ(sentence({.weights = {}}), "[analyze softmax] weights must hold at least one number, got none");
  EXPECT_EQ(sentence({.scales = {std::numeric_limits<double>::infinity()}}),
            "[analyze softmax] scales must be finite numbers, got inf");
  EXPECT_EQ(sentence({.clip = 0}), "[analyze softmax] clip must be above 0, got 0");
}

TEST(Softmax, JsonHasItsKeysAndFullPrecision) {
  const SoftmaxAnalysis analysis = analyze_softmax({});
  const auto json = nlohmann::json::parse(to_json(analysis));
  EXPECT_EQ(json.size(), 2U);
  const auto& point = json.at("curve").at(1);
  EXPECT_EQ(point.size(), 4U);
  EXPECT_EQ(point.at("difference").get<double>(), 1);
  EXPECT_EQ(point.at("weight").get<double>(), analysis.curve[1].weight);
  EXPECT_EQ(point.at("gradient").get<double>(), analysis.curve[1].gradient);
  EXPECT_EQ(point.at("zone"), "sensitive");
  const auto& row = json.at("scales").at(2);
  EXPECT_EQ(row.size(), 6U);
  EXPECT_EQ(row.at("scale").get<double>(), 5);
  EXPECT_EQ(row.at("bias").get<std::vector<double>>(), analysis.scales[2].bias);
  EXPECT_EQ(row.at("attention").get<std::vector<double>>(), analysis.scales[2].attention);
  EXPECT_EQ(row.at("entropy").get<double>(), analysis.scales[2].entropy);
  EXPECT_EQ(row.at("max_attention").get<double>(), analysis.scales[2].max_attention);
  EXPECT_EQ(row.at("verdict"), "saturated");
}

TEST(Softmax, CsvIsOneTable) {
  const std::string csv = to_csv(analyze_softmax({.weights = {1, 0}}));
  std::size_t lines = 0;
  for (std::size_t begin = 0; begin < csv.size(); ++lines) {
    const std::size_t end = csv.find('\n', begin);
    EXPECT_EQ(std::count(csv.begin() + static_cast<std::ptrdiff_t>(begin),
                         csv.begin() + static_cast<std::ptrdiff_t>(end), ','),
              12);
    begin = end + 1;
  }
  EXPECT_EQ(lines, 1U + 6U + 5U);
  EXPECT_NE(csv.find("\ncurve,1,0.7310585786300049,0.19661193324148188,sensitive,"), std::string::npos) << csv;
}

TEST(Softmax, TextFitsEightyColumnsWithAnyNumberOfKeys) {
  for (const std::size_t keys : {1U, 2U, 5U, 6U, 9U, 13U}) {
    const std::string text = to_text(analyze_softmax({.weights = std::vector<double>(keys, 0.5)}));
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = text.find('\n', begin);
      EXPECT_LE(end - begin, 80U) << text.substr(begin, end - begin);
      begin = end + 1;
    }
    // Every share is printed once for each scale.
    const std::string share = std::to_string(1.0 / static_cast<double>(keys)).substr(0, 8);
    std::size_t found = 0;
    for (std::size_t at = text.find("  " + share); at != std::string::npos; at = text.find("  " + share, at + 1))
      ++found;
    EXPECT_GE(found, 5 * keys) << text;
  }
}

TEST(Softmax, ImageHoldsBothChartsAndEveryMark) {
  const std::string svg = to_svg(analyze_softmax({.differences = {-4, 0, 4}}));
  for (const char* text : {">sensitive<", ">edge<", ">saturated<", ">key 2, weight 0.8<", ">scale<", ">gradient<"})
    EXPECT_NE(svg.find(text), std::string::npos) << text;
  std::size_t marks = 0;
  for (std::size_t at = svg.find("<circle"); at != std::string::npos; at = svg.find("<circle", at + 1)) ++marks;
  EXPECT_EQ(marks, 3U * 2 + 5U * 4);
}

}  // namespace
}  // namespace camber::analysis
