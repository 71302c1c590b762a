#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "camber/benchmarks/head.h"

namespace camber::benchmarks {

std::string to_text(const HeadBench& bench) {
  const HeadBenchOptions& o = bench.options;
  std::string text = fmt::format("B={} Q={} K={}, {} layers, {} parameters ({:.0f} MB), {} threads\n", o.batch,
                                 o.queries, bench.keys, o.layers, bench.parameters, bench.weight_megabytes, o.threads);
  text += fmt::format("{} window entries, {:.0f} a query\n", bench.window_entries,
                      static_cast<double>(bench.window_entries) / static_cast<double>(o.batch * o.queries));
  if (bench.ours_to_float)
    text += fmt::format("{}: camber/head lies {:.1e} of the largest value from float32, torch/head {:.1e}\n\n",
                        o.precision, *bench.ours_to_float, *bench.theirs_to_float);
  else
    text += fmt::format("camber/head and torch/head agree to {:.1e} of the largest value\n(tolerance {:.0e})\n\n",
                        bench.difference, bench.tolerance);
  text += fmt::format("{:<28} {:>10} {:>10}\n", "forward", "best ms", "median ms");
  for (const HeadBenchRow& row : bench.rows)
    text += fmt::format("{:<28} {:>10.1f} {:>10.1f}\n", row.name, row.best, row.median);
  text += fmt::format("\ncamber/head is {:.2f} times faster than torch/head\n", bench.speedup);
  text += fmt::format("router and bias cost {:.1f} %\n", 100 * bench.router_and_bias);
  if (bench.training)
    text += fmt::format(
        "a training step with {} denoising queries a frame takes {:.1f} s and\n{:.0f} MB above the weights at its "
        "peak\n",
        bench.training->denoising_queries, bench.training->seconds, bench.training->megabytes);
  return text;
}

std::string to_json(const HeadBench& bench) {
  const HeadBenchOptions& o = bench.options;
  nlohmann::ordered_json answer;
  answer["problem"] = {{"batch", o.batch},        {"queries", o.queries}, {"keys", bench.keys},
                       {"layers", o.layers},      {"objects", o.objects}, {"threads", o.threads},
                       {"repeats", o.repeats},    {"seed", o.seed},       {"window_entries", bench.window_entries},
                       {"precision", o.precision}};
  answer["parameters"] = bench.parameters;
  answer["weight_megabytes"] = bench.weight_megabytes;
  answer["difference"] = bench.difference;
  answer["tolerance"] = bench.tolerance;
  if (bench.ours_to_float) {
    answer["difference_from_float32"] = *bench.ours_to_float;
    answer["torch_difference_from_float32"] = *bench.theirs_to_float;
  }
  answer["rows"] = nlohmann::ordered_json::array();
  for (const HeadBenchRow& row : bench.rows)
    answer["rows"].push_back(
        {{"name", row.name}, {"best_milliseconds", row.best}, {"median_milliseconds", row.median}});
  answer["speedup"] = bench.speedup;
  answer["router_and_bias"] = bench.router_and_bias;
  if (bench.training)
    answer["training"] = {{"denoising_queries", bench.training->denoising_queries},
                          {"seconds", bench.training->seconds},
                          {"megabytes_above_weights", bench.training->megabytes}};
  return answer.dump(2) + "\n";
}

}  // namespace camber::benchmarks
