// Every metric of the monitor, from the fused pass's own statistics, against the same metric from a dense computation
// in float64.
#include <cmath>
#include <map>

#include <camber/health/monitor.h>
#include <camber/ops/biased_attention.h>
#include <camber/train/health_adapter.h>
#include <gtest/gtest.h>

#include <torch/types.h>

namespace camber::train {
namespace {

constexpr std::int64_t kBatch = 2, kHeads = 4, kQueries = 9, kKeys = 70, kWidth = 16;
const std::vector<std::string> kSegments = {"lidar", "camera", "camera"};

struct Problem {
  torch::Tensor q, k, v;
  ops::StructuredBias bias;
  torch::Tensor blocked;  // [B, K]

  Problem() {
    torch::manual_seed(3);
    q = 2 * torch::randn({kBatch, kHeads, kQueries, kWidth});
    k = 2 * torch::randn({kBatch, kHeads, kKeys, kWidth});
    v = torch::randn({kBatch, kHeads, kKeys, kWidth});
    // Six keys a query, beginning at its own position.
    std::vector<std::int64_t> offsets = {0};
    std::vector<std::int32_t> keys;
    for (std::int64_t row = 0; row < kBatch * kQueries; ++row) {
      for (std::int64_t key = 0; key < 6; ++key) {
        keys.push_back(static_cast<std::int32_t>((row * 3) % 60 + key));
      }
      offsets.push_back(static_cast<std::int64_t>(keys.size()));
    }
    bias.windows = ops::Windows{torch::tensor(offsets, torch::kLong), torch::tensor(keys, torch::kInt),
                                3 * torch::randn({1, static_cast<std::int64_t>(keys.size())})};
    bias.segments = ops::Segments{torch::tensor({0, 40, 55, 70}, torch::kLong), torch::randn({kBatch, 1, kQueries, 3})};
    blocked = torch::zeros({kBatch, kKeys}, torch::kBool);
    blocked[1].slice(0, 60, kKeys).fill_(true);
  }
};

// [B, H, Q, K] in float64: attention with the bias and without its finite part.
std::pair<torch::Tensor, torch::Tensor> dense_attention(const Problem& problem) {
  const auto scores = torch::matmul(problem.q.to(torch::kDouble), problem.k.to(torch::kDouble).transpose(-1, -2)) /
                      std::sqrt(static_cast<double>(kWidth));
  const auto mask = problem.blocked.view({kBatch, 1, 1, kKeys});
  const auto dense = problem.bias.materialize(kBatch, kQueries, kKeys, problem.q).to(torch::kDouble);
  const double nothing = -std::numeric_limits<double>::infinity();
  return {torch::softmax((scores + dense).masked_fill(mask, nothing), -1),
          torch::softmax(scores.masked_fill(mask, nothing), -1)};
}

std::map<std::string, double> dense_metrics(const Problem& problem) {
  const auto [p, p0] = dense_attention(problem);
  std::map<std::string, double> metrics;
  const auto log_ratio = torch::where(p > 0, p * (p.log() - p0.log()), torch::zeros_like(p)).sum(-1);
  const auto entropy = -torch::where(p > 0, p * p.log(), torch::zeros_like(p)).sum(-1);
  const auto left = (~problem.blocked).sum(-1).to(torch::kDouble).view({kBatch, 1, 1});
  const auto share = entropy / left.log(), top = p.amax(-1), squares = p.square().sum(-1);
  const auto put = [&](const std::string& name, const torch::Tensor& rows, bool heads) {
    metrics["attention/layer0/" + name] = rows.mean().item<double>();
    for (std::int64_t head = 0; heads && head < kHeads; ++head) {
      metrics["attention/layer0/head" + std::to_string(head) + "/" + name] = rows.select(1, head).mean().item<double>();
    }
  };
  put("entropy", entropy, false);
  put("effective_keys", entropy.exp(), false);
  put("entropy_share", share, true);
  put("largest_weight", top, true);
  put("saturated", (top > 0.9).to(torch::kDouble), true);
  put("nearly_saturated", (top > 0.7).to(torch::kDouble), true);
  put("dead", (1 - squares < 1e-3).to(torch::kDouble), true);
  put("change", (p - p0).abs().sum(-1) / 2, true);
  put("divergence", log_ratio, true);
  put("mass/lidar", p.slice(-1, 0, 40).sum(-1), true);
  put("mass/camera", p.slice(-1, 40, kKeys).sum(-1), true);
  metrics["attention/layer0/entropy_share_p05"] = share.flatten().quantile(0.05).item<double>();
  return metrics;
}

class HealthMetrics : public ::testing::TestWithParam<ops::Implementation> {};

TEST_P(HealthMetrics, EqualADenseComputationInDouble) {
  const Problem problem;
  const auto output = ops::biased_attention(
      problem.q, problem.k, problem.v, problem.bias,
      {.masks = {.key_padding_mask = problem.blocked}, .statistics = true, .implementation = GetParam()});
  HealthAdapter adapter(1);
  adapter.add_attention("layer0", *output.statistics, kSegments);
  std::map<std::string, double> metrics;
  for (const health::Metric& metric : health::health_metrics(adapter.sample())) {
    metrics[metric.name] = metric.value;
  }
  const auto expected = dense_metrics(problem);
  EXPECT_EQ(metrics.size(), expected.size());
  for (const auto& [name, value] : expected) {
    ASSERT_TRUE(metrics.contains(name)) << name;
    EXPECT_NEAR(metrics.at(name), value, 1e-5 * std::max(1., std::abs(value))) << name;
  }
  EXPECT_GT(expected.at("attention/layer0/saturated"), 0) << "the case must have sharp rows";
}

INSTANTIATE_TEST_SUITE_P(Implementations, HealthMetrics,
                         ::testing::Values(ops::Implementation::kFused, ops::Implementation::kStreamed));

TEST(HealthNumbers, OfTrustAndBiasEqualThoseInDouble) {
  torch::manual_seed(5);
  const auto weight = torch::tanh(torch::randn({2, 300})), value = 2.7 * weight;
  HealthAdapter adapter(1);
  adapter.add_trust("lidar", weight, true);
  adapter.add_bias("lidar", value);
  std::map<std::string, double> metrics;
  for (const health::Metric& metric : health::health_metrics(adapter.sample())) {
    metrics[metric.name] = metric.value;
  }
  const auto w = weight.to(torch::kDouble).flatten(), b = value.to(torch::kDouble).flatten(), magnitude = b.abs();
  const std::map<std::string, torch::Tensor> expected = {{"trust/lidar/mean", w.mean()},
                                                         {"trust/lidar/std", w.std(false)},
                                                         {"trust/lidar/mean_abs", w.abs().mean()},
                                                         {"effective_bias/lidar/mean", magnitude.mean()},
                                                         {"effective_bias/lidar/p05", magnitude.quantile(0.05)},
                                                         {"effective_bias/lidar/p50", magnitude.quantile(0.5)},
                                                         {"effective_bias/lidar/p95", magnitude.quantile(0.95)},
                                                         {"bias/lidar/mean", b.mean()},
                                                         {"bias/lidar/std", b.std(false)},
                                                         {"bias/lidar/min", b.min()},
                                                         {"bias/lidar/max", b.max()}};
  for (const auto& [name, tensor] : expected) {
    EXPECT_NEAR(metrics.at(name), tensor.item<double>(), 1e-5) << name;
  }
}

}  // namespace
}  // namespace camber::train
