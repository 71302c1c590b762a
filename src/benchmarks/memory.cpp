#include "camber/benchmarks/memory.h"

#include <fstream>
#include <stdexcept>
#include <string>

#include <malloc.h>

#include "benchmarks/attention_peer.h"

namespace camber::benchmarks {
namespace {

// A field of /proc/self/status in bytes, e.g. "VmHWM:".
double status_bytes(const std::string& field) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(field)) return 1024.0 * std::stod(line.substr(field.size()));
  throw std::runtime_error("[bench] memory cannot be measured: /proc/self/status has no " + field);
}

Peer find(const AttentionBenchOptions& options, std::string_view name, std::string_view pass) {
  for (const Peer& peer : attention_peers(options))
    if (peer.name == name && peer.pass == pass) return peer;
  throw std::invalid_argument("--memory-of must be a known row, NAME:PASS, got '" + std::string(name) + ":" +
                              std::string(pass) + "'");
}

}  // namespace

double resident_bytes() {
  return status_bytes("VmRSS:");
}

double peak_resident_bytes() {
  return status_bytes("VmHWM:");
}

void restart_peak() {
  malloc_trim(0);
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;
  if (!file) throw std::runtime_error("[bench] memory cannot be measured: /proc/self/clear_refs is closed");
}

double measure_memory(const AttentionBenchOptions& options, std::string_view name, std::string_view pass) {
  options.validate();
  set_threads(options.threads);
  // A small run first: threads, code and tables that a process needs once are no part of the answer.
  AttentionBenchOptions small = options;
  small.queries = 16;
  small.keys = 5000;
  {
    const auto warm = find(small, name, pass).ready();
    warm.before();
    warm.run();
    warm.release();
  }
  const auto ready = find(options, name, pass).ready();
  restart_peak();
  const double begin = resident_bytes();
  ready.before();
  const auto outputs = static_cast<double>(ready.run());
  return (peak_resident_bytes() - begin - outputs) / (1024.0 * 1024.0);
}

}  // namespace camber::benchmarks
