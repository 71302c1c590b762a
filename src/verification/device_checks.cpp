#include <cmath>
#include <limits>

#include <torch/csrc/autograd/autograd.h>

#include "camber/detection/detector.h"
#include "camber/ops/biased_attention.h"
#include "camber/ops/sparse_attention.h"
#include "verification/checklist.h"

// What the library promises on a device other than the CPU, against the CPU in float64.
namespace camber::verification {
namespace {

using ops::AttentionReport;
using ops::Implementation;
using Tensors = std::vector<torch::Tensor>;

constexpr std::int64_t kDeviceBatch = 2, kDeviceHeads = 4, kDeviceQueries = 60, kDeviceKeys = 500, kDeviceWidth = 32,
                       kEntries = 40;

struct DeviceProblem {
  Tensors leaves{};  // q, k, v, window values, segment values
  torch::Tensor row_offsets{}, key_index{}, offsets{};

  // Moved and of that type; the bias stays float.
  DeviceProblem on(torch::Device device, torch::ScalarType type) const {
    DeviceProblem p = *this;
    const auto bias = type == torch::kDouble ? torch::kDouble : torch::kFloat;
    for (std::size_t i = 0; i < p.leaves.size(); ++i)
      p.leaves[i] = leaves[i].detach().to(device, i < 3 ? type : bias).requires_grad_(true);
    p.row_offsets = row_offsets.to(device);
    p.key_index = key_index.to(device);
    return p;
  }

  torch::Tensor attend(Implementation implementation, AttentionReport* report = nullptr) const {
    const ops::StructuredBias bias{.windows = ops::Windows{row_offsets, key_index, leaves[3]},
                                   .segments = ops::Segments{offsets, leaves[4]}};
    return ops::biased_attention(leaves[0], leaves[1], leaves[2], bias, {.implementation = implementation}, report)
        .output;
  }

  // The output, then the gradient of every leaf.
  Tensors run(Implementation implementation) const {
    const auto output = attend(implementation);
    Tensors all = torch::autograd::grad({output.to(torch::kDouble).square().sum()}, leaves);
    all.insert(all.begin(), output);
    return all;
  }
};

// Windows of `entries` keys from a drawn one on, with one bias or drawn ones.
DeviceProblem device_problem(std::int64_t entries, std::optional<double> bias) {
  const auto random = [](torch::IntArrayRef shape) { return torch::randn(shape).to(torch::kDouble); };
  const std::int64_t rows = kDeviceBatch * kDeviceQueries;
  const auto first = torch::randint(kDeviceKeys - entries + 1, {rows, 1}, torch::kInt);
  const auto value = bias ? torch::full({1, rows * entries}, *bias, torch::kDouble) : random({1, rows * entries});
  return {.leaves = {random({kDeviceBatch, kDeviceHeads, kDeviceQueries, kDeviceWidth}),
                     random({kDeviceBatch, kDeviceHeads, kDeviceKeys, kDeviceWidth}),
                     random({kDeviceBatch, kDeviceHeads, kDeviceKeys, kDeviceWidth}), value,
                     random({kDeviceBatch, 1, kDeviceQueries, 3})},
          .row_offsets = torch::arange(rows + 1, torch::kLong) * entries,
          .key_index = (first + torch::arange(entries, torch::kInt)).flatten(),
          .offsets = torch::tensor({std::int64_t{0}, std::int64_t{300}, std::int64_t{400}, kDeviceKeys}, torch::kLong)};
}

// The largest difference of a tensor over the largest value.
double relative(const torch::Tensor& actual, const torch::Tensor& expected) {
  return difference(actual.cpu(), expected) / std::max(1e-30, expected.abs().max().item<double>());
}

Seen close_to_reference(torch::Device device, const DeviceProblem& problem, torch::ScalarType type, double limit,
                        double gradient_limit) {
  const auto expected = problem.on(torch::kCPU, torch::kDouble).run(Implementation::kReference);
  const auto actual = problem.on(device, type).run(Implementation::kAuto);
  double gradients = 0;
  for (std::size_t i = 1; i < expected.size(); ++i) gradients = std::max(gradients, relative(actual[i], expected[i]));
  const double output = relative(actual[0], expected[0]);
  return {number(output) + " in outputs (at most " + number(limit) + "), " + number(gradients) +
              " in gradients (at most " + number(gradient_limit) + ")",
          output <= limit && gradients <= gradient_limit};
}

Seen takes(torch::Device device, torch::ScalarType type) {
  AttentionReport report;
  device_problem(kEntries, std::nullopt).on(device, type).attend(Implementation::kAuto, &report);
  return {report.sentence(), report.ran == Implementation::kCorrected};
}

Seen recomputes(torch::Device device) {
  AttentionReport report;
  const auto problem = device_problem(kDeviceKeys, -10);
  problem.on(device, torch::kFloat).attend(Implementation::kAuto, &report);
  auto seen = close_to_reference(device, problem, torch::kFloat, 2e-5, 2e-4);
  seen.measured += ", " + std::to_string(report.recomputed_rows) + " rows recomputed";
  return seen;
}

Seen repeats(torch::Device device) {
  const auto problem = device_problem(kEntries, std::nullopt).on(device, torch::kFloat);
  const auto once = problem.run(Implementation::kAuto), again = problem.run(Implementation::kAuto);
  double worst = 0;
  for (std::size_t i = 0; i < once.size(); ++i) worst = std::max(worst, difference(once[i].cpu(), again[i].cpu()));
  return equal(worst, 0, "apart");
}

Seen sparse_agrees(torch::Device device) {
  const auto problem = device_problem(kEntries, std::nullopt);
  const auto run = [](const DeviceProblem& p) {
    return ops::sparse_attention(p.leaves[0], p.leaves[1], p.leaves[2], p.row_offsets, p.key_index, p.leaves[3]);
  };
  return at_most(relative(run(problem.on(device, torch::kFloat)), run(problem.on(torch::kCPU, torch::kDouble))), 1e-5);
}

detection::DetectorBatch lidar_frame(const detection::DetectorOptions& options) {
  detection::DetectorBatch batch{.size = 1};
  batch.scene = {.grid = options.space.grid(), .cameras = {{}}};
  batch.points = torch::rand({400, 5}) * 20 - 10;
  batch.point_offsets = torch::tensor({0, 400}, torch::kLong);
  batch.available = torch::ones({1, 1}, torch::kBool);
  batch.age = torch::full({1, 1}, 0.5F);
  batch.level = torch::zeros({1, 1});
  batch.quality = torch::ones({1, 1});
  batch.targets = {{.boxes = torch::tensor({8.F, 1.F, -1.F, 4.F, 2.F, 1.5F, 0.F, 0.F, 0.F}).view({1, 9}),
                    .labels = torch::zeros({1}, torch::kLong),
                    .trust = torch::ones({1, 2})}};
  batch.origins.resize(1);
  return batch;
}

Seen detector_agrees(torch::Device device) {
  auto options = detection::DetectorOptions::small();
  options.head.num_queries = 20;
  options.router.mode = nn::RouterMode::kLearned;
  detection::Detector host(options, 1), moved(options, 1);
  moved->to(device);
  const auto batch = lidar_frame(options);
  const auto expected = host->forward(batch), actual = moved->forward(batch);
  const auto wanted = host->losses(expected, batch).total, loss = moved->losses(actual, batch).total;
  wanted.backward();
  loss.backward();
  double gradients = 0;
  const auto of_moved = moved->named_parameters();
  for (const auto& parameter : host->named_parameters())
    if (parameter.value().grad().defined() && of_moved[parameter.key()].grad().defined())
      gradients = std::max(gradients, difference(of_moved[parameter.key()].grad().cpu(), parameter.value().grad()) /
                                          std::max(1.0, parameter.value().grad().abs().max().item<double>()));
  const double output = difference(actual.class_logits.cpu(), expected.class_logits);
  return {number(output) + " in outputs, " + number(gradients) + " in gradients (at most 0.001)",
          output <= 1e-3 && gradients <= 1e-3};
}

}  // namespace

void check_device(Checklist& list, torch::Device device) {
  list.section(device.str());
  list.check(
      "auto corrects torch's own attention (float)", [&] { return takes(device, torch::kFloat); });
  list.check(
      "and in bfloat16", [&] { return takes(device, torch::kBFloat16); });
  list.check("outputs and gradients equal the CPU's in float64 (float)", [&] {
    return close_to_reference(device, device_problem(kEntries, std::nullopt), torch::kFloat, 1e-5, 1e-4);
  });
  for (const auto type : {torch::kBFloat16, torch::kHalf})
    list.check(
        "and nearly so in " + std::string(c10::toString(type)),
        [&] { return close_to_reference(device, device_problem(kEntries, std::nullopt), type, 2e-2, 1e-1); });
  list.check(
      "windows that held all of the weight and lost it are recomputed", [&] { return recomputes(device); });
  list.check(
      "the same call gives the same bits", [&] { return repeats(device); });
  list.check(
      "sparse attention equals the CPU's", [&] { return sparse_agrees(device); });
  list.check("a detector's outputs and gradients equal the CPU's", [&] { return detector_agrees(device); });
}

}  // namespace camber::verification
