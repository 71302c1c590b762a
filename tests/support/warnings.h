#pragma once
#include <string>
#include <vector>

#include <c10/util/Exception.h>

namespace camber::proof {

/// Keeps torch's warnings off the terminal while it lives, and what they said; every one, also of those told once.
class CollectedWarnings : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override { messages.push_back(warning.msg()); }

  std::vector<std::string> messages;

 private:
  const c10::WarningUtils::WarningHandlerGuard guard_{this};
  const c10::WarningUtils::WarnAlways always_{};
};

}  // namespace camber::proof
