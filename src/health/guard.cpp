#include "camber/health/guard.h"

#include <fmt/format.h>

namespace camber::health {

Finding skipped_step(const SkippedStep& step) {
  const bool stops = step.in_a_row >= step.stop_after;
  Finding finding{.step = step.step,
                  .severity = Severity::kAlarm,
                  .rule = stops ? "stopped" : "step_skipped",
                  .subject = "step",
                  .figure = static_cast<double>(step.skipped)};
  if (stops)
    finding.sentence = fmt::format(
        "The run stopped at step {}: {} steps in a row were not finite, at last because {}. The weights are those of "
        "the "
        "last finite step; resume with a lower learning rate or gradient clip, or look at the data of these steps.",
        step.step, step.in_a_row, step.broken);
  else
    finding.sentence = fmt::format(
        "Step {} was skipped because {}; the weights did not change ({} skipped so far, the run stops after {} in a "
        "row).",
        step.step, step.broken, step.skipped, step.stop_after);
  return finding;
}

}  // namespace camber::health
