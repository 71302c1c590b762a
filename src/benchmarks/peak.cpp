#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "camber/benchmarks/attention.h"

// Loops of independent multiply-adds that never leave the registers: what the processor gives when nothing else is in
// the way. Each function returns the operations of one round.
namespace camber::benchmarks {
namespace {

constexpr int kRounds = 20000;

#if defined(__x86_64__)
constexpr int kAccumulators = 12;  // latency 4 at two a cycle, with room to spare

__attribute__((target("avx512f"))) double fma_avx512() {
  __m512 sums[kAccumulators];
  for (auto& sum : sums) sum = _mm512_set1_ps(1.0F);
  const __m512 factor = _mm512_set1_ps(0.999F), term = _mm512_set1_ps(0.001F);
  for (int round = 0; round < kRounds; ++round)
    for (auto& sum : sums) {
      sum = _mm512_fmadd_ps(sum, factor, term);
      __asm__ volatile("" : "+v"(sum));
    }
  return 2.0 * 16 * kAccumulators * kRounds;
}

__attribute__((target("avx2,fma"))) double fma_avx2() {
  __m256 sums[kAccumulators];
  for (auto& sum : sums) sum = _mm256_set1_ps(1.0F);
  const __m256 factor = _mm256_set1_ps(0.999F), term = _mm256_set1_ps(0.001F);
  for (int round = 0; round < kRounds; ++round)
    for (auto& sum : sums) {
      sum = _mm256_fmadd_ps(sum, factor, term);
      __asm__ volatile("" : "+x"(sum));
    }
  return 2.0 * 8 * kAccumulators * kRounds;
}

__attribute__((target("avx512f,avx512bf16"))) double bf16_avx512() {
  __m512 sums[kAccumulators];
  for (auto& sum : sums) sum = _mm512_set1_ps(1.0F);
  const __m512bh pairs = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.01F), _mm512_set1_ps(0.02F));
  for (int round = 0; round < kRounds; ++round)
    for (auto& sum : sums) {
      sum = _mm512_dpbf16_ps(sum, pairs, pairs);
      __asm__ volatile("" : "+v"(sum));
    }
  return 4.0 * 16 * kAccumulators * kRounds;
}
#endif

double fma_scalar() {
  float sums[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  for (int round = 0; round < kRounds; ++round)
    for (float& sum : sums) {
      sum = sum * 0.999F + 0.001F;
      __asm__ volatile("" : "+r"(sum));
    }
  return 2.0 * 8 * kRounds;
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
