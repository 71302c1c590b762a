#include "camber/study/plan.h"

#include <algorithm>
#include <set>
#include <stdexcept>

#include <fmt/format.h>

#include "camber/config/names.h"
#include "camber/storage/one_line.h"
#include "camber/study/fewshot_plan.h"

namespace camber::study {
namespace {

[[noreturn]] void refuse(const std::string& sentence) {
  throw std::invalid_argument("[study] " + storage::one_line(sentence));
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

template <class Named>
std::vector<std::string> names_of(const std::vector<Named>& all) {
  std::vector<std::string> names;
  names.reserve(all.size());
  for (const Named& one : all) names.push_back(one.name);
  return names;
}

void check_plain_and_different(const char* what, const std::vector<std::string>& names) {
  std::set<std::string> seen;
  for (const std::string& name : names) {
    if (!is_plain_name(name))
      refuse(fmt::format("the name of {} must be small letters, digits and _, got '{}'", what, name));
    if (!seen.insert(name).second) refuse(fmt::format("names must be different, got '{}' twice for {}", name, what));
  }
}

void check_sharing(const StudyPlan& plan, const StudyArm& arm) {
  check_known("shares", arm.shares, names_of(plan.arms));
  const StudyArm& owner = plan.arm(arm.shares);
  if (!owner.shares.empty() || owner.name == arm.name)
    refuse(fmt::format("shares must name an arm with a model of its own, got '{}' for '{}'", arm.shares, arm.name));
  if (!arm.options.empty() || arm.from_scratch || arm.exempt)
    refuse(fmt::format("an arm that shares a model must have no options of its own, got some for '{}'", arm.name));
  if (plan.seeds_of(arm) > plan.seeds_of(owner))
    refuse(fmt::format("an arm must have no more seeds than the one whose model it shares, got '{}'", arm.name));
}

void check_policy_name(const StudyArm& arm) {
  if (arm.policy.empty()) return;
  check_known("policy", arm.policy, {"none", "rule", "verified_rule", "bias", "verified_bias"});
}

// The cells that a stream takes its frames from must be measured.
void check_streams(const StudyPlan& plan) {
  std::set<std::string> seen(plan.conditions.begin(), plan.conditions.end());
  for (const StudyStream& stream : plan.streams) {
    if (stream.name.empty() || stream.name == "outcome" || !seen.insert(stream.name).second)
      refuse(fmt::format("the name of a stream must be its own, no condition and not outcome, got '{}'", stream.name));
    if (stream.faults.empty()) refuse(fmt::format("the stream '{}' must have faults, got none", stream.name));
    for (const std::string& fault : stream.faults) check_known("faults of a stream", fault, plan.swapped_cues);
    if (stream.wrong_culprit > 0 && !plan.wrong_culprits)
      refuse(fmt::format("wrong_culprits must be true for the stream '{}', got false", stream.name));
  }
}

}  // namespace

void StudyPlan::validate() const {
  if (arms.empty()) return;  // no study yet
  const std::vector<std::string> names = names_of(arms);
  check_plain_and_different("an arm", names);
  for (const StudyArm& arm : arms) {
    if (arm.name == "base" || arm.name == "doubled")
      refuse(fmt::format("the name of an arm must be its own, not base or doubled, got '{}'", arm.name));
    if (!arm.against.empty()) check_known("against", arm.against, names);
    if (!arm.shares.empty()) check_sharing(*this, arm);
    check_policy_name(arm);
    if (arm.against == arm.name) refuse(fmt::format("against must name another arm, got '{}' for itself", arm.name));
  }
  check_known("reference", reference, names);
  check_known("primary.arm", primary.arm, names);
  check_known("primary.against", primary.against, names);
  if (!gates.oracle_arm.empty()) check_known("gates.oracle_arm", gates.oracle_arm, names);
  if (conditions.empty() || conditions.front() != "clean")
    refuse(fmt::format("conditions must begin with clean, got '{}'", conditions.empty() ? "" : conditions.front()));
  if (primary.conditions.empty()) refuse("primary.conditions must not be empty");
  check_streams(*this);
  std::vector<std::string> measures = conditions;
  for (const StudyStream& stream : streams) measures.push_back(stream.name);
  for (const std::string& name : primary.conditions) check_known("primary.conditions", name, measures);
  measures.emplace_back("outcome");
  for (const StudyComparison& one : comparisons) {
    check_known("comparisons.arm", one.arm, names);
    check_known("comparisons.against", one.against, names);
    check_known("comparisons.measure", one.measure, measures);
  }
  for (const std::string& name : control_conditions) check_known("control_conditions", name, conditions);
  for (const std::string& name : swapped_cues) check_known("swapped_cues", name, conditions);
  for (const std::string& name : controls) check_known("controls", name, {"zero", "mean", "shuffled", "oracle"});
}

std::vector<const StudyArm*> StudyPlan::sharing(const std::string& arm) const {
  std::vector<const StudyArm*> all;
  for (const StudyArm& other : arms)
    if (other.shares == arm) all.push_back(&other);
  return all;
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

bool StudyPlan::compares(const std::string& arm, const std::string& against, const std::string& measure) const {
  return std::any_of(
      comparisons.begin(), comparisons.end(),
      [&](const StudyComparison& one) { return one.arm == arm && one.against == against && one.measure == measure; });
}

void FewshotPlan::validate() const {
  if (parts.empty()) return;  // no study yet
  if (seeds.empty()) refuse("seeds must not be empty");
  if (std::set<std::int64_t>(seeds.begin(), seeds.end()).size() != seeds.size())
    refuse(fmt::format("seeds must be different, got {}", fmt::join(seeds, ", ")));
  if (tests.empty()) refuse("tests must not be empty");
  check_plain_and_different("a part", names_of(parts));
  std::vector<std::string> runs;
  for (const FewshotPart& part : parts) {
    if (part.config.empty()) refuse(fmt::format("config of the part {} must name a file", part.name));
    check_plain_and_different("an arm", names_of(part.arms));
    check_known("reference", part.reference, names_of(part.arms));
    for (const FewshotArm& arm : part.arms) runs.push_back(part.arm_name(arm));
  }
  check_plain_and_different("a part and its arm", runs);
}

}  // namespace camber::study
