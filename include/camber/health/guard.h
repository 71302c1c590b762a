#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "camber/config/field.h"
#include "camber/health/finding.h"

namespace camber::health {

struct GuardOptions {
  std::int64_t stop_after = 5;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("stop_after", stop_after, "steps in a row with a loss or gradient that is not finite before a run stops",
            config::Range{.min = 1});
  }
};

/// The first tensor of a step that broke, in the order: inputs, losses, gradients by parameter name.
struct BrokenTensor {
  std::string name{};     ///< "loss/heatmap", "gradient of decoder.layers.2.cross_attention.in_proj.weight"
  std::string content{};  ///< "NaN", "Infinity", "-Infinity"
};
/// The content of a single number that broke.
std::string content_of(double number);

/// Keeps a step with a loss or gradient that is not finite away from the weights.
///
///   if (StepGuard::Verdict verdict = guard.check(step, loss, broken); verdict.skip) {
///     optimizer.zero_grad();
///     sink.say(*verdict.finding);
///     if (verdict.stop) throw std::runtime_error(verdict.finding->sentence);   // the last good checkpoint stays
///   }
class StepGuard {
 public:
  struct Verdict {
    bool skip = false;
    bool stop = false;
    std::optional<Finding> finding{};
  };

  explicit StepGuard(GuardOptions options = {}) : options_(options) {}

  /// `broken`: the first tensor that is not finite, when there is one; a loss that is not finite counts by itself.
  Verdict check(std::int64_t step, double loss, const std::optional<BrokenTensor>& broken);

  /// Skipped in the whole run, for the record "guard/skipped_steps".
  std::int64_t skipped() const { return skipped_; }
  std::int64_t in_a_row() const { return in_a_row_; }
  /// For a resumed run.
  void restore(std::int64_t skipped, std::int64_t in_a_row);

 private:
  GuardOptions options_;
  std::int64_t skipped_ = 0;
  std::int64_t in_a_row_ = 0;
  std::string first_;  // what broke first in the present row of broken steps
};

}  // namespace camber::health
