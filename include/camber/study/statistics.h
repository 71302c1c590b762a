#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

/// The arithmetic of paired comparisons over seeds. Student's t and its noncentral form are Boost.Math's.
namespace camber::study {

/// a - b over pairs: the mean d, the deviation s of the differences (n - 1), t = d / (s / sqrt n), the two-sided p of
/// t with n - 1 degrees of freedom, and the interval d -+ t_{(1 + confidence) / 2} s / sqrt n.
///
///   const PairedDifference d = paired_difference(of_arm, of_reference);
///   d.mean, d.low, d.high
///
/// One pair has a mean alone, the rest is NaN. Differences that are all the same have deviation 0, an interval of one
/// point, and p = 1 when they are 0, else 0.
struct PairedDifference {
  std::int64_t pairs = 0;
  double mean = 0, deviation = 0, standard_error = 0;
  double low = 0, high = 0;
  double t = 0, p = 1;
};
PairedDifference paired_difference(std::span<const double> a, std::span<const double> b, double confidence = 0.95);

/// Holm's step-down correction: p sorted upwards times m, m - 1, ..., kept rising and at most 1, in the order given.
std::vector<double> holm(std::span<const double> p);

/// Two one-sided t tests against -margin and +margin: the larger of the two p. Below 0.05 the difference lies inside of
/// the margin. NaN for one pair.
double equivalence_p(const PairedDifference& difference, double margin);

/// One t test against -margin: below 0.05 the first is not worse than the second by the margin. NaN for one pair.
double noninferiority_p(const PairedDifference& difference, double margin);

/// The chance that the two-sided paired t test at `alpha` sees a true difference, by the noncentral t distribution with
/// noncentrality |effect| / (deviation / sqrt pairs).
double power(double effect, double deviation, std::int64_t pairs, double alpha = 0.05);
/// The smallest true difference that is seen with this power.
double detectable_effect(double deviation, std::int64_t pairs, double alpha = 0.05, double wanted_power = 0.8);
/// The smallest number of pairs that sees the effect with this power; at most 100,000.
std::int64_t pairs_needed(double effect, double deviation, double alpha = 0.05, double wanted_power = 0.8);

enum class Verdict { kBetter, kWorse, kEquivalent, kNotInferior, kUnresolved };

/// What can be said of a difference: better or worse when the (corrected) p is below alpha, else equivalent when it
/// lies inside of the margin, else unresolved, with the effect that could have been seen and the pairs that the margin
/// needs.
struct Conclusion {
  Verdict verdict = Verdict::kUnresolved;
  double corrected_p = 1, equivalence_p = 1;
  double detectable = 0;    ///< at power 0.8
  std::int64_t needed = 0;  ///< pairs that would see a difference of the margin
  std::string words{};  ///< "better", "equivalent within 1 point", "unresolved: 0.9 points could have been seen", ...

  std::string short_words() const { return words.substr(0, words.find(':')); }  ///< without the reasons
};
/// Of a question of non-inferiority: not inferior when the (corrected) p of noninferiority_p is below alpha, else
/// unresolved.
Conclusion conclude_not_inferior(const PairedDifference& difference, double corrected_p, double margin,
                                 double alpha = 0.05);
Conclusion conclude(const PairedDifference& difference, double corrected_p, double margin, double alpha = 0.05);

/// The mean and deviation (n - 1) of numbers; NaN where there are too few.
struct MeanAndDeviation {
  std::int64_t count = 0;
  double mean = 0, deviation = 0;
};
MeanAndDeviation mean_and_deviation(std::span<const double> values);

}  // namespace camber::study
