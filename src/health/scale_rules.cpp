#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "health/rule_state.h"

namespace camber::health {
namespace {

std::string bounds_of(const Fields& scale) {
  return fmt::format("bounds {:g}..{:g}", field(scale, "min"), field(scale, "max"));
}

}  // namespace

// How the scale came to where it stands: the rise over the last samples, when it is large enough to be read.
std::string Rules::State::recent_course(const std::string& name) const {
  constexpr std::size_t kSamples = 10;
  const auto& values = courses_.at(name).values;
  const auto& [from_step, from] = values[values.size() - std::min(values.size(), kSamples)];
  const auto& [to_step, to] = values.back();
  const std::string before = fmt::format("{:.3g}", from), now = fmt::format("{:.3g}", to);
  if (to_step == from_step || to <= from || now == before) return "it is not rising now";
  return fmt::format("it rose from {} to {} in the last {} steps", before, now, to_step - from_step);
}

void Rules::State::check_level(const std::string& name, const Fields& scale) {
  const double value = field(scale, "value"), max = field(scale, "max"), warn = field(scale, "warn_threshold");
  if (value > warn)
    say({.severity = Severity::kWarning,
         .rule = "above_warn_threshold",
         .subject = name,
         .value = value,
         .sentence = fmt::format("Scale {} is {:.3f}, above its warn threshold {:g} ({}); {}. Watch the share of "
                                 "saturated rows: if it grows with the scale, pull the scale back (l2_weight 0.01) or "
                                 "lower its lr_mult.",
                                 name, value, warn, bounds_of(scale), recent_course(name))});
  if (value > max * (1 + 1e-6))
    say({.severity = Severity::kAlarm,
         .rule = "near_cap",
         .subject = name,
         .value = value,
         .sentence =
             fmt::format("Scale {} runs away: it is {:.3f}, beyond its max {:g}; {}. Nothing holds it: take the "
                         "constraint projected, or call the projector after every optimiser step.",
                         name, value, max, recent_course(name))});
  else if (value > options_.near_cap * max)
    say({.severity = Severity::kWarning,
         .rule = "near_cap",
         .subject = name,
         .value = value,
         .sentence = fmt::format("Scale {} is near its cap: {:.3f} of {:g}, {:.0f} % of the range left; {}. Either the "
                                 "data want a stronger bias (raise max, see camber analyze bound) or it runs away "
                                 "(lower its lr_mult).",
                                 name, value, max, 100 * std::max(0., field(scale, "headroom")), recent_course(name))});
}

void Rules::State::check_cap(const std::string& name, const Fields& scale, const Groups& groups) {
  const double value = field(scale, "value"), min = field(scale, "min"), max = field(scale, "max");
  const auto steps = held("at_cap", name, value >= max - 1e-6 * (max - min));
  if (!steps) return;
  if (groups.prototype_cosine && *groups.prototype_cosine > options_.similar_prototypes) {
    say({.severity = Severity::kAlarm,
         .rule = "similar_prototypes",
         .subject = name,
         .value = *groups.prototype_cosine,
         .sentence =
             fmt::format("Scale {} is pinned at its cap {:g} for {} steps because the prototypes are alike (mean "
                         "cosine {:.2f}): centre them (subtract their mean before normalising), do not raise the "
                         "cap.",
                         name, max, *steps, *groups.prototype_cosine)});
    return;
  }
  say({.severity = Severity::kWarning,
       .rule = "at_cap",
       .subject = name,
       .value = value,
       .sentence =
           fmt::format("Scale {} has been at its cap {:g} for {} steps: the bound decides, not the data. Raise max "
                       "if the saturated rows stay few, else find out what drives it (camber analyze bound says "
                       "what a bias of this size does).",
                       name, max, *steps)});
}

void Rules::State::check_gradient(const std::string& name, const Fields& scale, const Groups& groups) {
  const double gradient = field(scale, "gradient");
  const std::optional<double> trust = groups.mean_trust();
  const bool quiet = trust && *trust < options_.quiet_trust;
  const auto steps = held("no_gradient", name, std::abs(gradient) < options_.dead_gradient && !quiet);
  if (!steps) return;
  const double value = field(scale, "value"), min = field(scale, "min"), max = field(scale, "max");
  const double margin = 1e-3 * (max - min);
  const std::string cause =
      value >= max - margin || value <= min + margin
          ? "it stands at a bound that lets no gradient through: take the constraint projected, which returns by itself"
          : "no gradient reaches it: look for a detached tensor, a saturated softmax or a bias that is clipped "
            "everywhere";
  say({.severity = Severity::kAlarm,
       .rule = "no_gradient",
       .subject = name,
       .value = gradient,
       .sentence = fmt::format("Scale {} gets no gradient: {:.1e} at {:.3f} ({}), for {} steps; {}.", name, gradient,
                               value, bounds_of(scale), *steps, cause)});
}

void Rules::State::check_reach(const std::string& name, const Fields& scale) {
  const double low = field(scale, "reach_low"), high = field(scale, "reach_high");
  const double min = field(scale, "min"), max = field(scale, "max"), margin = 0.01 * (max - min);
  if (!(low > min + margin || high < max - margin) || said_.contains({"cannot_reach", name})) return;
  say({.severity = Severity::kNote,
       .rule = "cannot_reach",
       .subject = name,
       .value = high,
       .sentence =
           fmt::format("Scale {} can move only within {:.3g}..{:.3g} until the end of this run, its {} lie outside: "
                       "the optimiser's steps are too small or too few; raise its lr_mult if it is to use them.",
                       name, low, high, bounds_of(scale))});
}

void Rules::State::check_scale(const std::string& name, const Fields& scale, const Groups& groups) {
  if (!std::isfinite(field(scale, "value")) || field(scale, "learnable") == 0) return;
  ScaleCourse& course = courses_[name];
  course.values.emplace_back(step_, field(scale, "value"));
  course.last = scale;
  check_reach(name, scale);
  check_level(name, scale);
  check_cap(name, scale, groups);
  check_gradient(name, scale, groups);
}

std::optional<Finding> Rules::State::converged(const std::string& name, const ScaleCourse& course,
                                               const RuleOptions& options) {
  constexpr std::size_t kFewest = 8;
  const double min = field(course.last, "min"), max = field(course.last, "max");
  const bool ordinary = field(course.last, "log_space") != 1 && min >= 0.5 && max <= 5;
  const std::size_t late = course.values.size() / 4;
  if (!ordinary || late < kFewest) return std::nullopt;
  double low = course.values.back().second, high = low, mean = 0;
  for (std::size_t index = course.values.size() - late; index < course.values.size(); ++index) {
    low = std::min(low, course.values[index].second);
    high = std::max(high, course.values[index].second);
    mean += course.values[index].second / static_cast<double>(late);
  }
  const double init = field(course.last, "init"), first = std::isnan(init) ? course.values.front().second : init;
  const double moved = std::abs(mean - first), spread = high - low;
  if (moved < 3 * spread || moved < 0.01 * (max - min)) return std::nullopt;
  Finding finding{.step = course.values.back().first, .severity = Severity::kNote, .subject = name, .value = mean};
  const std::string facts =
      fmt::format("Scale {} settled at {:.2f} (from {:.2f}, late spread {:.2f})", name, mean, first, spread);
  if (mean > options.converged_high) {
    finding.rule = "converged_high";
    finding.sentence = facts + ": the data want a stronger bias; raise max and train again.";
  } else if (mean < options.converged_low) {
    finding.rule = "converged_low";
    finding.sentence =
        facts + ": the router's weights carry little; look at its trust per sensor before blaming the scale.";
  } else {
    return std::nullopt;
  }
  return finding;
}

}  // namespace camber::health
