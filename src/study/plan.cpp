#include "camber/study/plan.h"

#include <algorithm>
#include <set>
#include <stdexcept>

#include <fmt/format.h>

#include "camber/config/names.h"

namespace camber::study {
namespace {

[[noreturn]] void refuse(const std::string& sentence) {
  throw std::invalid_argument("[study] " + sentence);
}

void check_known(const char* field, const std::string& name, const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), name) != known.end()) return;
  refuse(fmt::format("{} must be {}, got '{}' (did you mean '{}'?)", field, config::join_names(known), name,
                     config::nearest_name(name, known)));
}

bool is_plain_name(const std::string& name) {
  return !name.empty() && std::all_of(
                              name.begin(), name.end(),
                              [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; });
}

std::vector<std::string> names_of(const std::vector<StudyArm>& arms) {
  std::vector<std::string> names;
  names.reserve(arms.size());
  for (const StudyArm& arm : arms) names.push_back(arm.name);
  return names;
}

}  // namespace

void StudyPlan::validate() const {
  if (arms.empty()) return;  // no study yet
  const std::vector<std::string> names = names_of(arms);
  std::set<std::string> seen;
  for (const StudyArm& arm : arms) {
    if (!is_plain_name(arm.name) || arm.name == "base" || arm.name == "doubled")
      refuse(fmt::format("an arm's name must be small letters, digits and _, and not base or doubled, got '{}'",
                         arm.name));
    if (!seen.insert(arm.name).second) refuse(fmt::format("arms must have different names, got '{}' twice", arm.name));
    if (!arm.against.empty()) check_known("against", arm.against, names);
    if (arm.against == arm.name) refuse(fmt::format("against must name another arm, got '{}' for itself", arm.name));
  }
  check_known("reference", reference, names);
  check_known("primary.arm", primary.arm, names);
  check_known("primary.against", primary.against, names);
  if (!gates.oracle_arm.empty()) check_known("gates.oracle_arm", gates.oracle_arm, names);
  if (conditions.empty() || conditions.front() != "clean")
    refuse(fmt::format("conditions must begin with clean, got '{}'", conditions.empty() ? "" : conditions.front()));
  if (primary.conditions.empty()) refuse("primary.conditions must not be empty");
  for (const std::string& name : primary.conditions) check_known("primary.conditions", name, conditions);
  for (const std::string& name : control_conditions) check_known("control_conditions", name, conditions);
  for (const std::string& name : swapped_cues) check_known("swapped_cues", name, conditions);
  for (const std::string& name : controls) check_known("controls", name, {"zero", "mean", "shuffled", "oracle"});
}

const StudyArm& StudyPlan::arm(std::string_view name) const {
  const auto found = std::find_if(arms.begin(), arms.end(), [name](const StudyArm& arm) { return arm.name == name; });
  if (found == arms.end()) check_known("an arm", std::string(name), names_of(arms));
  return *found;
}

std::string StudyPlan::opponent_of(const StudyArm& arm) const {
  if (!arm.against.empty() || arm.from_scratch || arm.name == reference) return arm.against;
  return reference;
}

}  // namespace camber::study
