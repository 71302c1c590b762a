#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace camber::health {

enum class Severity { kNote, kWarning, kAlarm };

/// "note", "warning", "alarm".
std::string_view name(Severity severity);
/// The inverse; throws std::invalid_argument for another word.
Severity severity_from(std::string_view word);

/// What a rule says: one sentence with the metric, the likely cause and what to do.
struct Finding {
  std::int64_t step = 0;
  Severity severity = Severity::kWarning;
  std::string rule{};     ///< "above_warn_threshold"; the rules stand in rules.h
  std::string subject{};  ///< what it is about: a scale, a layer, a sensor
  double value = 0;       ///< the number that made the rule speak
  std::string sentence{};

  friend bool operator==(const Finding&, const Finding&) = default;
};

using Findings = std::vector<Finding>;

/// Worst first: by severity, then the latest; of one rule and subject only the last is kept.
Findings worst_first(const Findings& findings);

}  // namespace camber::health
