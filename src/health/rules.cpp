#include "camber/health/rules.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include <fmt/format.h>

#include "health/rule_state.h"

namespace camber::health {
namespace {

// "scale/bias/head3/value" -> group "bias/head3", field "value".
bool take(std::map<std::string, Fields>& groups, std::string_view prefix, const Metric& metric) {
  const std::string_view name = metric.name;
  if (!name.starts_with(prefix)) return false;
  const std::size_t slash = name.rfind('/');
  if (slash < prefix.size()) return false;
  groups[std::string(name.substr(prefix.size(), slash - prefix.size()))].emplace(name.substr(slash + 1), metric.value);
  return true;
}

bool must_be_finite(std::string_view name) {
  for (const std::string_view prefix :
       {"loss", "scale/", "attention/", "trust/", "effective_bias/", "bias/", "prototypes/", "gradient"})
    if (name.starts_with(prefix)) return true;
  return false;
}

}  // namespace

double field(const Fields& fields, std::string_view name) {
  const auto found = fields.find(name);
  return found == fields.end() ? std::numeric_limits<double>::quiet_NaN() : found->second;
}

Groups::Groups(const Metrics& metrics) {
  for (const Metric& metric : metrics) {
    if (!broken && !std::isfinite(metric.value) && must_be_finite(metric.name)) broken = metric;
    if (metric.name == "prototypes/mean_cosine") prototype_cosine = metric.value;
    if (metric.name == "guard/skipped_steps") skipped_steps = metric.value;
    take(scales, "scale/", metric) || take(attention, "attention/", metric) || take(trust, "trust/", metric);
  }
}

std::optional<double> Groups::mean_trust() const {
  double sum = 0;
  for (const auto& [name, fields] : trust) sum += field(fields, "mean_abs");
  return trust.empty() ? std::nullopt : std::optional(sum / static_cast<double>(trust.size()));
}

std::optional<std::int64_t> Rules::State::held(const std::string& rule, const std::string& subject, bool condition) {
  Streak& streak = streaks_[{rule, subject}];
  if (!condition) {
    streak = {};
    return std::nullopt;
  }
  if (streak.samples++ == 0) streak.since = step_;
  return streak.samples >= options_.window ? std::optional(step_ - streak.since) : std::nullopt;
}

void Rules::State::say(Finding finding) {
  finding.step = step_;
  const auto [entry, first] = said_.try_emplace({finding.rule, finding.subject}, step_);
  if (!first && step_ - entry->second < options_.repeat_steps) return;
  entry->second = step_;
  now_.push_back(std::move(finding));
}

void Rules::State::check_attention(const std::string& name, const Fields& attention) {
  const double saturated = field(attention, "saturated");
  if (name.find("/head") != std::string::npos || std::isnan(saturated)) return;
  const auto steps = held("saturated_softmax", name, saturated > options_.saturated_rows);
  if (!steps) return;
  const double change = field(attention, "change");
  const bool by_bias = change > 0.3;
  const std::string cause =
      by_bias ? fmt::format(
                    "the bias is the cause, it moves {:.0f} % of the attention: lower the scale's max or its "
                    "learning rate",
                    100 * change)
              : std::string(
                    "the scores themselves are the cause, not the bias: lower the learning rate, or normalise "
                    "queries and keys");
  say({.severity = Severity::kAlarm,
       .rule = "saturated_softmax",
       .subject = name,
       .value = saturated,
       .sentence = fmt::format("The softmax of {} is saturated: {:.0f} % of its rows put more than 0.9 on one key and "
                               "{:.0f} % pass no gradient, for {} steps; {}.",
                               name, 100 * saturated, 100 * field(attention, "dead"), *steps, cause)});
}

void Rules::State::check_trust(const std::string& name, const Fields& trust) {
  const double mean = field(trust, "mean");
  if (!(std::abs(mean) > options_.router_saturation) || field(trust, "learned") == 0) return;
  say({.severity = Severity::kWarning,
       .rule = "router_saturated",
       .subject = name,
       .value = mean,
       .sentence =
           fmt::format("The router is saturated: its mean trust in {} is {:.3f}, where tanh hardly has a "
                       "gradient, so trust no longer tells queries apart; slow its content route (learning rate "
                       "x 0.1) or start again from before step {}.",
                       name, mean, step_)});
}

Findings Rules::State::observe(std::int64_t step, const Metrics& metrics) {
  step_ = step;
  now_.clear();
  const Groups groups(metrics);
  // What broke in a step that the guard skipped went no further: the guard has named it.
  const bool skipped = groups.skipped_steps > skipped_steps_;
  skipped_steps_ = std::max(skipped_steps_, groups.skipped_steps);
  if (groups.broken && !skipped)
    say({.severity = Severity::kAlarm,
         .rule = "not_finite",
         .subject = groups.broken->name,
         .value = groups.broken->value,
         .sentence =
             fmt::format("{} is {}: from here on nothing that depends on it can be trusted; resume from the last "
                         "checkpoint before step {} with a lower learning rate.",
                         groups.broken->name, groups.broken->value, step)});
  for (const auto& [name, scale] : groups.scales) check_scale(name, scale, groups);
  for (const auto& [name, attention] : groups.attention) check_attention(name, attention);
  for (const auto& [name, trust] : groups.trust) check_trust(name, trust);
  return std::exchange(now_, {});
}

Findings Rules::State::conclude() const {
  Findings findings;
  for (const auto& [name, course] : courses_)
    if (auto finding = converged(name, course, options_)) findings.push_back(*finding);
  return findings;
}

Rules::Rules(RuleOptions options) : state_(std::make_unique<State>(options)) {}
Rules::~Rules() = default;
Rules::Rules(Rules&&) noexcept = default;
Rules& Rules::operator=(Rules&&) noexcept = default;

Findings Rules::observe(std::int64_t step, const Metrics& metrics) {
  return state_->observe(step, metrics);
}
Findings Rules::conclude() const {
  return state_->conclude();
}

}  // namespace camber::health
