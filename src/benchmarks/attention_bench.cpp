#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <stdexcept>

#include "benchmarks/attention_peer.h"

namespace camber::benchmarks {
namespace {

constexpr const char* kEnvironment[] = {"CAMBER_ISA", "ATEN_CPU_CAPABILITY", "MKL_ENABLE_INSTRUCTIONS",
                                        "ONEDNN_MAX_CPU_ISA", "OMP_WAIT_POLICY"};

bool is_wanted(const Peer& peer, const std::vector<std::string>& only) {
  return only.empty() || std::any_of(
                             only.begin(), only.end(),
                             [&](const std::string& word) { return peer.name.find(word) != std::string::npos; });
}

struct Timed {
  Peer peer{};
  Peer::Run ready{};
  double best = std::numeric_limits<double>::infinity();  // milliseconds
};

void time_once(Timed& timed) {
  timed.ready.before();
  const auto begin = std::chrono::steady_clock::now();
  timed.ready.run();
  const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - begin;
  timed.ready.release();
  timed.best = std::min(timed.best, elapsed.count());
}

// Counts the runs for the progress line.
class Counter {
 public:
  Counter(const BenchProgress& progress, std::int64_t total) : progress_(progress), total_(total) {}
  void begin(const std::string& what) {
    if (progress_) progress_(done_, total_, what);
    ++done_;
  }

 private:
  const BenchProgress& progress_;
  std::int64_t total_, done_ = 0;
};

// Times the peers in turns, one round before the counted ones; the peaks are measured between the rounds.
std::vector<BenchRow> time_in_turns(const std::vector<Peer>& peers, const AttentionBenchOptions& options,
                                    std::int64_t threads, ProcessorPeaks& peaks, Counter& counter) {
  std::vector<Timed> all;
  all.reserve(peers.size());
  for (const Peer& peer : peers) all.push_back({.peer = peer, .ready = peer.ready()});
  for (std::int64_t round = 0; round <= options.repeats; ++round) {
    peaks.raise_to(measure_peaks(threads));
    for (Timed& timed : all) {
      counter.begin(timed.peer.name + " " + timed.peer.pass);
      time_once(timed);
      if (round == 0) timed.best = std::numeric_limits<double>::infinity();
    }
  }
  std::vector<BenchRow> rows;
  rows.reserve(all.size());
  for (const Timed& timed : all)
    rows.push_back({.name = timed.peer.name,
                    .pass = timed.peer.pass,
                    .milliseconds = timed.best,
                    .gflops = timed.peer.gflop / timed.best * 1e3,
                    .compared_with = timed.peer.compared_with});
  return rows;
}

void finish_rows(std::vector<BenchRow>& rows, const std::vector<Peer>& peers, const ProcessorPeaks& peaks) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].share_of_peak = rows[i].gflops / (peers[i].bfloat16 ? peaks.bf16 : peaks.fma);
    for (const BenchRow& other : rows)
      if (other.name == rows[i].compared_with && other.pass == rows[i].pass)
        rows[i].speedup = rows[i].milliseconds / other.milliseconds;
  }
}

std::vector<Peer> wanted_peers(const AttentionBenchOptions& options) {
  auto peers = attention_peers(options);
  std::erase_if(peers, [&](const Peer& peer) { return !is_wanted(peer, options.only); });
  if (peers.empty()) {
    std::string known;
    for (const Peer& peer : attention_peers(options))
      if (known.find(peer.name + ",") == std::string::npos) known += peer.name + ", ";
    throw std::invalid_argument("only must be part of a row's name (" + known.substr(0, known.size() - 2) + "), got '" +
                                options.only.front() + "'");
  }
  return peers;
}

// The rows of the scaling tables: ours, and the two fused calls of torch.
std::vector<Peer> scaling_peers(const AttentionBenchOptions& options) {
  auto peers = attention_peers(options);
  std::erase_if(peers, [](const Peer& peer) {
    const bool known = peer.name == "camber/windows" || peer.name == "sdpa/no_bias" || peer.name == "sdpa/dense_bias";
    return !known || peer.pass == "backward";
  });
  return peers;
}

struct ScalingPoint {
  std::string axis{};
  std::int64_t value = 0, threads = 0;
  AttentionBenchOptions options{};
};

std::vector<ScalingPoint> scaling_points(const AttentionBenchOptions& base, std::int64_t threads) {
  std::vector<ScalingPoint> points;
  const auto add = [&](const char* axis, std::int64_t value, std::int64_t AttentionBenchOptions::*field) {
    AttentionBenchOptions options = base;
    options.*field = value;
    points.push_back({.axis = axis, .value = value, .threads = threads, .options = options});
  };
  for (const std::int64_t keys : {5000, 22384, 56400}) add("keys", keys, &AttentionBenchOptions::keys);
  for (const std::int64_t queries : {100, 300, 900, 1800}) add("queries", queries, &AttentionBenchOptions::queries);
  for (const std::int64_t batch : {1, 2, 4}) add("batch", batch, &AttentionBenchOptions::batch);
  for (std::int64_t count = 1; count < 2 * threads; count *= 2) {
    add("threads", std::min(count, threads), &AttentionBenchOptions::threads);
    points.back().threads = points.back().value;
  }
  return points;
}

std::vector<ScalingRow> time_scaling(const AttentionBenchOptions& base, std::int64_t threads, Counter& counter) {
  std::vector<ScalingRow> scaling;
  for (const ScalingPoint& point : scaling_points(base, threads)) {
    set_threads(point.threads);
    const auto peers = scaling_peers(point.options);
    ProcessorPeaks peaks;
    auto rows = time_in_turns(peers, point.options, point.threads, peaks, counter);
    finish_rows(rows, peers, peaks);
    for (BenchRow& row : rows) scaling.push_back({.axis = point.axis, .value = point.value, .row = std::move(row)});
  }
  set_threads(threads);
  return scaling;
}

}  // namespace

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

AttentionBench bench_attention(const AttentionBenchOptions& options, const MemoryOfRow& memory_of,
                               const BenchProgress& progress) {
  options.validate();
  AttentionBench bench{.options = options};
  bench.options.threads = set_threads(options.threads);
  bench.processor = processor_name();
  bench.torch_version = torch_version();
  bench.torch_capability = torch_capability();
  for (const char* name : kEnvironment)
    if (const char* value = std::getenv(name)) bench.environment.emplace_back(name, value);
  const auto peers = wanted_peers(options);
  check_agreement(options);
  bench.implementation = implementation_sentence(options);

  const auto rounds = options.repeats + 1;
  const bool memory = options.memory && options.device == "cpu";  // a device keeps its own accounts
  auto total = static_cast<std::int64_t>(peers.size()) * (rounds + (memory ? 1 : 0));
  if (options.scaling)
    total += static_cast<std::int64_t>(scaling_points(options, bench.options.threads).size() *
                                       scaling_peers(options).size()) *
             rounds;
  Counter counter(progress, total);
  bench.rows = time_in_turns(peers, options, bench.options.threads, bench.peaks, counter);
  finish_rows(bench.rows, peers, bench.peaks);
  if (memory)
    for (BenchRow& row : bench.rows) {
      counter.begin("memory of " + row.name + " " + row.pass);
      if (row.pass != "backward") row.extra_megabytes = memory_of(bench.options, row.name, row.pass);
    }
  if (options.scaling) bench.scaling = time_scaling(options, bench.options.threads, counter);
  return bench;
}

}  // namespace camber::benchmarks
