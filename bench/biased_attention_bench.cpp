// biased_attention over the table of cases that the tests use, per implementation and pass.
//
//   build/bench/biased_attention_bench --benchmark_filter=auto/several_tiles
//
// Before anything is timed, every case is compared with the float64 reference.

#include <benchmark/benchmark.h>

#include <torch/csrc/autograd/autograd.h>

#include "run_benchmarks.h"
#include "support/attention_cases.h"
#include "support/comparison.h"

namespace {

using camber::ops::Implementation;
using camber::proof::AttentionCase;
using camber::proof::AttentionTestInputs;

camber::ops::AttentionOutput attend(const AttentionTestInputs& inputs, Implementation implementation) {
  auto options = inputs.options;
  options.implementation = implementation;
  return camber::ops::biased_attention(inputs.q, inputs.k, inputs.v, inputs.bias, options);
}

double forward_flops(const AttentionCase& c) {
  return 2.0 * static_cast<double>(c.batch * c.heads * c.queries * c.keys * (c.width + c.value_width));
}

void forward(benchmark::State& state, const AttentionCase& c, Implementation implementation) {
  const auto inputs = camber::proof::make_inputs(c).to(at::kFloat);
  const at::NoGradGuard no_gradient;
  for (auto _ : state) benchmark::DoNotOptimize(attend(inputs, implementation).output);
  state.counters["FLOP/s"] = benchmark::Counter(forward_flops(c), benchmark::Counter::kIsIterationInvariantRate);
}

void both(benchmark::State& state, const AttentionCase& c, Implementation implementation) {
  const auto inputs = camber::proof::make_inputs(c).to(at::kFloat).with_gradients();
  std::vector<at::Tensor> leaves;
  for (const auto& [name, leaf] : inputs.differentiable()) leaves.push_back(leaf);
  for (auto _ : state) {
    const auto output = attend(inputs, implementation).output;
    benchmark::DoNotOptimize(torch::autograd::grad({output}, leaves, {at::ones_like(output)}));
  }
  state.counters["FLOP/s"] = benchmark::Counter(3.5 * forward_flops(c), benchmark::Counter::kIsIterationInvariantRate);
}

// The float error bound of the tests: (2e-6 + 4 * 2^-24 * max|z|) of the largest value.
bool agrees(const AttentionCase& c, Implementation implementation) {
  const auto exact = camber::proof::make_inputs(c);
  const at::NoGradGuard no_gradient;
  const auto expected = attend(exact, Implementation::kReference).output;
  const auto got = attend(exact.to(at::kFloat), implementation).output.to(at::kDouble);
  const double bound = 2e-6 + 4 * 0x1p-24 * camber::proof::largest_score(exact);
  return camber::bench::held(c.name.c_str(), camber::proof::close(got, expected, bound));
}

}  // namespace

int main(int argument_count, char** arguments) {
  return camber::bench::run_benchmarks(
      argument_count, arguments,
      [] {
        for (const AttentionCase& c : camber::proof::attention_cases()) {
          for (const auto implementation :
               {Implementation::kAuto, Implementation::kStreamed, Implementation::kReference}) {
            if (!agrees(c, implementation)) return false;
            const std::string name = std::string("biased_attention/") + name_of(implementation) + "/" + c.name;
            benchmark::RegisterBenchmark((name + "/forward").c_str(), forward, c, implementation);
            benchmark::RegisterBenchmark((name + "/forward+backward").c_str(), both, c, implementation);
          }
        }
        return true;
      });
}
