#include <cmath>
#include <sstream>
#include <stdexcept>

#include <camber/train/optimizer_options.h>

namespace camber::train {
namespace {

void check(bool holds, const char* field, const char* rule, double value) {
  if (!holds) {
    std::ostringstream sentence;
    sentence << "[optimizer] " << field << " must be " << rule << ", got " << value;
    throw std::invalid_argument(sentence.str());
  }
}

}  // namespace

void OptimizerOptions::validate() const {
  const char* at_least_zero = "a finite number of at least 0";
  const char* a_share = "at least 0 and below 1";
  check(std::isfinite(learning_rate) && learning_rate >= 0, "learning_rate", at_least_zero, learning_rate);
  check(std::isfinite(weight_decay) && weight_decay >= 0, "weight_decay", at_least_zero, weight_decay);
  check(momentum >= 0 && momentum < 1, "momentum", a_share, momentum);
  check(!nesterov || kind != OptimizerKind::kSgd || momentum > 0, "momentum", "above 0 with nesterov", momentum);
  check(beta1 >= 0 && beta1 < 1, "beta1", a_share, beta1);
  check(beta2 > 0 && beta2 < 1, "beta2", "above 0 and below 1", beta2);
  check(std::isfinite(eps) && eps >= 0, "eps", at_least_zero, eps);
  check(std::isfinite(clip_norm) && clip_norm >= 0, "clip_norm", at_least_zero, clip_norm);
}

}  // namespace camber::train
