#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "camber/benchmarks/attention.h"

namespace camber::benchmarks {
namespace {

using Json = nlohmann::ordered_json;

Json optional_number(const std::optional<double>& number) {
  return number ? Json(*number) : Json();
}

Json to_json(const BenchRow& row) {
  return {{"name", row.name},
          {"pass", row.pass},
          {"milliseconds", row.milliseconds},
          {"gflops", row.gflops},
          {"share_of_peak", row.share_of_peak},
          {"extra_megabytes", optional_number(row.extra_megabytes)},
          {"speedup", optional_number(row.speedup)},
          {"compared_with", row.compared_with}};
}

std::string text_or_dash(const std::optional<double>& number, int decimals) {
  return number ? fmt::format("{:.{}f}", *number, decimals) : "-";
}

std::string line_of(const BenchRow& row) {
  return fmt::format("{:<29} {:<8} {:>8.2f} {:>7.1f} {:>6.1f} {:>8} {:>6}\n", row.name,
                     row.pass == "forward+backward" ? "both" : row.pass, row.milliseconds, row.gflops,
                     100 * row.share_of_peak, text_or_dash(row.extra_megabytes, 1), text_or_dash(row.speedup, 2));
}

std::string csv_of(const std::string& table, std::int64_t value, const BenchRow& row) {
  return fmt::format("{},{},{},{},{},{},{},{},{},{}\n", table, value, row.name, row.pass, row.milliseconds, row.gflops,
                     row.share_of_peak, row.extra_megabytes ? fmt::format("{}", *row.extra_megabytes) : "",
                     row.speedup ? fmt::format("{}", *row.speedup) : "", row.compared_with);
}

}  // namespace

std::string to_text(const AttentionBench& bench) {
  const AttentionBenchOptions& o = bench.options;
  std::string text = fmt::format("{}, {} threads, torch {} ({})\n", bench.processor, o.threads, bench.torch_version,
                                 bench.torch_capability);
  for (const auto& [name, value] : bench.environment) text += fmt::format("{}={}\n", name, value);
  text += fmt::format("B={} H={} D={} Q={} K={}, float32, best of {}; {}\n", o.batch, o.heads, o.width, o.queries,
                      o.keys, o.repeats, bench.implementation);
  text += fmt::format("peak of multiply-adds {:.1f} GFLOP/s, of bfloat16 dot products {:.1f}\n({})\n\n",
                      bench.peaks.fma, bench.peaks.bf16, bench.peaks.instructions);
  const std::string head = fmt::format("{:<29} {:<8} {:>8} {:>7} {:>6} {:>8} {:>6}\n", "", "pass", "ms", "GFLOP/s",
                                       "% peak", "extra MB", "x");
  text += head;
  for (const BenchRow& row : bench.rows) text += line_of(row);
  text += "\nx: how many times faster Camber's row of the same work is; below 1, this row is\nthe faster one.\n";
  std::string table;
  for (const ScalingRow& row : bench.scaling) {
    const std::string title = fmt::format("{} = {}", row.axis, row.value);
    if (title != table) text += fmt::format("\n{}\n{}", title, head);
    table = title;
    text += line_of(row.row);
  }
  return text;
}

std::string to_json(const AttentionBench& bench) {
  const AttentionBenchOptions& o = bench.options;
  Json answer;
  answer["processor"] = bench.processor;
  answer["threads"] = o.threads;
  answer["torch"] = {{"version", bench.torch_version}, {"capability", bench.torch_capability}};
  answer["environment"] = Json::object();
  for (const auto& [name, value] : bench.environment) answer["environment"][name] = value;
  answer["implementation"] = bench.implementation;
  answer["problem"] = {{"batch", o.batch}, {"heads", o.heads},     {"width", o.width}, {"queries", o.queries},
                       {"keys", o.keys},   {"repeats", o.repeats}, {"seed", o.seed}};
  answer["peak"] = {
      {"fma_gflops", bench.peaks.fma}, {"bf16_gflops", bench.peaks.bf16}, {"instructions", bench.peaks.instructions}};
  answer["rows"] = Json::array();
  for (const BenchRow& row : bench.rows) answer["rows"].push_back(to_json(row));
  answer["scaling"] = Json::array();
  for (const ScalingRow& row : bench.scaling) {
    Json entry = {{"axis", row.axis}, {"value", row.value}};
    entry.update(to_json(row.row));
    answer["scaling"].push_back(entry);
  }
  return answer.dump(2) + "\n";
}

std::string to_csv(const AttentionBench& bench) {
  std::string text = "axis,value,name,pass,milliseconds,gflops,share_of_peak,extra_megabytes,speedup,compared_with\n";
  for (const BenchRow& row : bench.rows) text += csv_of("", 0, row);
  for (const ScalingRow& row : bench.scaling) text += csv_of(row.axis, row.value, row.row);
  return text;
}

}  // namespace camber::benchmarks
