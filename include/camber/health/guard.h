#pragma once
#include <cstdint>
#include <string_view>

#include "camber/health/finding.h"

namespace camber::health {

/// A step that was kept away from the weights because its loss or gradient was not finite.
struct SkippedStep {
  std::int64_t step = 0;
  std::string_view broken{};    ///< the first tensor that broke: "loss term 'focal' is nan"
  std::int64_t skipped = 0;     ///< in the whole run, this one included
  std::int64_t in_a_row = 0;    ///< up to and with this one
  std::int64_t stop_after = 0;  ///< in a row before a run stops
};

/// What to say about it: rule step_skipped, or stopped when the run ends here.
///
///   sink.say(skipped_step({.step = 12, .broken = report.broken, .skipped = 1, .in_a_row = 1, .stop_after = 10}));
Finding skipped_step(const SkippedStep& step);

}  // namespace camber::health
