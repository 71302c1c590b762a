#pragma once
#include <functional>
#include <string>
#include <vector>

#include <torch/types.h>

#include "camber/verification/verification.h"

namespace camber::verification {

/// What was seen, and whether it is what was promised.
struct Seen {
  std::string measured{};
  bool passed = false;
};

/// "0.5 (at most 1)": a measured against the most it may be, or the least it must be.
Seen at_most(double value, double limit, const std::string& what = "");
Seen at_least(double value, double limit, const std::string& what = "");
/// Exact equality of numbers.
Seen equal(double value, double expected, const std::string& what = "");
std::string number(double value);

/// The largest |a - b|; infinity where one is NaN.
double difference(const torch::Tensor& a, const torch::Tensor& b);

class Checklist {
 public:
  explicit Checklist(std::function<void(const Check&)> report) : report_(std::move(report)) {}
  void section(std::string name) { section_ = std::move(name); }
  void check(const std::string& promise, const std::function<Seen()>& look);
  std::vector<Check> take() { return std::move(checks_); }

 private:
  std::function<void(const Check&)> report_;
  std::string section_;
  std::vector<Check> checks_;
};

void check_scale(Checklist& list);
void check_bias(Checklist& list);
void check_attention(Checklist& list);
void check_router(Checklist& list);
void check_detector(Checklist& list);
void check_fewshot(Checklist& list);
void check_device(Checklist& list, torch::Device device);

}  // namespace camber::verification
