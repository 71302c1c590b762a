#include "ops/implementation_choice.h"

#include <sstream>

namespace camber::ops {
const char* name_of(Implementation implementation) {
  switch (implementation) {
    case Implementation::kFused:
      return "fused";
    case Implementation::kStreamed:
      return "streamed";
    case Implementation::kReference:
      return "reference";
    default:
      return "auto";
  }
}

Implementation implementation_from(const std::string& name) {
  for (const auto implementation :
       {Implementation::kAuto, Implementation::kFused, Implementation::kStreamed, Implementation::kReference})
    if (name == name_of(implementation)) return implementation;
  TORCH_CHECK_VALUE(false, "[biased_attention] implementation must be auto, fused, streamed or reference, got '", name,
                    "'");
}

std::string AttentionReport::sentence() const {
  std::ostringstream text;
  text << name_of(ran) << " ran";
  for (const auto& reason : reasons) text << "; " << reason;
  return text.str();
}

AttentionReport choose_implementation(const AttentionArguments& arguments) {
  const auto wanted = implementation_from(arguments.implementation);
  if (wanted == Implementation::kReference || wanted == Implementation::kStreamed) return {.ran = wanted};
  auto obstacles = fused_obstacles(arguments);
  if (obstacles.empty()) return {.ran = Implementation::kFused};
  if (wanted == Implementation::kFused) {
    std::ostringstream reasons;
    for (const auto& obstacle : obstacles) reasons << " [" << obstacle << "]";
    TORCH_CHECK_NOT_IMPLEMENTED(false,
                                "[biased_attention] implementation must be auto, streamed or reference for "
                                "this call, got fused:",
                                reasons.str());
  }
  return {.ran = Implementation::kStreamed, .reasons = std::move(obstacles)};
}

}  // namespace camber::ops
