// window_values for 900 queries on seven maps (windows of 5 x 5 and 15 x 15 cells), beside index_select in plain tensor
// operations, which is the reference.
//
//   build/bench/windows_bench
//
// Before anything is timed, both are compared with the double reference.

#include <benchmark/benchmark.h>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "camber/ops/windows.h"
#include "run_benchmarks.h"
#include "support/comparison.h"

namespace {

constexpr std::int64_t kQueries = 900, kMaps = 7;

struct Problem {
  camber::ops::WindowIndex index;
  at::Tensor strength, profile, position;

  explicit Problem(at::ScalarType type) {
    at::manual_seed(5);
    const auto shape = at::tensor({180, 180, 100, 40, 100, 40, 100, 40, 100, 40, 100, 40, 100, 40}, at::kLong);
    auto size = at::full({1, kQueries, kMaps}, 15, at::kInt);
    size.select(2, 0).fill_(5);
    index = camber::ops::build_windows(at::randint(0, 40, {1, kQueries, kMaps, 2}, at::kLong), size,
                                       shape.view({kMaps, 2}));
    strength = at::randn({8, kQueries, kMaps}, at::kDouble).to(type);
    profile = at::rand({index.key_index.size(0)}, at::kDouble).to(type);
    const auto lengths = index.row_offsets.slice(0, 1) - index.row_offsets.slice(0, 0, -1);
    position = at::arange(kQueries, at::kLong).repeat_interleave(lengths) * kMaps + index.map_index;
  }
};

using Values = at::Tensor (*)(const Problem&);

at::Tensor kernels(const Problem& p) {
  return camber::ops::window_values(p.strength, p.profile, p.index.row_offsets, p.index.map_index);
}

at::Tensor index_select(const Problem& p) {
  return p.strength.flatten(1).index_select(1, p.position) * p.profile;
}

void forward(benchmark::State& state, Values values) {
  const Problem problem(at::kFloat);
  const at::NoGradGuard no_gradient;
  for (auto _ : state) benchmark::DoNotOptimize(values(problem));
}

void both(benchmark::State& state, Values values) {
  Problem problem(at::kFloat);
  problem.strength.requires_grad_(true);
  for (auto _ : state) {
    const auto value = values(problem);
    benchmark::DoNotOptimize(torch::autograd::grad({value}, {problem.strength}, {at::ones_like(value)}));
  }
}

bool agrees(const char* name, Values values) {
  return camber::bench::held(name,
                             camber::proof::close(values(Problem(at::kFloat)), kernels(Problem(at::kDouble)), 2e-7));
}

}  // namespace

int main(int argument_count, char** arguments) {
  return camber::bench::run_benchmarks(
      argument_count, arguments,
      [] {
        for (const auto& [name, values] : {std::pair{"kernels", &kernels}, std::pair{"index_select", &index_select}}) {
          if (!agrees(name, values)) return false;
          const std::string prefix = std::string("window_values/") + name;
          benchmark::RegisterBenchmark((prefix + "/forward").c_str(), forward, values);
          benchmark::RegisterBenchmark((prefix + "/forward+backward").c_str(), both, values);
        }
        return true;
      });
}
