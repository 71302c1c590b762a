#include "camber/eval/fewshot_statistics.h"

#include <cmath>

#include <gtest/gtest.h>

#include "camber/random/stream.h"

namespace camber::eval {
namespace {

TEST(MeanInterval, IsTheUsualOne) {
  const std::vector<double> values{0.8, 0.6, 1.0, 0.6};
  const auto interval = mean_interval(values);
  EXPECT_NEAR(interval.mean, 0.75, 1e-12);
  EXPECT_NEAR(interval.half_width, 1.96 * std::sqrt(0.11 / 3) / 2, 1e-12);
  EXPECT_EQ(interval.count, 4);
  EXPECT_EQ(mean_interval(std::vector<double>{0.5}).half_width, 0);
  EXPECT_THROW(mean_interval(std::vector<double>{}), std::invalid_argument);
}

// Features = strength * class direction + domain direction + noise.
struct Made {
  std::vector<float> values{};
  std::vector<std::int64_t> classes{}, domains{};
};

Made made(double class_strength, double domain_strength, std::uint64_t seed, int rows = 600) {
  constexpr int kWidth = 12;
  random::Stream directions(9, "directions"), stream(seed, "rows");
  std::vector<std::vector<double>> of_class(4, std::vector<double>(kWidth)), of_domain = of_class;
  for (auto* set : {&of_class, &of_domain})
    for (auto& direction : *set)
      for (double& value : direction) value = directions.normal();
  Made result;
  for (int r = 0; r < rows; ++r) {
    result.classes.push_back(static_cast<std::int64_t>(stream.integer(4)));
    result.domains.push_back(static_cast<std::int64_t>(stream.integer(3)));
    for (std::size_t i = 0; i < kWidth; ++i)
      result.values.push_back(static_cast<float>(
          class_strength * of_class[static_cast<std::size_t>(result.classes.back())][i] +
          domain_strength * of_domain[static_cast<std::size_t>(result.domains.back())][i] + stream.normal()));
  }
  return result;
}

TEST(LeakIndex, EqualsTheMeanOverPairsSeenOneByOne) {
  const auto rows = made(1, 1, 1, 60);
  const auto leak = leak_index({.values = rows.values, .width = 12, .classes = rows.classes, .domains = rows.domains});
  double same = 0, same_pairs = 0, different = 0, different_pairs = 0;
  const auto cosine = [&](std::size_t a, std::size_t b) {
    double ab = 0, aa = 0, bb = 0;
    for (std::size_t i = 0; i < 12; ++i) {
      const double x = rows.values[a * 12 + i], y = rows.values[b * 12 + i];
      ab += x * y, aa += x * x, bb += y * y;
    }
    return ab / std::sqrt(aa * bb);
  };
  for (std::size_t a = 0; a < 60; ++a)
    for (std::size_t b = 0; b < a; ++b) {
      if (rows.domains[a] == rows.domains[b]) continue;
      const bool one = rows.classes[a] == rows.classes[b];
      (one ? same : different) += cosine(a, b);
      (one ? same_pairs : different_pairs) += 1;
    }
  EXPECT_NEAR(leak.same_class, same / same_pairs, 1e-9);
  EXPECT_NEAR(leak.different_class, different / different_pairs, 1e-9);
  EXPECT_NEAR(leak.index, leak.same_class - leak.different_class, 1e-12);
  EXPECT_GT(leak.index, 0.1);
  const auto clean = made(0, 1, 2);
  EXPECT_LT(
      std::abs(
          leak_index({.values = clean.values, .width = 12, .classes = clean.classes, .domains = clean.domains}).index),
      0.02);
}

TEST(LinearProbe, FindsWhatIsThereAndOnlyThat) {
  const auto fit = made(2, 0, 1), test = made(2, 0, 2);
  const auto classes = linear_probe(fit.values, fit.classes, test.values, test.classes, 12);
  EXPECT_GT(classes.accuracy, 0.95);
  EXPECT_EQ(classes.labels, 4);
  EXPECT_NEAR(classes.chance, 0.25, 0.06);
  const auto domains = linear_probe(fit.values, fit.domains, test.values, test.domains, 12);
  EXPECT_NEAR(domains.accuracy, domains.chance, 0.08) << "nothing to find: chance";
  // Labels need not be dense, and a label that the fit never saw counts as wrong.
  std::vector<std::int64_t> sparse = fit.classes, unseen(test.classes.size(), 77);
  for (auto& label : sparse) label = 1000 * label - 5;
  EXPECT_EQ(linear_probe(fit.values, sparse, test.values, unseen, 12).accuracy, 0);
}

TEST(LinearProbe, ReachesTheOptimumOfItsLoss) {
  // At the optimum more iterations change nothing that can be seen.
  const auto fit = made(0.7, 0.5, 3), test = made(0.7, 0.5, 4);
  const double once = linear_probe(fit.values, fit.classes, test.values, test.classes, 12).accuracy;
  const double longer =
      linear_probe(fit.values, fit.classes, test.values, test.classes, 12, {.iterations = 3000}).accuracy;
  EXPECT_NEAR(once, longer, 0.005);
}

TEST(LinearProbe, RefusesWhatCannotBeFitted) {
  const std::vector<float> values{1, 2, 3, 4};
  const std::vector<std::int64_t> one{5, 5}, two{1, 2};
  EXPECT_THROW(linear_probe(values, one, values, two, 2), std::invalid_argument);
  EXPECT_THROW(linear_probe(values, two, values, two, 3), std::invalid_argument);
}

TEST(LinearProbe, RefusesNumbersThatAreNone) {
  const std::vector<float> values{1, 2, 3, 4}, broken{1, 2, NAN, 4};
  const std::vector<std::int64_t> two{1, 2};
  const auto message = [&](const std::vector<float>& fit, const std::vector<float>& test) -> std::string {
    try {
      linear_probe(fit, two, test, two, 2);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "(no error)";
  };
  EXPECT_EQ(message(values, values), "(no error)");
  EXPECT_EQ(message(broken, values), "[linear_probe] the fitted rows must be finite, got nan in row 1");
  EXPECT_EQ(message(values, broken), "[linear_probe] the tested rows must be finite, got nan in row 1");
}

}  // namespace
}  // namespace camber::eval
