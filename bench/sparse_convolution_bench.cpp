// sparse_convolution at the widths of a sparse encoder, beside the same sums in plain tensor operations: for every tap
// index_select, a matrix product, index_add.
//
//   build/bench/sparse_convolution_bench --benchmark_filter=/64
//
// Before anything is timed, both are compared with the double definition.
#include <benchmark/benchmark.h>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "camber/ops/sparse_convolution.h"
#include "run_benchmarks.h"
#include "support/comparison.h"

namespace {

using camber::ops::SparseIndices;

constexpr std::int64_t kSites = 16000;

// Sites on steps of a surface, as a LiDAR sees them: about four of the 27 taps find a site.
at::Tensor surface_sites() {
  at::manual_seed(3);
  const auto cell = at::randperm(40000, at::kLong).slice(0, 0, kSites);
  const auto y = at::floor_divide(cell, 200), x = cell.remainder(200);
  const auto z = at::floor_divide(x + y, 40).remainder(5) * 3;
  return at::stack({at::zeros_like(x), z, y, x}, 1);
}

struct Layer {
  SparseIndices indices = build();
  at::Tensor features, weight;

  Layer(std::int64_t width, at::ScalarType type) {
    at::manual_seed(4);
    features = at::randn({kSites, width}, at::kDouble).to(type);
    weight = at::randn({width, 3, 3, 3, width}, at::kDouble).to(type);
  }
  static SparseIndices build() {
    return camber::ops::build_sparse_indices(surface_sites(), {16, 200, 200}, 1, {.submanifold = true});
  }
  double operations() const {
    return 2.0 * static_cast<double>(indices.pair_input.numel() * weight.size(0) * weight.size(4));
  }
};

using Convolve = at::Tensor (*)(const Layer&);

at::Tensor kernels(const Layer& in) {
  return camber::ops::sparse_convolution(in.features, in.weight, in.indices);
}

at::Tensor gathered(const Layer& in) {
  const auto& offsets = in.indices.pair_offsets;
  auto output = at::zeros({in.indices.outputs(), in.weight.size(0)}, in.features.options());
  const auto taps = in.weight.flatten(1, 3);
  for (std::int64_t tap = 0; tap < taps.size(1); ++tap) {
    const auto first = offsets[tap][0].item<std::int64_t>(), end = offsets[tap][-1].item<std::int64_t>();
    const auto rows = in.features.index_select(0, in.indices.pair_input.slice(0, first, end));
    output = output.index_add(0, in.indices.pair_output.slice(0, first, end), rows.matmul(taps.select(1, tap).t()));
  }
  return output;
}

void forward(benchmark::State& state, Convolve convolve) {
  const Layer in(state.range(0), at::kFloat);
  const at::NoGradGuard no_gradient;
  for (auto _ : state) benchmark::DoNotOptimize(convolve(in));
  state.counters["GFLOP/s"] = benchmark::Counter(1e-9 * in.operations(), benchmark::Counter::kIsIterationInvariantRate);
}

void both(benchmark::State& state, Convolve convolve) {
  Layer in(state.range(0), at::kFloat);
  in.features.requires_grad_(true);
  in.weight.requires_grad_(true);
  for (auto _ : state) {
    const auto output = convolve(in);
    benchmark::DoNotOptimize(torch::autograd::grad({output}, {in.features, in.weight}, {at::ones_like(output)}));
  }
  state.counters["GFLOP/s"] = benchmark::Counter(3e-9 * in.operations(), benchmark::Counter::kIsIterationInvariantRate);
}

void build_indices(benchmark::State& state) {
  const auto sites = surface_sites();
  for (auto _ : state)
    benchmark::DoNotOptimize(camber::ops::build_sparse_indices(sites, {16, 200, 200}, 1, {.submanifold = true}));
}

bool agrees(const char* name, Convolve convolve) {
  const at::NoGradGuard no_gradient;
  return camber::bench::held(
      name, camber::proof::close_to_largest(convolve(Layer(32, at::kFloat)), kernels(Layer(32, at::kDouble)), 2e-6));
}

}  // namespace

int main(int argument_count, char** arguments) {
  return camber::bench::run_benchmarks(
      argument_count, arguments,
      [] {
        for (const auto& [name, convolve] : {std::pair{"kernels", &kernels}, std::pair{"gathered", &gathered}}) {
          if (!agrees(name, convolve)) return false;
          const std::string prefix = std::string("sparse_convolution/") + name;
          benchmark::RegisterBenchmark((prefix + "/forward").c_str(), forward, convolve)->Arg(16)->Arg(64)->Arg(128);
          benchmark::RegisterBenchmark((prefix + "/forward+backward").c_str(), both, convolve)
              ->Arg(16)
              ->Arg(64)
              ->Arg(128);
        }
        benchmark::RegisterBenchmark("build_sparse_indices", build_indices);
        return true;
      });
}
