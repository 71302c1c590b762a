#include <algorithm>
#include <set>
#include <stdexcept>
#include <unordered_set>

#include <camber/config/sentence.h>
#include <camber/train/freezing.h>

namespace camber::train {
namespace {

template <class... Parts>
[[noreturn]] void refuse_freezing(const Parts&... parts) {
  throw std::invalid_argument(config::sentence("[freeze] ", parts...));
}

void check_patterns(const char* field, const std::vector<std::string>& patterns) {
  std::set<std::string_view> known;
  for (const std::string& pattern : patterns) {
    if (pattern.empty()) refuse_freezing(field, " must be parts of names, got an empty one");
    if (!known.insert(pattern).second) refuse_freezing(field, " must be given once, got '", pattern, "' twice");
  }
}

// Patterns that a name contains, marked as seen; whether there is one.
bool contains_any(const std::string& name, const std::vector<std::string>& patterns, std::vector<bool>& seen) {
  bool any = false;
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    if (name.find(patterns[i]) == std::string::npos) continue;
    seen[i] = any = true;
  }
  return any;
}

void check_seen(const char* field, const std::vector<std::string>& patterns, const std::vector<bool>& seen,
                const char* which) {
  for (std::size_t i = 0; i < patterns.size(); ++i)
    if (!seen[i]) refuse_freezing(field, " must match ", which, ", got '", patterns[i], "', which matches none");
}

}  // namespace

void FreezingOptions::validate() const {
  check_patterns("patterns", patterns);
  check_patterns("except", except);
  if (patterns.empty() && !except.empty())
    refuse_freezing("except must come with patterns, got '", except[0], "' alone");
}

Freezing::Freezing(torch::nn::Module& model, const FreezingOptions& options) {
  options.validate();
  if (options.patterns.empty()) return;
  std::vector<bool> seen(options.patterns.size(), false), spared(options.except.size(), false);
  std::unordered_set<const void*> frozen;
  for (const auto& entry : model.named_parameters()) {
    if (!contains_any(entry.key(), options.patterns, seen)) continue;
    if (contains_any(entry.key(), options.except, spared)) continue;
    entry.value().set_requires_grad(false);
    frozen.insert(entry.value().unsafeGetTensorImpl());
    parameters_.push_back(entry.key());
  }
  check_seen("patterns", options.patterns, seen, "a parameter");
  check_seen("except", options.except, spared, "a parameter that a pattern names");
  // From the outside in: what lies inside of a held module is held with it.
  for (const auto& entry : model.named_modules("", /*include_self=*/false)) {
    const bool inside = std::any_of(names_.begin(), names_.end(),
                                    [&entry](const std::string& name) { return entry.key().starts_with(name + "."); });
    const auto parameters = entry.value()->parameters();
    if (inside || parameters.empty()) continue;
    if (std::all_of(parameters.begin(), parameters.end(), [&frozen](const torch::Tensor& parameter) {
          return frozen.contains(parameter.unsafeGetTensorImpl());
        })) {
      names_.push_back(entry.key());
      held_.push_back(entry.value());
    }
  }
  hold();
}

void Freezing::hold() {
  for (const auto& module : held_) module->eval();
}

}  // namespace camber::train
