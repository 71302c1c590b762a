#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <camber/eval/fewshot_statistics.h>

namespace camber::runs {

/// Accuracy in one way of being tested.
struct SettingResult {
  std::string name{};  ///< "5-way 1-shot", "official 20-way runs"
  std::int64_t n_way = 0, k_shot = 0;
  eval::MeanInterval accuracy{};  ///< over episodes
  double chance = 0;
};

/// Where a bounded scale went.
struct ScaleResult {
  std::string name{};
  std::string constraint{};
  double start = 0, value = 0, raw = 0, min = 0, max = 0;
  double share_at_bound = 0;
  std::vector<std::pair<std::int64_t, double>> curve{};  ///< (step, value)
};

/// What a feature of held-out images tells. Probes are fitted on one half of the images and tested on the other.
struct LeakResult {
  std::string feature{};  ///< "domain", "purified", "intrinsic"
  eval::Leak leak{};
  eval::ProbeResult class_probe{}, domain_probe{};
};

struct FewshotResult {
  std::string data{}, setting{};
  std::vector<std::string> notes{};
  std::uint64_t seed = 0;
  std::int64_t train_classes = 0, test_classes = 0, train_examples = 0, test_examples = 0;
  std::int64_t parameters = 0, episodes = 0;
  double seconds = 0, episodes_per_second = 0;  ///< of the training alone
  double last_loss = 0;                         ///< mean of the last tenth of the training
  std::vector<SettingResult> settings{};
  std::vector<ScaleResult> scales{};
  std::vector<LeakResult> leaks{};
  std::vector<std::pair<std::string, double>> statistics{};  ///< of the purification, last training episode
  bool oracle = false;                                       ///< whether a part of the model saw the queries' labels
  std::vector<std::string> findings{};
  bool complete = true;  ///< false: stopped before its last episode
};

std::string to_json(const FewshotResult& result);
std::string to_text(const FewshotResult& result);

}  // namespace camber::runs
