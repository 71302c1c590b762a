#include "camber/fewshot/options.h"

#include <stdexcept>
#include <string>

namespace camber::fewshot {

void PurificationOptions::validate() const {
  if (domain_width < 1 || intrinsic_width < 1)
    throw std::invalid_argument("[purification] domain_width and intrinsic_width must be at least 1, got " +
                                std::to_string(domain_width) + " and " + std::to_string(intrinsic_width));
  if (scale.num_elements() != 1)
    throw std::invalid_argument("[purification] scale must be one number, got " + std::to_string(scale.num_elements()));
}

void PrototypeHeadOptions::validate() const {
  if (scale.num_elements() != 1)
    throw std::invalid_argument("[prototype_head] scale must be one number, got " +
                                std::to_string(scale.num_elements()));
}

double TemperatureSchedule::at(double progress) const {
  if (progress <= hold) return start;
  if (progress >= until) return end;
  return start + (end - start) * (progress - hold) / (until - hold);
}

void TemperatureSchedule::validate() const {
  if (hold > until)
    throw std::invalid_argument("[temperature] hold must be at most until, got " + std::to_string(hold) + " and " +
                                std::to_string(until));
}

void EpisodeModelOptions::validate() const {
  if (feed_classifier && !domain_branch)
    throw std::invalid_argument("[fewshot] feed_classifier must be false without a domain_branch, got true");
}

}  // namespace camber::fewshot
