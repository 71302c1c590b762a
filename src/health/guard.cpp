#include "camber/health/guard.h"

#include <cmath>

#include <fmt/format.h>

namespace camber::health {

std::string content_of(double number) {
  return std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity";
}

StepGuard::Verdict StepGuard::check(std::int64_t step, double loss, const std::optional<BrokenTensor>& broken) {
  if (std::isfinite(loss) && !broken) {
    in_a_row_ = 0;
    return {};
  }
  ++skipped_;
  ++in_a_row_;
  const std::string what = broken ? fmt::format("{} holds {}", broken->name, broken->content)
                                  : fmt::format("the loss is {}", content_of(loss));
  if (in_a_row_ == 1) first_ = fmt::format("{} at step {}", what, step);
  Verdict verdict{.skip = true, .stop = in_a_row_ >= options_.stop_after};
  Finding finding{.step = step,
                  .severity = Severity::kAlarm,
                  .rule = verdict.stop ? "stopped" : "step_skipped",
                  .subject = broken ? broken->name : "loss",
                  .value = static_cast<double>(in_a_row_)};
  if (verdict.stop)
    finding.sentence = fmt::format(
        "{} steps in a row had a loss or gradient that is not finite (first {}; now {}): the run stops, the weights "
        "are "
        "those of the last finite step. Lower the learning rate or the gradient clip, or look at the data of these "
        "steps.",
        in_a_row_, first_, what);
  else
    finding.sentence = fmt::format(
        "Step {} was skipped because {}; the weights did not change ({} skipped so far, the run stops after {} in a "
        "row).",
        step, what, skipped_, options_.stop_after);
  verdict.finding = finding;
  return verdict;
}

void StepGuard::restore(std::int64_t skipped, std::int64_t in_a_row) {
  skipped_ = skipped;
  in_a_row_ = in_a_row;
}

}  // namespace camber::health
