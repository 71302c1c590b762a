#include "camber/benchmarks/peak.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

// What the processor gives when nothing else is in the way. In assembly, so that no compiler's choice of registers
// comes between. Each function returns the operations of one call.
namespace camber::benchmarks {
namespace {

constexpr std::int64_t kTurns = 20000;

#if defined(__x86_64__)
// Twelve independent chains hide a latency of 4 at two a cycle; two registers are read, one is added to.
#define CAMBER_CHAINS(operation, registers)                                                         \
  operation registers "0\n" operation registers "1\n" operation registers "2\n" operation registers \
                      "3\n" operation registers "4\n" operation registers "5\n" operation registers \
                      "6\n" operation registers "7\n" operation registers "8\n" operation registers \
                      "9\n" operation registers "10\n" operation registers "11\n"
#define CAMBER_TURNS(operation, registers)                                                                             \
  std::int64_t turns = kTurns;                                                                                         \
  __asm__ volatile("1:\n" CAMBER_CHAINS(operation, registers) "dec %0\njnz 1b\nvzeroupper"                             \
                   : "+r"(turns)                                                                                       \
                   :                                                                                                   \
                   : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", \
                     "xmm14", "xmm15", "cc")

constexpr double kChains = 12;

double fma_avx2() {
  CAMBER_TURNS("vfmadd231ps ", "%%ymm14, %%ymm15, %%ymm");
  return 2 * 8 * kChains * kTurns;
}
double fma_avx512() {
  CAMBER_TURNS("vfmadd231ps ", "%%zmm14, %%zmm15, %%zmm");
  return 2 * 16 * kChains * kTurns;
}
double bf16_avx512() {
  CAMBER_TURNS("vdpbf16ps ", "%%zmm14, %%zmm15, %%zmm");
  return 2 * 32 * kChains * kTurns;
}
#undef CAMBER_TURNS
#undef CAMBER_CHAINS
#endif

double fma_scalar() {
  float sums[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  for (int turn = 0; turn < kTurns; ++turn)
    for (float& sum : sums) {
      sum = sum * 0.999F + 0.001F;
      __asm__ volatile("" : "+r"(sum));
    }
  return 2.0 * 8 * kTurns;
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// GFLOP/s over all threads, best of several short bursts that all threads begin together.
double best_rate(double (*loop)(), std::int64_t threads) {
  constexpr int kBursts = 6;
  double best = 0;
  for (int burst = 0; burst < kBursts; ++burst) {
    std::atomic<std::int64_t> waiting = threads;
    std::vector<double> rates(static_cast<std::size_t>(threads));
    std::vector<std::thread> workers;
    workers.reserve(static_cast<std::size_t>(threads));
    for (std::int64_t t = 0; t < threads; ++t)
      workers.emplace_back([&, t] {
        --waiting;
        while (waiting > 0) std::this_thread::yield();
        const auto begin = std::chrono::steady_clock::now();
        double operations = 0;
        while (seconds_since(begin) < 0.01) operations += loop();
        rates[static_cast<std::size_t>(t)] = operations / seconds_since(begin) * 1e-9;
      });
    for (auto& worker : workers) worker.join();
    double sum = 0;
    for (const double rate : rates) sum += rate;
    best = std::max(best, sum);
  }
  return best;
}

}  // namespace

void ProcessorPeaks::raise_to(const ProcessorPeaks& seen) {
  fma = std::max(fma, seen.fma);
  bf16 = std::max(bf16, seen.bf16);
  instructions = seen.instructions;
}

ProcessorPeaks measure_peaks(std::int64_t threads) {
  const std::int64_t count = std::max<std::int64_t>(1, threads);
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) {
    ProcessorPeaks peaks{.fma = best_rate(fma_avx512, count), .bf16 = 0, .instructions = "avx512"};
    const bool bf16 = __builtin_cpu_supports("avx512bf16");
    peaks.bf16 = bf16 ? best_rate(bf16_avx512, count) : peaks.fma;
    if (bf16) peaks.instructions += ", avx512_bf16";
    return peaks;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    const double fma = best_rate(fma_avx2, count);
    return {.fma = fma, .bf16 = fma, .instructions = "avx2"};
  }
#endif
  const double plain = best_rate(fma_scalar, count);
  return {.fma = plain, .bf16 = plain, .instructions = "scalar"};
}

}  // namespace camber::benchmarks
