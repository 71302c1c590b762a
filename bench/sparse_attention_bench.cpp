// sparse_attention at the size of the router's local attention: 900 queries, lists of 25 to 225 of 22,384 keys, beside
// the same attention over gathered keys in plain tensor operations.
//
//   build/bench/sparse_attention_bench --benchmark_filter=225
//
// Before anything is timed, both are compared with the double reference.
#include <cmath>

#include <benchmark/benchmark.h>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "camber/ops/sparse_attention.h"
#include "run_benchmarks.h"
#include "support/comparison.h"

namespace {

constexpr std::int64_t kHeads = 4, kQueries = 900, kKeys = 22384, kWidth = 64;

struct Lists {
  at::Tensor q, k, v, row_offsets, key_index;
  std::int64_t length;

  Lists(std::int64_t list_length, at::ScalarType type) : length(list_length) {
    at::manual_seed(3);
    const auto draw = [type](std::int64_t rows) { return at::randn({1, kHeads, rows, kWidth}, at::kDouble).to(type); };
    q = draw(kQueries);
    k = draw(kKeys);
    v = draw(kKeys);
    row_offsets = at::arange(kQueries + 1, at::kLong) * length;
    const auto first = at::randint(0, kKeys - length, {kQueries, 1}, at::kLong);
    key_index = (first + at::arange(length, at::kLong)).flatten().to(at::kInt);
  }
  std::vector<at::Tensor> leaves() {
    for (at::Tensor* tensor : {&q, &k, &v}) tensor->requires_grad_(true);
    return {q, k, v};
  }
};

using Attend = at::Tensor (*)(const Lists&);

at::Tensor kernels(const Lists& in) {
  return camber::ops::sparse_attention(in.q, in.k, in.v, in.row_offsets, in.key_index);
}

at::Tensor gathered(const Lists& in) {
  const auto rows = [&](const at::Tensor& t) {
    return t.index_select(2, in.key_index).view({1, kHeads, kQueries, in.length, kWidth});
  };
  const auto scores = at::matmul(rows(in.k), in.q.unsqueeze(-1)) / std::sqrt(static_cast<double>(kWidth));
  return (at::softmax(scores, 3) * rows(in.v)).sum(3);
}

void forward(benchmark::State& state, Attend attend) {
  const Lists in(state.range(0), at::kFloat);
  const at::NoGradGuard no_gradient;
  for (auto _ : state) benchmark::DoNotOptimize(attend(in));
}

void both(benchmark::State& state, Attend attend) {
  Lists in(state.range(0), at::kFloat);
  const auto leaves = in.leaves();
  for (auto _ : state) {
    const auto output = attend(in);
    benchmark::DoNotOptimize(torch::autograd::grad({output}, leaves, {at::ones_like(output)}));
  }
}

bool agrees(const char* name, Attend attend) {
  const at::NoGradGuard no_gradient;
  return camber::bench::held(
      name, camber::proof::close(attend(Lists(25, at::kFloat)), kernels(Lists(25, at::kDouble)), 4e-6));
}

}  // namespace

int main(int argument_count, char** arguments) {
  return camber::bench::run_benchmarks(
      argument_count, arguments,
      [] {
        for (const auto& [name, attend] : {std::pair{"kernels", &kernels}, std::pair{"gathered", &gathered}}) {
          if (!agrees(name, attend)) return false;
          const std::string prefix = std::string("sparse_attention/") + name;
          benchmark::RegisterBenchmark((prefix + "/forward").c_str(), forward, attend)->Arg(25)->Arg(225);
          benchmark::RegisterBenchmark((prefix + "/forward+backward").c_str(), both, attend)->Arg(25)->Arg(225);
        }
        return true;
      });
}
