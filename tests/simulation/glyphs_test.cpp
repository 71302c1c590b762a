#include "camber/simulation/glyphs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

namespace camber::simulation {
namespace {

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - b[i], 2);
  return std::sqrt(sum);
}

double mean(const std::vector<float>& image) {
  return std::accumulate(image.begin(), image.end(), 0.0) / static_cast<double>(image.size());
}

TEST(Glyphs, AreAFunctionOfSeedClassHandAndDomain) {
  const GlyphOptions options;
  const auto first = draw_glyph(options, 1, 7, 3, "ink");
  EXPECT_EQ(first, draw_glyph(options, 1, 7, 3, "ink"));
  EXPECT_NE(first, draw_glyph(options, 2, 7, 3, "ink"));
  EXPECT_NE(first, draw_glyph(options, 1, 8, 3, "ink"));
  EXPECT_NE(first, draw_glyph(options, 1, 7, 4, "ink"));
  ASSERT_EQ(first.size(), 28U * 28U);
  for (const float value : first) EXPECT_TRUE(value >= 0 && value <= 1);
}

TEST(Glyphs, HandsOfOneClassAreNearerThanClasses) {
  const GlyphOptions options;
  // Nearest neighbour among twenty classes by plain pixels: far above chance, far from perfect.
  int right = 0;
  constexpr int kClasses = 20, kQuestions = 5;
  for (int c = 0; c < kClasses; ++c)
    for (int hand = 1; hand <= kQuestions; ++hand) {
      const auto question = draw_glyph(options, 3, c, hand, "ink");
      int best = -1;
      double nearest = 1e9;
      for (int other = 0; other < kClasses; ++other)
        if (const double d = distance(question, draw_glyph(options, 3, other, 0, "ink")); d < nearest)
          nearest = d, best = other;
      right += best == c;
    }
  const double share = right / static_cast<double>(kClasses * kQuestions);
  EXPECT_GT(share, 0.2) << "chance is 0.05";
  EXPECT_LT(share, 0.95);
}

TEST(Glyphs, DomainsLookDifferent) {
  const GlyphOptions options;
  std::vector<double> means;
  for (const std::string& domain : glyph_domains()) {
    double sum = 0;
    for (int c = 0; c < 30; ++c) sum += mean(draw_glyph(options, 4, c, 0, domain)) / 30;
    means.push_back(sum);
  }
  EXPECT_LT(means[0], 0.25);                  // ink: mostly paper
  EXPECT_NEAR(means[0] + means[2], 1, 0.05);  // inverted: the rest
  EXPECT_LT(means[1], means[0] * 1.5);        // outline
  EXPECT_GT(means[3], means[0]);              // textured: the ground is no longer white
  EXPECT_GT(means[4], means[0]);              // noisy: grain
}

TEST(Glyphs, RefuseUnknownAndRepeatedDomains) {
  EXPECT_THROW((GlyphOptions{.domains = {"ink", "crayon"}}.validate()), std::invalid_argument);
  EXPECT_THROW((GlyphOptions{.domains = {"ink", "ink"}}.validate()), std::invalid_argument);
  EXPECT_THROW((GlyphOptions{.domains = {}}.validate()), std::invalid_argument);
}

}  // namespace
}  // namespace camber::simulation
