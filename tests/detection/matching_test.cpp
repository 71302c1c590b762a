#include "camber/detection/matching.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "camber/random/stream.h"
#include "support/comparison.h"

namespace camber::detection {
namespace {

using camber::proof::close;

std::vector<double> random_costs(random::Stream& stream, std::int64_t count) {
  std::vector<double> cost(static_cast<std::size_t>(count));
  for (double& value : cost) value = stream.uniform(-3, 3);
  return cost;
}

double cost_of(const std::vector<double>& cost, const std::vector<std::int64_t>& column_of, std::int64_t columns) {
  double sum = 0;
  for (std::size_t row = 0; row < column_of.size(); ++row)
    if (column_of[row] >= 0)
      sum += cost[row * static_cast<std::size_t>(columns) + static_cast<std::size_t>(column_of[row])];
  return sum;
}

// Tries every order of the longer side.
double least_by_trying(const std::vector<double>& cost, std::int64_t rows, std::int64_t columns) {
  const std::int64_t shorter = std::min(rows, columns), longer = std::max(rows, columns);
  std::vector<std::int64_t> order(static_cast<std::size_t>(longer));
  std::iota(order.begin(), order.end(), 0);
  double best = std::numeric_limits<double>::infinity();
  do {
    double sum = 0;
    for (std::int64_t i = 0; i < shorter; ++i) {
      const std::int64_t j = order[static_cast<std::size_t>(i)];
      sum += rows <= columns ? cost[static_cast<std::size_t>(i * columns + j)]
                             : cost[static_cast<std::size_t>(j * columns + i)];
    }
    best = std::min(best, sum);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

TEST(Assignment, CostsNoMoreThanAnyOther) {
  random::Stream stream(1, "assignment");
  for (int trial = 0; trial < 400; ++trial) {
    const auto rows = static_cast<std::int64_t>(1 + stream.integer(6)),
               columns = static_cast<std::int64_t>(1 + stream.integer(6));
    const auto cost = random_costs(stream, rows * columns);
    const auto column_of = least_cost_assignment(cost, rows, columns);
    EXPECT_EQ(std::count_if(column_of.begin(), column_of.end(), [](std::int64_t c) { return c >= 0; }),
              std::min(rows, columns));
    EXPECT_NEAR(cost_of(cost, column_of, columns), least_by_trying(cost, rows, columns), 1e-12);
  }
}

TEST(Assignment, GivesEachColumnOnceAndTakesTies) {
  const std::vector<double> equal(std::size_t{5} * 3, 1.0);
  auto column_of = least_cost_assignment(equal, 5, 3);
  std::sort(column_of.begin(), column_of.end());
  EXPECT_EQ(column_of, (std::vector<std::int64_t>{-1, -1, 0, 1, 2}));
}

TEST(Assignment, TakesEmptyMatrices) {
  EXPECT_TRUE(least_cost_assignment({}, 0, 4).empty());
  EXPECT_EQ(least_cost_assignment({}, 3, 0), (std::vector<std::int64_t>{-1, -1, -1}));
  EXPECT_THROW(least_cost_assignment({}, 3, 2), std::exception);
}

TEST(Assignment, AvoidsCostsThatAreNoNumbers) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(least_cost_assignment(std::vector<double>{nan, 5, 1, infinity}, 2, 2), (std::vector<std::int64_t>{1, 0}));
  const auto all = least_cost_assignment(std::vector<double>{nan, nan, nan, nan}, 2, 2);
  EXPECT_NE(all[0], all[1]);
  EXPECT_GE(std::min(all[0], all[1]), 0);
  EXPECT_EQ(least_cost_assignment(std::vector<double>{-infinity, 5, 1, 7}, 2, 2), (std::vector<std::int64_t>{1, 0}));
}

TEST(Assignment, TakesCostsNearTheEndOfTheRange) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), most = std::numeric_limits<double>::max();
  EXPECT_EQ(least_cost_assignment(std::vector<double>{most, nan, 1, nan}, 2, 2), (std::vector<std::int64_t>{1, 0}));
  const auto column_of =
      least_cost_assignment(std::vector<double>{most, -most, nan, -most, most, nan, nan, nan, nan}, 3, 3);
  EXPECT_EQ(column_of, (std::vector<std::int64_t>{1, 0, 2}));
}

TEST(Assignment, SolvesNineHundredByAHundredWithinFiveMilliseconds) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer looks at every access to memory, which takes forty milliseconds";
#endif
  random::Stream stream(2, "assignment.speed");
  const auto cost = random_costs(stream, std::int64_t{900} * 100);
  double best = 1;
  for (int run = 0; run < 20; ++run) {
    const auto start = std::chrono::steady_clock::now();
    least_cost_assignment(cost, 900, 100);
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  EXPECT_LT(best, 5e-3);
}

TEST(MatchingCost, IsTheFormulaAsWritten) {
  torch::manual_seed(1);
  const auto logits = torch::randn({5, 3}), codes = torch::randn({5, 10}), wanted = torch::randn({2, 10});
  const auto labels = torch::tensor({2, 0});
  const LossOptions options;
  const auto cost = matching_cost(logits, codes, labels, wanted, options);
  for (std::int64_t q = 0; q < 5; ++q)
    for (std::int64_t g = 0; g < 2; ++g) {
      const double p = 1 / (1 + std::exp(-logits[q][labels[g].item<std::int64_t>()].item<double>()));
      double expected = 2 * (-std::log(p + 1e-12) * 0.25 * (1 - p) * (1 - p) + std::log(1 - p + 1e-12) * 0.75 * p * p);
      for (std::int64_t i = 0; i < 8; ++i)
        expected += 0.25 * options.code_weights[static_cast<std::size_t>(i)] *
                    std::abs(codes[q][i].item<double>() - wanted[g][i].item<double>());
      EXPECT_NEAR(cost[q][g].item<double>(), expected, 1e-9);
    }
}

TEST(Match, EndsWhateverBroke) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  torch::manual_seed(2);
  const auto labels = torch::arange(20) % 3;
  for (int which = 0; which < 5; ++which) {
    auto logits = torch::randn({60, 3}), codes = torch::randn({60, 10}), wanted = torch::randn({20, 10});
    if (which == 0) logits.fill_(nan);
    if (which == 1) codes[7].fill_(nan);
    if (which == 2) wanted[4].fill_(nan);
    if (which == 3) wanted.fill_(nan);
    if (which == 4) codes.fill_(std::numeric_limits<float>::infinity());
    const auto object = match(logits, codes, labels, wanted, {});
    const auto given = std::get<0>(object.masked_select(object >= 0).sort());
    EXPECT_TRUE(torch::equal(given, torch::arange(20))) << which;  // each object has one query
    if (which == 1) {
      EXPECT_EQ(object[7].item<std::int64_t>(), -1);
    }
  }
}

TEST(Match, GivesEachObjectItsBestQueryAndNobodyWithoutObjects) {
  auto codes = torch::zeros({4, 10});
  codes[2][0] = 7;
  auto wanted = torch::zeros({1, 10});
  wanted[0][0] = 7.1;
  const auto logits = torch::full({4, 2}, -3.0);
  EXPECT_TRUE(torch::equal(match(logits, codes, torch::tensor({1}), wanted, {}), torch::tensor({-1, -1, 0, -1})));
  EXPECT_TRUE(torch::equal(match(logits, codes, torch::empty({0}, torch::kLong), torch::empty({0, 10}), {}),
                           torch::full({4}, -1, torch::kLong)));
}

}  // namespace
}  // namespace camber::detection
