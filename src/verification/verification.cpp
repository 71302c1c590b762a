#include "camber/verification/verification.h"

#include <cmath>
#include <cstdio>
#include <exception>

#include "camber/nn/device.h"
#include "verification/checklist.h"

namespace camber::verification {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

namespace {

// The checks go beyond bounds on purpose; the warnings that this provokes are no news.
struct NoWarnings : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

std::string against(double value, const char* relation, double limit, const std::string& what) {
  return number(value) + (what.empty() ? "" : " " + what) + " (" + relation + " " + number(limit) + ")";
}

}  // namespace

Seen at_most(double value, double limit, const std::string& what) {
  return {against(value, "at most", limit, what), value <= limit};
}
Seen at_least(double value, double limit, const std::string& what) {
  return {against(value, "at least", limit, what), value >= limit};
}
Seen equal(double value, double expected, const std::string& what) {
  return {against(value, "exactly", expected, what), value == expected};
}

double difference(const torch::Tensor& a, const torch::Tensor& b) {
  const auto x = a.detach().to(torch::kDouble), y = b.detach().to(torch::kDouble);
  if (x.numel() == 0) return 0;
  // Equal infinities differ by nothing.
  const auto gap = torch::where(x.eq(y), torch::zeros_like(x), (x - y).abs());
  return gap.nan_to_num(INFINITY, INFINITY).max().item<double>();
}

void Checklist::check(const std::string& promise, const std::function<Seen()>& look) {
  Check result{.section = section_, .promise = promise};
  try {
    const Seen seen = look();
    result.measured = seen.measured;
    result.passed = seen.passed;
  } catch (const std::exception& error) {
    const std::string message = error.what();
    result.measured = "threw: " + message.substr(0, message.find('\n'));
  }
  checks_.push_back(result);
  if (report_) report_(checks_.back());
}

std::vector<Check> verify(const std::function<void(const Check&)>& report, int threads, const std::string& device) {
  const torch::Device chosen = nn::device_from(device);
  if (threads > 0) torch::set_num_threads(threads);
  NoWarnings silent;
  const c10::WarningUtils::WarningHandlerGuard guard(&silent);
  torch::manual_seed(1);
  Checklist list(report);
  if (!chosen.is_cpu()) {
    check_device(list, chosen);
    return list.take();
  }
  check_scale(list);
  check_bias(list);
  check_attention(list);
  check_router(list);
  check_detector(list);
  check_fewshot(list);
  return list.take();
}

}  // namespace camber::verification
