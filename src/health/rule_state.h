#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "camber/health/rules.h"

namespace camber::health {

/// The fields of one scale, layer or sensor in a record: {"value": 2.5, "max": 5}.
using Fields = std::map<std::string, double, std::less<>>;

/// NaN where the field is absent.
double field(const Fields& fields, std::string_view name);

/// A record by what it is about.
struct Groups {
  std::map<std::string, Fields> scales{};     ///< from scale/NAME/field
  std::map<std::string, Fields> attention{};  ///< from attention/NAME/field; NAME may be layer0/head3
  std::map<std::string, Fields> trust{};      ///< from trust/NAME/field
  std::optional<double> prototype_cosine{};
  double skipped_steps = 0;  ///< of the run so far; 0 where the record does not tell
  /// The first metric that must be finite and is not.
  std::optional<Metric> broken{};

  explicit Groups(const Metrics& metrics);
  /// Mean |w| over the sensors; nothing without trust.
  std::optional<double> mean_trust() const;
};

/// The course of one scale.
struct ScaleCourse {
  std::vector<std::pair<std::int64_t, double>> values{};
  Fields last{};
};

class Rules::State {
 public:
  explicit State(RuleOptions options) : options_(options) {}

  Findings observe(std::int64_t step, const Metrics& metrics);
  Findings conclude() const;

 private:
  // Rules about scales (scale_rules.cpp).
  void check_scale(const std::string& name, const Fields& scale, const Groups& groups);
  void check_level(const std::string& name, const Fields& scale);
  void check_cap(const std::string& name, const Fields& scale, const Groups& groups);
  void check_gradient(const std::string& name, const Fields& scale, const Groups& groups);
  void check_reach(const std::string& name, const Fields& scale);
  static std::optional<Finding> converged(const std::string& name, const ScaleCourse& course,
                                          const RuleOptions& options);
  std::string recent_course(const std::string& name) const;

  void check_attention(const std::string& name, const Fields& attention);
  void check_trust(const std::string& name, const Fields& trust);

  /// Steps since a condition has held without a break, once it held for a whole window of samples.
  std::optional<std::int64_t> held(const std::string& rule, const std::string& subject, bool condition);
  void say(Finding finding);

  struct Streak {
    std::int64_t samples = 0;
    std::int64_t since = 0;
  };

  RuleOptions options_;
  std::int64_t step_ = 0;
  double skipped_steps_ = 0;
  std::map<std::string, ScaleCourse> courses_;
  std::map<std::pair<std::string, std::string>, Streak> streaks_;
  std::map<std::pair<std::string, std::string>, std::int64_t> said_;
  Findings now_;
};

}  // namespace camber::health
