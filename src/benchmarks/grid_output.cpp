#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "camber/benchmarks/grid.h"

namespace camber::benchmarks {
namespace {

using OrderedJson = nlohmann::ordered_json;

// One table of speedups: keys across, batch and queries down.
struct SpeedupTable {
  std::string title{};
  std::vector<std::int64_t> keys{};
  std::vector<std::pair<std::int64_t, std::int64_t>> sides{};  // batch, queries
  std::map<std::pair<std::pair<std::int64_t, std::int64_t>, std::int64_t>, double> speedup{};
};

std::vector<SpeedupTable> tables_of(const GridBench& bench) {
  std::vector<SpeedupTable> tables;
  const auto note = [](auto& list, const auto& value) {
    if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
  };
  for (const GridRow& row : bench.rows) {
    const GridCell& c = row.cell;
    const std::string title = fmt::format("{}, {}, {}", c.bias == "none" ? "no bias" : c.bias, c.pass, c.type);
    if (tables.empty() || tables.back().title != title) tables.push_back({.title = title});
    note(tables.back().keys, c.keys);
    note(tables.back().sides, std::pair{c.batch, c.queries});
    tables.back().speedup[{{c.batch, c.queries}, c.keys}] = row.speedup();
  }
  return tables;
}

std::string text_of(const SpeedupTable& table) {
  std::string text = fmt::format("\n{}\n{:<14}", table.title, "");
  for (const std::int64_t keys : table.keys) text += fmt::format(" {:>8}", fmt::format("K={}", keys));
  text += '\n';
  for (const auto& side : table.sides) {
    text += fmt::format("{:<14}", fmt::format("B={} Q={}", side.first, side.second));
    for (const std::int64_t keys : table.keys) {
      const auto found = table.speedup.find({side, keys});
      text += found == table.speedup.end() ? fmt::format(" {:>8}", "-") : fmt::format(" {:>8.2f}", found->second);
    }
    text += '\n';
  }
  return text;
}

}  // namespace

std::string to_text(const GridBench& bench) {
  const GridBenchOptions& o = bench.options;
  std::string text = fmt::format("{}, {} threads, torch {} ({})\n", bench.processor, o.threads, bench.torch_version,
                                 bench.torch_capability);
  text += fmt::format("H={} D={}, best of {} s in turns, {} time; how many times faster than\n", o.heads, o.width,
                      o.seconds, o.processor_time ? "processor" : "wall");
  text += "scaled_dot_product_attention ours is, below 1 torch is the faster one\n";
  for (const SpeedupTable& table : tables_of(bench)) text += text_of(table);
  if (!bench.problems.empty()) text += fmt::format("\n{:<44} {:>9} {:>9} {:>6}\n", "", "ms", "torch ms", "x");
  for (const GridRow& row : bench.problems)
    text += fmt::format("{:<44} {:>9.3f} {:>9.3f} {:>6.2f}\n", row.cell.name(), row.ours, row.theirs, row.speedup());
  const auto worst = std::min_element(bench.rows.begin(), bench.rows.end(),
                                      [](const auto& a, const auto& b) { return a.speedup() < b.speedup(); });
  text += fmt::format("\n{} cells, geometric mean {:.2f}, {} below 0.97\n", bench.rows.size(), bench.geometric_mean(),
                      bench.slower());
  if (worst != bench.rows.end())
    text += fmt::format("worst {:.2f}: {} ({:.4f} ms, torch {:.4f} ms)\n", worst->speedup(), worst->cell.name(),
                        worst->ours, worst->theirs);
  return text;
}

std::string to_json(const GridBench& bench) {
  const GridBenchOptions& o = bench.options;
  OrderedJson answer;
  answer["processor"] = bench.processor;
  answer["threads"] = o.threads;
  answer["torch"] = {{"version", bench.torch_version}, {"capability", bench.torch_capability}};
  answer["problem"] = {{"heads", o.heads},     {"width", o.width}, {"seconds", o.seconds},
                       {"repeats", o.repeats}, {"seed", o.seed},   {"clock", o.processor_time ? "processor" : "wall"}};
  answer["geometric_mean"] = bench.geometric_mean();
  answer["below_0.97"] = bench.slower();
  for (const auto& [name, rows] : {std::pair{"rows", &bench.rows}, std::pair{"problems", &bench.problems}}) {
    answer[name] = OrderedJson::array();
    for (const GridRow& row : *rows)
      answer[name].push_back({{"bias", row.cell.bias},
                              {"pass", row.cell.pass},
                              {"type", row.cell.type},
                              {"batch", row.cell.batch},
                              {"heads", row.cell.heads},
                              {"queries", row.cell.queries},
                              {"keys", row.cell.keys},
                              {"width", row.cell.width},
                              {"milliseconds", row.ours},
                              {"torch_milliseconds", row.theirs},
                              {"speedup", row.speedup()}});
  }
  return answer.dump(2) + "\n";
}

std::string to_csv(const GridBench& bench) {
  std::string text = "bias,pass,type,batch,queries,keys,milliseconds,torch_milliseconds,speedup\n";
  std::vector<GridRow> all = bench.rows;
  all.insert(all.end(), bench.problems.begin(), bench.problems.end());
  for (const GridRow& row : all)
    text += fmt::format("{},{},{},{},{},{},{},{},{}\n", row.cell.bias, row.cell.pass, row.cell.type, row.cell.batch,
                        row.cell.queries, row.cell.keys, row.ours, row.theirs, row.speedup());
  return text;
}

}  // namespace camber::benchmarks
