#include "camber/runs/fewshot_options.h"

#include <stdexcept>

namespace camber::runs {

void SourceOptions::validate() const {
  const auto refuse = [](const std::string& sentence) { throw std::invalid_argument("[source] " + sentence); };
  if (kind != SourceKind::kGlyphs && path.empty()) refuse("path must name the data, got nothing");
  if (kind == SourceKind::kGlyphs && !(path.empty() && test_path.empty()))
    refuse("path and test_path must be empty where kind is glyphs, which are drawn, got '" + path + test_path + "'");
  constexpr std::int64_t kSmallestSide = 8;
  if (size > 0 && size < kSmallestSide) refuse("size must be 0 or at least 8, got " + std::to_string(size));
  if (!target_domain.empty() && !test_path.empty())
    refuse("test_path must be empty where a target_domain is held out, got '" + test_path + "'");
  if (!runs_path.empty() && kind != SourceKind::kOmniglot) refuse("runs_path must be empty unless kind is omniglot");
  if (test_on_validation && validation_classes == 0)
    refuse("validation_classes must be at least 1 where test_on_validation is true, got 0");
}

void FewshotOptions::validate() const {
  if (tests.empty()) throw std::invalid_argument("[fewshot] tests must hold at least one setting, got none");
  if (training.episodes % training.episodes_per_step != 0)
    throw std::invalid_argument("[fewshot] training.episodes must be a multiple of episodes_per_step, got " +
                                std::to_string(training.episodes) + " and " +
                                std::to_string(training.episodes_per_step));
}

}  // namespace camber::runs
