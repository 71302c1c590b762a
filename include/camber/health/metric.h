#pragma once
#include <string>
#include <vector>

namespace camber::health {

/// One named number of a step. Slashes group names: "loss/total", "attention/layer0/entropy". NaN and infinities are
/// values like others: a loss that broke is worth a record.
struct Metric {
  std::string name{};
  double value = 0;

  friend bool operator==(const Metric&, const Metric&) = default;
};

using Metrics = std::vector<Metric>;

}  // namespace camber::health
