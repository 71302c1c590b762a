#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace camber::analysis {

struct BoundOptions {
  std::int64_t keys = 22384;  ///< N: all keys of a query, equally scored before the bias
  std::int64_t window = 64;   ///< n: those that get the bias
  double mass = 0.5;          ///< p: the share of attention that the window is to hold
  std::vector<double> biases = {0, 2.5, 5, 8};

  /// Throws std::invalid_argument when 0 < n < N or 0 < p < 1 does not hold.
  void validate() const;
};

struct MassAtBias {
  double bias = 0;
  double mass = 0;
};

struct BoundAnalysis {
  std::int64_t keys = 0;
  std::int64_t window = 0;
  double mass = 0;
  double bias = 0;       ///< what the window's logits need
  double scale_max = 0;  ///< the upper bound of a scale that reaches it with weights up to 1: the bias itself
  std::vector<MassAtBias> mass_at;
};

/// What a bias b on a set of keys can do. Keys that hold the share m of a query's attention hold afterwards
///
///   m' = m e^b / (1 - m + m e^b),    and the share moved is  m' - m  <=  tanh(b / 4),
///
/// reached where m = 1 / (1 + e^(b/2)): keys that are out of sight stay so, keys that have everything gain nothing.
///
///   mass_after(0.1, 2.5)    // 0.575...
///   most_moved(2.5)         // 0.554...
double mass_after(double mass, double bias);
/// The most that a bias moves, whatever it finds: tanh(b / 4).
double most_moved(double bias);
/// The share m that explains what was moved, the smaller of the two; NaN when no share does.
double mass_before(double moved, double bias);

/// The share of attention that n of N equal keys hold when a bias b is added to their logits: n e^b / (n e^b + N - n).
double window_mass(std::int64_t keys, std::int64_t window, double bias);

/// The bias at which the window holds the share p: ln(p / (1 - p) * (N - n) / n).
double bias_for_mass(std::int64_t keys, std::int64_t window, double mass);

/// How strong a bias must be allowed to become.
///
///   analyze_bound({.keys = 22384, .window = 64, .mass = 0.9}).bias  // 8.051580
BoundAnalysis analyze_bound(const BoundOptions& options);

std::string to_text(const BoundAnalysis& analysis);
/// One row a bias: `bias,mass`, the requested one among them.
std::string to_csv(const BoundAnalysis& analysis);
/// {"keys", "window", "mass", "bias", "scale_max", "mass_at": [{"bias", "mass"}]}
std::string to_json(const BoundAnalysis& analysis);

}  // namespace camber::analysis
