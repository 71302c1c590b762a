#include "camber/health/finding.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "camber/json/values.h"

namespace camber::health {

std::string_view name(Severity severity) {
  switch (severity) {
    case Severity::kNote:
      return "note";
    case Severity::kWarning:
      return "warning";
    case Severity::kAlarm:
      break;
  }
  return "alarm";
}

Severity severity_from(std::string_view word) {
  for (const Severity severity : {Severity::kNote, Severity::kWarning, Severity::kAlarm})
    if (name(severity) == word) return severity;
  throw std::invalid_argument(
      fmt::format("[health] severity must be note, warning or alarm, got '{}'", json::shown_text(word)));
}

Findings worst_first(const Findings& findings) {
  std::map<std::pair<std::string, std::string>, const Finding*> last;
  for (const Finding& finding : findings) {
    const Finding*& kept = last[{finding.rule, finding.subject}];
    if (kept == nullptr || finding.step >= kept->step) kept = &finding;
  }
  Findings sorted;
  for (const auto& [key, finding] : last) sorted.push_back(*finding);
  std::stable_sort(sorted.begin(), sorted.end(), [](const Finding& a, const Finding& b) {
    return a.severity != b.severity ? a.severity > b.severity : a.step > b.step;
  });
  return sorted;
}

}  // namespace camber::health
