#include "camber/study/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <stdexcept>

#include <boost/math/distributions/non_central_t.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <boost/math/tools/roots.hpp>
#include <fmt/format.h>

namespace camber::study {
namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t kMostPairs = 100000;

// P(T > t) with so many degrees of freedom.
double upper_tail(double t, double freedom) {
  if (std::isinf(t)) return t > 0 ? 0 : 1;
  return boost::math::cdf(boost::math::complement(boost::math::students_t(freedom), t));
}

double t_quantile(double probability, double freedom) {
  return boost::math::quantile(boost::math::students_t(freedom), probability);
}

// mean / error where an error of 0 leaves only the sign.
double ratio(double mean, double error) {
  if (error > 0) return mean / error;
  return mean == 0 ? 0 : std::copysign(kInfinity, mean);
}

double power_at(double noncentrality, double freedom, double alpha) {
  const double critical = t_quantile(1 - alpha / 2, freedom);
  if (noncentrality == 0) return alpha;
  const boost::math::non_central_t shifted(freedom, noncentrality);
  return boost::math::cdf(boost::math::complement(shifted, critical)) + boost::math::cdf(shifted, -critical);
}

void check(double alpha, double wanted_power) {
  if (!(alpha > 0 && alpha < 1) || !(wanted_power > alpha && wanted_power < 1))
    throw std::invalid_argument(
        fmt::format("[statistics] alpha must lie between 0 and 1 and the power between alpha and 1, got {} and {}",
                    alpha, wanted_power));
}

}  // namespace

MeanAndDeviation mean_and_deviation(std::span<const double> values) {
  MeanAndDeviation result{.count = std::ssize(values), .mean = kUndefined, .deviation = kUndefined};
  const auto count = static_cast<double>(values.size());
  if (values.empty()) return result;
  result.mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  if (values.size() < 2) return result;
  double squares = 0;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  result.deviation = std::sqrt(squares / (count - 1));
  return result;
}

PairedDifference paired_difference(std::span<const double> a, std::span<const double> b, double confidence) {
  if (a.size() != b.size() || a.empty())
    throw std::invalid_argument(
        fmt::format("[statistics] a and b must be pairs, one at least, got {} and {} numbers", a.size(), b.size()));
  if (!(confidence > 0 && confidence < 1))
    throw std::invalid_argument(fmt::format("[statistics] confidence must lie between 0 and 1, got {}", confidence));
  std::vector<double> differences;
  differences.reserve(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) differences.push_back(a[i] - b[i]);
  const MeanAndDeviation moments = mean_and_deviation(differences);
  PairedDifference result{.pairs = moments.count, .mean = moments.mean, .deviation = moments.deviation};
  if (result.pairs < 2) {
    result.standard_error = result.low = result.high = result.t = result.p = kUndefined;
    return result;
  }
  const auto freedom = static_cast<double>(result.pairs - 1);
  result.standard_error = result.deviation / std::sqrt(static_cast<double>(result.pairs));
  result.t = ratio(result.mean, result.standard_error);
  result.p = std::min(1.0, 2 * upper_tail(std::abs(result.t), freedom));
  const double half = t_quantile((1 + confidence) / 2, freedom) * result.standard_error;
  result.low = result.mean - half;
  result.high = result.mean + half;
  return result;
}

std::vector<double> holm(std::span<const double> p) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&p](std::size_t i, std::size_t j) { return p[i] < p[j]; });
  std::vector<double> adjusted(p.size());
  double largest = 0;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const double value = std::min(1.0, static_cast<double>(p.size() - rank) * p[order[rank]]);
    largest = std::max(largest, value);
    adjusted[order[rank]] = largest;
  }
  return adjusted;
}

double equivalence_p(const PairedDifference& difference, double margin) {
  if (!(margin > 0)) throw std::invalid_argument(fmt::format("[statistics] margin must be above 0, got {}", margin));
  if (difference.pairs < 2) return kUndefined;
  const auto freedom = static_cast<double>(difference.pairs - 1);
  const double above_low = upper_tail(ratio(difference.mean + margin, difference.standard_error), freedom);
  const double below_high = upper_tail(-ratio(difference.mean - margin, difference.standard_error), freedom);
  return std::max(above_low, below_high);
}

double noninferiority_p(const PairedDifference& difference, double margin) {
  if (!(margin > 0)) throw std::invalid_argument(fmt::format("[statistics] margin must be above 0, got {}", margin));
  if (difference.pairs < 2) return kUndefined;
  return upper_tail(ratio(difference.mean + margin, difference.standard_error),
                    static_cast<double>(difference.pairs - 1));
}

double power(double effect, double deviation, std::int64_t pairs, double alpha) {
  if (pairs < 2 || !(deviation > 0))
    throw std::invalid_argument(fmt::format(
        "[statistics] power needs two pairs or more and a deviation above 0, got {} and {}", pairs, deviation));
  return power_at(std::abs(effect) / deviation * std::sqrt(static_cast<double>(pairs)), static_cast<double>(pairs - 1),
                  alpha);
}

double detectable_effect(double deviation, std::int64_t pairs, double alpha, double wanted_power) {
  check(alpha, wanted_power);
  if (pairs < 2) return kUndefined;
  if (!(deviation > 0)) return 0;
  const auto freedom = static_cast<double>(pairs - 1);
  const auto short_of = [&](double noncentrality) { return power_at(noncentrality, freedom, alpha) - wanted_power; };
  double high = 1;
  while (short_of(high) < 0) high *= 2;
  std::uintmax_t rounds = 200;
  const auto [low, top] =
      boost::math::tools::toms748_solve(short_of, 0.0, high, boost::math::tools::eps_tolerance<double>(48), rounds);
  return (low + top) / 2 * deviation / std::sqrt(static_cast<double>(pairs));
}

std::int64_t pairs_needed(double effect, double deviation, double alpha, double wanted_power) {
  check(alpha, wanted_power);
  if (effect == 0) throw std::invalid_argument("[statistics] effect must not be 0: no number of pairs would see it");
  if (!(deviation > 0)) return 2;
  const auto enough = [&](std::int64_t pairs) { return power(effect, deviation, pairs, alpha) >= wanted_power; };
  std::int64_t high = 2;
  while (high < kMostPairs && !enough(high)) high = std::min(2 * high, kMostPairs);
  std::int64_t low = high / 2;  // not enough, or 1
  while (high - low > 1) {
    const std::int64_t middle = (low + high) / 2;
    (enough(middle) ? high : low) = middle;
  }
  return high;
}

namespace {

std::string within_points(double margin) {
  const double points = 100 * margin;
  return fmt::format("within {:g} point{}", points, points == 1 ? "" : "s");
}

Conclusion without_verdict(const PairedDifference& difference, double corrected_p, double margin, double alpha) {
  Conclusion result{.corrected_p = corrected_p, .equivalence_p = equivalence_p(difference, margin)};
  result.detectable = detectable_effect(difference.deviation, difference.pairs, alpha);
  if (difference.pairs >= 2) result.needed = pairs_needed(margin, difference.deviation, alpha);
  return result;
}

}  // namespace

Conclusion conclude_not_inferior(const PairedDifference& difference, double corrected_p, double margin, double alpha) {
  Conclusion result = without_verdict(difference, corrected_p, margin, alpha);
  const std::string within = within_points(margin);
  if (corrected_p < alpha) {
    result.verdict = Verdict::kNotInferior;
    result.words = "not inferior " + within;
  } else {
    result.words = difference.pairs < 2 ? std::string("unresolved: one seed")
                                        : fmt::format("unresolved: inferiority {} is not ruled out", within);
  }
  return result;
}

Conclusion conclude(const PairedDifference& difference, double corrected_p, double margin, double alpha) {
  Conclusion result = without_verdict(difference, corrected_p, margin, alpha);
  const std::string within = within_points(margin);
  if (corrected_p < alpha) {
    result.verdict = difference.mean > 0 ? Verdict::kBetter : Verdict::kWorse;
    result.words = result.verdict == Verdict::kBetter ? "better" : "worse";
    if (result.equivalence_p < alpha) result.words += ", but " + within;
  } else if (result.equivalence_p < alpha) {
    result.verdict = Verdict::kEquivalent;
    result.words = "equivalent " + within;
  } else {
    result.words = difference.pairs < 2
                       ? std::string("unresolved: one seed")
                       : fmt::format("unresolved: {:.1f} points could have been seen; {:g} would need {} seeds",
                                     100 * result.detectable, 100 * margin, result.needed);
  }
  return result;
}

}  // namespace camber::study
