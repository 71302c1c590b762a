#include "camber/report/page.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace camber::report {
namespace {

using nlohmann::json;

TEST(PutSeries, StandsOnACommonX) {
  Chart chart;
  put_series(chart, {{"a", {1, 2, 4}, {10, 20, 40}}, {"b", {2, 3}, {-2, -3}}}, 100);
  EXPECT_EQ(chart.x, (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(chart.series[0].values[3], 40);
  EXPECT_TRUE(std::isnan(chart.series[0].values[2]));
  EXPECT_TRUE(std::isnan(chart.series[1].values[0]));
  EXPECT_EQ(chart.points, 4U);
  EXPECT_THROW(put_series(chart, {{"a", {1, 2}, {1}}}, 10), std::invalid_argument);
}

TEST(PutSeries, KeepsEveryPeakWhenItMustLeavePointsOut) {
  RawSeries series{.name = "a"};
  for (int step = 0; step < 100000; ++step) {
    series.x.push_back(step);
    series.values.push_back(std::sin(step / 5000.));
  }
  series.values[12345] = 9;
  series.values[77777] = -9;
  series.values[5] = std::nan("");
  Chart chart;
  put_series(chart, {series}, 6000);
  EXPECT_EQ(chart.points, 100000U);
  EXPECT_EQ(chart.x.size(), 6000U);
  EXPECT_TRUE(std::is_sorted(chart.x.begin(), chart.x.end()));
  EXPECT_EQ(std::adjacent_find(chart.x.begin(), chart.x.end()), chart.x.end()) << "x must rise";
  EXPECT_EQ(chart.x.front(), 0);
  EXPECT_EQ(chart.x.back(), 99999);
  const auto [low, high] = std::minmax_element(chart.series[0].values.begin(), chart.series[0].values.end());
  EXPECT_EQ(*low, -9);
  EXPECT_EQ(*high, 9);
  for (std::size_t row = 0; row < chart.x.size(); ++row)
    if (std::abs(chart.series[0].values[row]) <= 1) {
      EXPECT_NEAR(chart.series[0].values[row], std::sin(chart.x[row] / 5000), 0.01);
    }
}

TEST(PutSeries, CountsWhatCannotBeDrawn) {
  Chart chart{.note = "all groups"}, sound, gaps;
  put_series(chart, {{"a", {1, 2, 3}, {1, std::nan(""), INFINITY}}, {"b", {1}, {-INFINITY}}}, 100);
  EXPECT_EQ(chart.note, "all groups; 3 values are not finite and not drawn");
  put_series(sound, {{"a", {1, 2}, {1, 2}}, {"b", {2}, {1}}}, 100);
  EXPECT_EQ(sound.note, "");
  put_series(gaps, {{"a", {1}, {std::nan("")}}}, 100);
  EXPECT_EQ(gaps.note, "1 value is not finite and not drawn");
}

TEST(Page, IsDataThatReadsBack) {
  Page page{.title = "a \"run\"\n", .tiles = {{"Loss", "0.5", "from 2"}}};
  Chart chart{.title = "Loss", .y_min = 0};
  put_series(chart, {{"total", {1, 2}, {0.5, std::nan("")}}}, 10);
  page.sections.push_back({.title = "All",
                           .blocks = {Sentences{{"alarm", "It broke.", "step 3"}}, chart,
                                      Table{.title = "T", .columns = {"a"}, .rows = {{"0.5"}}, .bar_columns = {0}},
                                      Images{{"right", "image/png", "abcd"}}, Text{"config", "a = 1\n"}}});
  const json data = json::parse(to_json(page));
  EXPECT_EQ(data["title"], "a \"run\"\n");
  const json& blocks = data["sections"][0]["blocks"];
  EXPECT_EQ(blocks[1]["series"][0]["values"], json::parse("[0.5, null]"));
  EXPECT_EQ(blocks[1]["y_max"], nullptr);
  EXPECT_EQ(blocks[3]["images"][0]["source"], "data:image/png;base64,YWJjZA==");
  EXPECT_EQ(blocks[4]["content"], "a = 1\n");
}

TEST(Page, CannotBeBrokenByWhatItShows) {
  Page page{.title = "</title><script>alert(1)</script>"};
  page.sections.push_back({.title = "X", .blocks = {Text{"t", "</script><script>alert(2)</script> {{page_js}}"}}});
  const std::string html = to_html(page);
  EXPECT_EQ(html.find("<script>alert"), std::string::npos);
  EXPECT_NE(html.find("{{page_js}}"), std::string::npos) << "a mark in the data stays text";
  EXPECT_EQ(html.find("{{data}}"), std::string::npos);
}

TEST(Page, NamesNoOtherPlaceToLoadFrom) {
  const std::string html = to_html({.title = "x"});
  for (const char* mark : {" src=\"http", "href=\"http", "url(http", "@import", "//cdn"})
    EXPECT_EQ(html.find(mark), std::string::npos) << mark;
  EXPECT_NE(html.find("default-src 'none'"), std::string::npos);
  EXPECT_NE(html.find("MIT"), std::string::npos) << "uPlot's licence goes with it";
}

}  // namespace
}  // namespace camber::report
