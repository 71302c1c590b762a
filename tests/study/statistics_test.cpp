#include "camber/study/statistics.h"

#include <array>
#include <cmath>

#include <gtest/gtest.h>

namespace camber::study {
namespace {

// What scipy 1.15.3 (ttest_rel, nct) and statsmodels 0.14.4 (multipletests, ttost_mean, TTestPower) print for the same
// numbers; scripts/prove study compares thousands of cases.
constexpr double kTight = 1e-9;
constexpr std::array kOurs = {0.312, 0.298, 0.331, 0.305, 0.320, 0.289, 0.315, 0.327};
constexpr std::array kTheirs = {0.301, 0.292, 0.318, 0.307, 0.303, 0.281, 0.309, 0.311};

TEST(PairedDifference, AgreesWithScipy) {
  const PairedDifference d = paired_difference(kOurs, kTheirs);
  EXPECT_EQ(d.pairs, 8);
  EXPECT_NEAR(d.mean, 0.009375000000000001, kTight);
  EXPECT_NEAR(d.deviation, 0.006232117273791132, kTight);
  EXPECT_NEAR(d.t, 4.2548147169838115, kTight);
  EXPECT_NEAR(d.p, 0.0037706443519795797, kTight);
  EXPECT_NEAR(d.low, 0.004164819573060695, kTight);
  EXPECT_NEAR(d.high, 0.014585180426939306, kTight);
}

TEST(PairedDifference, HasAnAnswerForOnePairAndForEqualOnes) {
  const PairedDifference one = paired_difference(std::array{0.3}, std::array{0.2});
  EXPECT_NEAR(one.mean, 0.1, 1e-15);
  EXPECT_TRUE(std::isnan(one.low));
  EXPECT_TRUE(std::isnan(one.p));
  const PairedDifference none = paired_difference(kOurs, kOurs);
  EXPECT_EQ(none.mean, 0);
  EXPECT_EQ(none.p, 1);
  EXPECT_EQ(none.low, 0);
  EXPECT_EQ(equivalence_p(none, 0.01), 0);
  const PairedDifference same = paired_difference(std::array{0.5, 0.75}, std::array{0.25, 0.5});
  EXPECT_EQ(same.p, 0);
  EXPECT_EQ(equivalence_p(same, 0.01), 1);
  EXPECT_THROW(paired_difference(kOurs, std::array{0.3}), std::invalid_argument);
  EXPECT_THROW(paired_difference({}, {}), std::invalid_argument);
}

TEST(Holm, AgreesWithStatsmodels) {
  const std::vector<double> adjusted = holm(std::array{0.01, 0.04, 0.03, 0.005, 0.2, 0.04});
  const std::array expected = {0.05, 0.12, 0.12, 0.03, 0.2, 0.12};
  ASSERT_EQ(adjusted.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(adjusted[i], expected[i], kTight) << i;
  EXPECT_TRUE(holm({}).empty());
}

TEST(Equivalence, AgreesWithStatsmodels) {
  const PairedDifference d = paired_difference(kOurs, kTheirs);
  EXPECT_NEAR(equivalence_p(d, 0.01), 0.3924407567041477, kTight);
  EXPECT_NEAR(equivalence_p(d, 0.02), 0.0009583825564332662, kTight);
  EXPECT_THROW(equivalence_p(d, 0), std::invalid_argument);
}

TEST(Power, AgreesWithStatsmodelsAndTheNoncentralT) {
  EXPECT_NEAR(power(0.5, 1, 8), 0.23207700463899142, kTight);
  EXPECT_NEAR(power(-2.4, 2, 8), 0.8279200603832425, kTight);
  EXPECT_NEAR(power(0.3, 1, 40), 0.4565221127061356, kTight);
  EXPECT_NEAR(power(0, 1, 40), 0.05, kTight);
  EXPECT_NEAR(detectable_effect(1, 3), 3.264043549661799, kTight);
  EXPECT_NEAR(detectable_effect(1, 8), 1.156034677994734, kTight);
  EXPECT_NEAR(detectable_effect(2, 20), 2 * 0.6604416546230157, kTight);
  EXPECT_EQ(detectable_effect(0, 8), 0);
  EXPECT_TRUE(std::isnan(detectable_effect(1, 1)));
}

TEST(Power, CountsThePairsThatAnEffectNeeds) {
  EXPECT_EQ(pairs_needed(0.5, 1), 34);
  EXPECT_EQ(pairs_needed(-1, 1), 10);
  EXPECT_EQ(pairs_needed(2, 1), 5);
  EXPECT_EQ(pairs_needed(0.1, 1), 787);
  EXPECT_EQ(pairs_needed(0.1, 0), 2);
  EXPECT_THROW(pairs_needed(0, 1), std::invalid_argument);
}

TEST(Conclusion, SpeaksInWords) {
  const PairedDifference d = paired_difference(kOurs, kTheirs);
  EXPECT_EQ(conclude(d, d.p, 0.01).words, "better");
  EXPECT_EQ(conclude(d, d.p, 0.02).words, "better, but within 2 points");
  EXPECT_EQ(conclude(paired_difference(kTheirs, kOurs), d.p, 0.01).verdict, Verdict::kWorse);
  EXPECT_EQ(conclude(d, 0.3, 0.02).words, "equivalent within 2 points");
  EXPECT_EQ(conclude(d, 0.3, 0.02).verdict, Verdict::kEquivalent);
  const Conclusion open = conclude(d, 0.3, 0.01);
  EXPECT_EQ(open.verdict, Verdict::kUnresolved);
  EXPECT_NEAR(open.detectable, detectable_effect(d.deviation, 8), 1e-15);
  EXPECT_EQ(open.needed, pairs_needed(0.01, d.deviation));
  EXPECT_NE(open.words.find("unresolved: 0.7 points could have been seen; 1 would need 6 seeds"), std::string::npos)
      << open.words;
  EXPECT_EQ(conclude(paired_difference(std::array{0.3}, std::array{0.2}), 1, 0.01).words, "unresolved: one seed");
}

}  // namespace
}  // namespace camber::study
