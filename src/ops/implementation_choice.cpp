#include "ops/implementation_choice.h"

#include <sstream>

namespace camber::ops {
const char* name_of(Implementation implementation) {
  switch (implementation) {
    case Implementation::kFused:
      return "fused";
    case Implementation::kCorrected:
      return "corrected";
    case Implementation::kStreamed:
      return "streamed";
    case Implementation::kReference:
      return "reference";
    default:
      return "auto";
  }
}

Implementation implementation_from(const std::string& name) {
  for (const auto implementation : {Implementation::kAuto, Implementation::kFused, Implementation::kCorrected,
                                    Implementation::kStreamed, Implementation::kReference})
    if (name == name_of(implementation)) return implementation;
  TORCH_CHECK_VALUE(false,
                    "[biased_attention] implementation must be auto, fused, corrected, streamed or reference, got '",
                    name, "'");
}

std::string AttentionReport::sentence() const {
  std::ostringstream text;
  text << name_of(ran) << " ran";
  for (const auto& reason : reasons) text << "; " << reason;
  if (recomputed_rows > 0) text << "; streamed recomputed " << recomputed_rows << " rows";
  return text.str();
}

AttentionReport choose_implementation(const AttentionArguments& arguments) {
  const auto wanted = implementation_from(arguments.implementation);
  if (wanted == Implementation::kReference || wanted == Implementation::kStreamed) return {.ran = wanted};
  std::vector<std::string> obstacles;
  const auto take = [&](Implementation which, std::vector<std::string> found) {
    obstacles.insert(obstacles.end(), found.begin(), found.end());
    return found.empty() && (wanted == which || wanted == Implementation::kAuto);
  };
  if (wanted != Implementation::kCorrected && take(Implementation::kFused, fused_obstacles(arguments)))
    return {.ran = Implementation::kFused};
  // On the CPU the kernels come first, and what they do not take is seldom large enough for a second choice.
  const bool consider = wanted == Implementation::kCorrected || !arguments.q.is_cpu();
  if (wanted != Implementation::kFused && consider && take(Implementation::kCorrected, corrected_obstacles(arguments)))
    return {.ran = Implementation::kCorrected, .reasons = std::move(obstacles)};
  if (wanted != Implementation::kAuto) {
    std::ostringstream reasons;
    for (const auto& obstacle : obstacles) reasons << " [" << obstacle << "]";
    TORCH_CHECK_NOT_IMPLEMENTED(false,
                                "[biased_attention] implementation must be auto, streamed or reference for "
                                "this call, got ",
                                name_of(wanted), ":", reasons.str());
  }
  return {.ran = Implementation::kStreamed, .reasons = std::move(obstacles)};
}

}  // namespace camber::ops
