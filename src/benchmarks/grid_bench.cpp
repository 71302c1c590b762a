#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <stdexcept>

#include <time.h>

#include "benchmarks/grid_peer.h"
#include "benchmarks/grid_rows.h"

namespace camber::benchmarks {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kMostPairs = std::int64_t{900} * 22384;  // B Q K of the reference size

double now_in_milliseconds(const GridBenchOptions& o) {
  timespec now{};
  clock_gettime(o.processor_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  const double passed = 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
  return o.processor_time ? passed / static_cast<double>(o.threads) : passed;
}

double milliseconds_of(const Peer::Run& run, const GridBenchOptions& o) {
  run.before();
  const double begin = now_in_milliseconds(o);
  run.run();
  const double elapsed = now_in_milliseconds(o) - begin;
  run.release();
  return elapsed;
}

bool is_wanted(const GridCell& cell, const std::vector<std::string>& only) {
  const std::string name = cell.name();
  return only.empty() || std::any_of(only.begin(), only.end(),
                                     [&](const std::string& word) { return name.find(word) != std::string::npos; });
}

std::vector<GridCell> cells_of(const GridBenchOptions& o) {
  std::vector<GridCell> cells;
  const auto add = [&](const GridCell& cell) {
    if (is_wanted(cell, o.only)) cells.push_back(cell);
  };
  for (const char* bias : {"none", "mask", "learned_mask"})
    for (const char* pass : {"inference", "training"})
      for (const std::string& type : o.types)
        for (const double batch : o.batches)
          for (const double queries : o.queries)
            for (const double keys : o.keys) {
              const bool learned = std::string(bias) == "learned_mask";
              if (batch * queries * keys > static_cast<double>(kMostPairs)) continue;
              if (learned && std::string(pass) == "inference") continue;  // the same as "mask"
              add({.bias = bias,
                   .pass = pass,
                   .type = type,
                   .batch = static_cast<std::int64_t>(batch),
                   .heads = o.heads,
                   .queries = static_cast<std::int64_t>(queries),
                   .keys = static_cast<std::int64_t>(keys),
                   .width = o.width});
            }
  return cells;
}

// What the models are that people would swap the call in.
std::vector<GridCell> problem_cells(const GridBenchOptions& o) {
  std::vector<GridCell> cells;
  if (!o.problems) return cells;
  for (const std::string& type : o.types)
    for (const char* pass : {"inference", "training"})
      for (const GridCell& shape : {GridCell{.bias = "causal", .queries = 2048, .keys = 2048, .width = 64},
                                    GridCell{.bias = "swin", .batch = 512, .heads = 3, .queries = 49, .keys = 49},
                                    GridCell{.bias = "t5", .heads = 12, .queries = 512, .keys = 512, .width = 64},
                                    GridCell{.bias = "t5", .heads = 12, .queries = 2048, .keys = 2048, .width = 64},
                                    GridCell{.bias = "pair", .batch = 256, .heads = 4, .queries = 256, .keys = 256}}) {
        GridCell cell = shape;
        cell.pass = pass;
        cell.type = type;
        if (is_wanted(cell, o.only)) cells.push_back(cell);
      }
  return cells;
}

// In turns, so that what else runs on the machine meets both.
GridRow time_cell(const GridCell& cell, const GridBenchOptions& o) {
  const GridRuns runs = grid_runs(cell, o.seed);
  constexpr double kNever = std::numeric_limits<double>::infinity();
  GridRow row{.cell = cell, .ours = kNever, .theirs = kNever};
  milliseconds_of(runs.ours, o);
  milliseconds_of(runs.theirs, o);
  const auto begin = Clock::now();
  const auto in_time = [&] { return std::chrono::duration<double>(Clock::now() - begin).count() < o.seconds; };
  for (std::int64_t round = 0; round < o.repeats || in_time(); ++round) {
    row.ours = std::min(row.ours, milliseconds_of(runs.ours, o));
    row.theirs = std::min(row.theirs, milliseconds_of(runs.theirs, o));
  }
  return row;
}

void check_axis(const char* name, const std::vector<double>& values) {
  if (values.empty()) throw std::invalid_argument(std::string(name) + " must have at least one value, got none");
  for (const double value : values)
    if (!(value >= 1 && value == std::floor(value) && value <= 1e9))
      throw std::invalid_argument(std::string(name) + " must hold whole numbers from 1 on, got " +
                                  std::to_string(value));
}

}  // namespace

void GridBenchOptions::validate() const {
  check_axis("batches", batches);
  check_axis("queries", queries);
  check_axis("keys", keys);
  check_axis("heads", {static_cast<double>(heads)});
  check_axis("width", {static_cast<double>(width)});
  check_axis("repeats", {static_cast<double>(repeats)});
  for (const std::string& type : types)
    if (!known_type(type))
      throw std::invalid_argument("types must be of float32, bfloat16 and half, got '" + type + "'");
  if (!(seconds >= 0 && seconds <= 3600))
    throw std::invalid_argument("seconds must lie in 0 .. 3600, got " + std::to_string(seconds));
}

std::string GridCell::name() const {
  return bias + "/" + pass + "/" + type + "/B" + std::to_string(batch) + "/Q" + std::to_string(queries) + "/K" +
         std::to_string(keys);
}

double GridBench::geometric_mean() const {
  double sum = 0;
  for (const GridRow& row : rows) sum += std::log(row.speedup());
  return rows.empty() ? 1 : std::exp(sum / static_cast<double>(rows.size()));
}

std::int64_t GridBench::slower() const {
  return std::count_if(
      rows.begin(), rows.end(), [](const GridRow& row) { return row.speedup() < 0.97; });
}

GridBench bench_grid(const GridBenchOptions& options, const BenchProgress& progress) {
  options.validate();
  GridBench bench{.options = options};
  bench.options.threads = set_threads(options.threads);
  bench.processor = processor_name();
  bench.torch_version = torch_version();
  bench.torch_capability = torch_capability();
  auto cells = cells_of(options);
  const std::size_t of_grid = cells.size();
  for (const GridCell& cell : problem_cells(options)) cells.push_back(cell);
  if (cells.empty())
    throw std::invalid_argument("only must be part of a cell's name (none/inference/float32/B1/Q900/K22384), got '" +
                                (options.only.empty() ? std::string() : options.only.front()) + "'");
  GridRows measured(options.rows_file, bench);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (progress) progress(static_cast<std::int64_t>(i), static_cast<std::int64_t>(cells.size()), cells[i].name());
    GridRow row{.cell = cells[i]};
    if (const GridRow* earlier = measured.find(cells[i])) {
      row.ours = earlier->ours;
      row.theirs = earlier->theirs;
    } else {
      row = time_cell(cells[i], bench.options);
      measured.add(row);
    }
    (i < of_grid ? bench.rows : bench.problems).push_back(row);
  }
  return bench;
}

}  // namespace camber::benchmarks
