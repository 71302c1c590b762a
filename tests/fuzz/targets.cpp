#include "fuzz/fuzzing.h"

namespace camber::tests {

const std::vector<FuzzTarget>& fuzz_targets() {
  static const std::vector<FuzzTarget> targets = [] {
    std::vector<FuzzTarget> all;
    for (const auto& some : {dataset_targets(), sensor_targets(), archive_targets(), run_targets(), command_targets()})
      all.insert(all.end(), some.begin(), some.end());
    return all;
  }();
  return targets;
}

}  // namespace camber::tests
