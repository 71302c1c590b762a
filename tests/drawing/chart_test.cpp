#include "camber/drawing/chart.h"

#include <cmath>
#include <limits>
#include <regex>
#include <stdexcept>

#include <gtest/gtest.h>

namespace camber::drawing {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// Every tag that opens is closed in order, and no text holds a bare < or &.
void expect_well_formed(const std::string& svg) {
  std::vector<std::string> open;
  const std::regex tag("<(/?)([a-zA-Z]+)([^<>]*)>");
  for (auto it = std::sregex_iterator(svg.begin(), svg.end(), tag); it != std::sregex_iterator(); ++it) {
    const std::string name = (*it)[2], attributes = (*it)[3];
    if ((*it)[1] == "/") {
      ASSERT_FALSE(open.empty());
      EXPECT_EQ(open.back(), name);
      open.pop_back();
    } else if (!attributes.ends_with('/')) {
      open.push_back(name);
    }
  }
  EXPECT_TRUE(open.empty());
  const std::string rest = std::regex_replace(svg, tag, "");
  EXPECT_EQ(rest.find('<'), std::string::npos);
  EXPECT_FALSE(std::regex_search(rest, std::regex("&(?!amp;|lt;|gt;|quot;)")));
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(Ticks, AreOneTwoOrFiveTimesAPowerOfTen) {
  EXPECT_EQ(tick_positions(0, 10, 6), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(tick_positions(0, 1, 6).size(), 6U);
  EXPECT_EQ(tick_positions(-7, 23, 4), (std::vector<double>{0, 10, 20}));
  EXPECT_EQ(tick_positions(0, 0.0003, 3), (std::vector<double>{0, 0.0001, 0.0002, 0.00030000000000000003}));
}

TEST(LineChart, DrawsSeriesZonesLevelsMarksAndLegend) {
  LineChart chart{
      .title = "response", .x = {.title = "difference", .max = 10}, .y = {.title = "weight", .min = 0, .max = 1}};
  chart.zones = {{.from = 0, .to = 5, .name = "safe", .colour = {230, 245, 230}},
                 {.from = 5, .to = std::numeric_limits<double>::infinity(), .name = "edge", .colour = {250, 230, 230}}};
  chart.levels = {{.y = 0.9, .name = "saturated"}, {.y = 7, .name = "outside"}};
  chart.series = {{.name = "weight", .points = {{0, 0.5}, {10, 1}}, .marks = {{0, 0.5}, {10, 1}, {11, 3}}},
                  {.name = "gradient", .points = {{0, 0.25}, {10, 0}}, .dashed = true}};
  const std::string svg = to_svg({chart});
  expect_well_formed(svg);
  for (const char* text : {">response<", ">difference<", ">weight<", ">gradient<", ">safe<", ">edge<", ">saturated<"})
    EXPECT_NE(svg.find(text), std::string::npos) << text;
  EXPECT_EQ(svg.find("outside"), std::string::npos);
  EXPECT_EQ(count(svg, "<circle"), 2U);
  EXPECT_EQ(count(svg, "class=\"line\""), 2U);  // the line and its entry
  EXPECT_EQ(count(svg, "class=\"line dashed\""), 2U);
  // The first series runs from the middle of the left border to the upper right corner.
  EXPECT_NE(svg.find("M66.00 201.00L736.00 76.00"), std::string::npos) << svg;
}

TEST(LineChart, EscapesTextAndBreaksLinesAtMissingPoints) {
  LineChart chart{.title = "a < b & \"c\"\x01"};
  chart.series = {{.name = "<script>", .points = {{0, 0}, {1, 1}, {2, kNone}, {3, 1}, {4, 0}}}};
  const std::string svg = to_svg({chart});
  expect_well_formed(svg);
  EXPECT_NE(svg.find("a &lt; b &amp; &quot;c&quot;<"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  const std::regex broken("d=\"M[^LM]+L[^LM]+M[^LM]+L[^LM]+\"");
  EXPECT_TRUE(std::regex_search(svg, broken));
}

TEST(LineChart, SurvivesEmptyAndDegenerateData) {
  LineChart one{.title = "one"};
  one.series = {{.name = "x", .points = {{3, 7}}}, {.name = "none"}, {.points = {{kNone, kNone}}}};
  const std::string svg = to_svg({LineChart{}, one});
  expect_well_formed(svg);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
}

TEST(LineChart, LogarithmicAxesHavePowersOfTenAndRefuseZero) {
  LineChart chart{.title = "log", .x = {.title = "keys", .logarithmic = true}};
  chart.series = {{.points = {{1, 1}, {1000, 2}}}};
  const std::string svg = to_svg({chart});
  for (const char* text : {">1<", ">10<", ">100<", ">1000<"}) EXPECT_NE(svg.find(text), std::string::npos) << text;
  chart.series[0].points[0].x = 0;
  try {
    to_svg({chart});
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "[drawing] a logarithmic axis must begin above 0, got 0 for 'keys'");
  }
}

TEST(LineChart, StacksChartsAndWrapsALongLegend) {
  LineChart chart{.title = "many", .height = 300};
  for (int i = 0; i < 12; ++i) chart.series.push_back({.name = "a rather long name", .points = {{0, 0}, {1, 1}}});
  const std::string svg = to_svg({chart, chart});
  expect_well_formed(svg);
  // Four entries a line make three lines, two of them above the one that the height includes.
  EXPECT_NE(svg.find("height=\"680\""), std::string::npos);
  EXPECT_NE(svg.find("translate(0 340)"), std::string::npos);
  const std::regex entry("<text x=\"([0-9.]+)\" y=\"[0-9.]+\" class=\"label\">");
  for (auto it = std::sregex_iterator(svg.begin(), svg.end(), entry); it != std::sregex_iterator(); ++it)
    EXPECT_LT(std::stod((*it)[1]) + 18 * 6.7, 760 - 24 + 6.7);
}

}  // namespace
}  // namespace camber::drawing
