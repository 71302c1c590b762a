#include <charconv>
#include <cmath>
#include <stdexcept>

#include <camber/config/sentence.h>
#include <camber/nn/bounded_scale_options.h>

namespace camber::nn {
namespace {

std::string text(double value) {
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof digits, value).ptr};
}

template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  throw std::invalid_argument(config::sentence("[bounded_scale] ", parts...));
}

void check_finite(const std::string& field, double value) {
  if (!std::isfinite(value)) fail(field, " must be a finite number, got ", text(value));
}

// `owner` is empty for the options' own bounds and "bounds_schedule[i]." for those of a stage.
void check_bounds(const std::string& owner, double min, double max, bool in_log_space) {
  check_finite(owner + "min", min);
  check_finite(owner + "max", max);
  if (min >= max) fail(owner, "min must be below ", owner, "max, got ", text(min), " and ", text(max));
  if (in_log_space && min <= 0) fail(owner, "min must be above 0 in log space, got ", text(min));
}

void check_init(const BoundedScaleOptions& options, double min, double max, const std::string& whose) {
  if (options.init < min || options.init > max)
    fail("init must lie inside ", whose, " = [", text(min), ", ", text(max), "], got ", text(options.init));
  if (options.constraint == Constraint::kSigmoid && (options.init == min || options.init == max)) {
    fail("init must lie strictly inside ", whose, " = [", text(min), ", ", text(max),
         "] for sigmoid, which never touches a bound, got ", text(options.init));
  }
}

void check_stage_order(const BoundsStage& stage, const BoundsStage& before, const std::string& name) {
  const bool by_epoch = stage.from_epoch >= 0;
  if (by_epoch != (before.from_epoch >= 0)) {
    fail(name, " must count in ", by_epoch ? "steps" : "epochs", " like the stage before it, got ",
         by_epoch ? "from_epoch" : "from_step");
  }
  const std::int64_t from = by_epoch ? stage.from_epoch : stage.from_step;
  const std::int64_t from_before = by_epoch ? before.from_epoch : before.from_step;
  if (from <= from_before) {
    fail(name, by_epoch ? ".from_epoch" : ".from_step", " must be above that of the stage before it, ", from_before,
         ", got ", from);
  }
}

void check_schedule(const BoundedScaleOptions& options) {
  const auto& schedule = options.bounds_schedule;
  for (std::size_t i = 0; i < schedule.size(); ++i) {
    const BoundsStage& stage = schedule[i];
    const std::string name = "bounds_schedule[" + std::to_string(i) + "]";
    if ((stage.from_epoch >= 0) == (stage.from_step >= 0)) {
      fail(name, " must give either from_epoch or from_step, got from_epoch ", stage.from_epoch, " and from_step ",
           stage.from_step);
    }
    if (i > 0) check_stage_order(stage, schedule[i - 1], name);
    check_bounds(name + ".", stage.min, stage.max, options.in_log_space());
  }
  if (!schedule.empty() && (schedule[0].from_epoch == 0 || schedule[0].from_step == 0))
    check_init(options, schedule[0].min, schedule[0].max, "the bounds of bounds_schedule[0]");
}

}  // namespace

void BoundedScaleOptions::validate() const {
  check_finite("init", init);
  check_bounds("", min, max, in_log_space());
  check_init(*this, min, max, "[min, max]");
  check_finite("warn_threshold", warn_threshold);
  if (!std::isfinite(l2_weight) || l2_weight < 0)
    fail("l2_weight must be a finite number of at least 0, got ", text(l2_weight));
  for (const std::int64_t size : shape)
    if (size < 1) fail("shape must hold sizes of at least 1, got ", size);
  for (const double center : l2_center) check_finite("l2_center", center);
  if (l2_center.size() > 1 && static_cast<std::int64_t>(l2_center.size()) != num_elements()) {
    fail("l2_center must be empty, one number or one for each of the ", num_elements(), " elements, got ",
         l2_center.size(), " numbers");
  }
  check_schedule(*this);
}

void BoundedScaleOptions::validate_bounds(double low, double high) const {
  check_bounds("", low, high, in_log_space());
}

std::pair<double, double> BoundedScaleOptions::bounds_at(std::int64_t epoch, std::int64_t step) const {
  std::pair<double, double> bounds{min, max};
  for (const BoundsStage& stage : bounds_schedule) {
    const bool begun = stage.from_epoch >= 0 ? stage.from_epoch <= epoch : stage.from_step <= step;
    if (begun) bounds = {stage.min, stage.max};
  }
  return bounds;
}

std::int64_t BoundedScaleOptions::num_elements() const {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) product *= size;
  return product;
}

std::vector<std::pair<std::string, BoundedScaleOptions>> BoundedScaleOptions::presets() {
  return {{"conservative", {.init = 2.5, .min = 0.5, .max = 5.0, .warn_threshold = 4.0}},
          {"aggressive", {.init = 3.5, .min = 1.0, .max = 8.0, .warn_threshold = 6.0}},
          {"ultra_conservative", {.init = 2.0, .min = 0.5, .max = 3.0, .warn_threshold = 2.5}},
          {"fixed", {.init = 2.5, .learnable = false}},
          {"strong_fixed", {.init = 5.0, .learnable = false}},
          {"logit", {.init = 25, .min = 1, .max = 100, .space = Space::kLog, .warn_threshold = 80}}};
}

BoundedScaleOptions scale_preset(std::string_view name) {
  std::string known;
  for (const auto& [preset, options] : BoundedScaleOptions::presets()) {
    if (name == preset) return options;
    known += (known.empty() ? "" : ", ") + preset;
  }
  throw std::invalid_argument("[scale_preset] name must be one of " + known + ", got '" + std::string(name) + "'");
}

}  // namespace camber::nn
